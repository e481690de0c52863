package train

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// lineFile writes a file of n lines, each with its number and parity.
func lineFile(t testing.TB, name, line string, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line+"\n", i%2)
	}
	path := filepath.Join(t.TempDir(), name)
	fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// headed writes a file of n lines with a header.
func headed(t testing.TB, header, line string, n int) string {
	t.Helper()
	path := lineFile(t, "headed.csv", line, n)
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(path, append([]byte(header+"\n"), b...), 0o644))
	return path
}

// fieldWarnings trains and returns the warnings about fields.
func fieldWarnings(t *testing.T, recipe string) (res report.Result, warned []string) {
	t.Helper()
	c, err := config.Parse("absent.yaml", []byte(recipe+`
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 16, seed: 5, epochs: 2}
`))
	fatal.If(t, err)
	res = runJob(t, 2, Options{Config: c, Warn: func(line string) {
		if strings.Contains(line, "fields") {
			warned = append(warned, line)
		}
	}})
	return res, warned
}

// TestTrainingReportsFieldsWithoutValues: a field without values is reported once, by its key
// in the configuration, with the fields that exist.
func TestTrainingReportsFieldsWithoutValues(t *testing.T) {
	t.Parallel()
	const warning = "these fields are empty in every record of [%s], so their features have no effect: "
	for _, x := range []struct{ name, line, source, label, fields, want string }{
		{"a.libffm", "%d 10:3:1 2000:4:1", "format: libffm", "label", `"10" "200" "77777"`,
			`features[1].field "200" (did you mean "2000"?), features[2].field "77777"; there are: 10, 2000, 10_values, 2000_values`},
		{"a.libsvm", "%d 10:1 2000:1", "format: libsvm", "label", `"10" "features" "77777"`,
			`features[2].field "77777"; there are: features, values`},
		{"a.csv", "%d,x,NA,,", `fields: [y, a, b, c, d], missing: [NA]`, "y", "a b c",
			`features[1].field "b" (always missing), features[2].field "c" (always missing)`},
		{"b.csv", "%d,x", `fields: [y, a]`, "y", "a", ""},
	} {
		path := lineFile(t, x.name, x.line, 40)
		recipe := fmt.Sprintf("data: {train: [%q], %s}\nlabel: {field: %s}\nfeatures:\n", path, x.source, x.label)
		for _, f := range strings.Fields(x.fields) {
			recipe += fmt.Sprintf("  - {field: %s, encode: hash, buckets: 8}\n", f)
		}
		_, warned := fieldWarnings(t, recipe)
		want := []string{fmt.Sprintf(warning, path) + x.want}
		if x.want == "" {
			want = nil
		}
		if !slices.Equal(warned, want) {
			t.Errorf("%s: warnings %q\nwant %q", x.name, warned, want)
		}
	}
}

// TestTestDataWithoutFields: validation and test data may lack fields of the model.
func TestTestDataWithoutFields(t *testing.T) {
	t.Parallel()
	for format, x := range map[string][2]string{
		"format: jsonl": {lineFile(t, "train.jsonl", `{"y":%d,"a":1,"b":2}`, 40), lineFile(t, "test.jsonl", `{"y":%d,"a":1}`, 10)},
		"header: true":  {headed(t, "y,a,b", `%d,1,2`, 40), headed(t, "y,a", `%d,1`, 10)},
	} {
		_, warned := fieldWarnings(t, fmt.Sprintf("data: {train: [%q], test: [%q], valid: [%[2]q], %[3]s}\nlabel: {field: y}\nfeatures: [{field: a, encode: hash}, {field: b, encode: vocabulary}]\n", x[0], x[1], format))
		want := fmt.Sprintf(`these fields are empty in every record of [%s], so their features have no effect: features[1].field "b"; there are: a`, x[1])
		if !slices.Equal(warned, []string{want, want}) { // one for validation data, one for test data
			t.Errorf("%s: warnings %q\nwant %q twice", format, warned, want)
		}
	}
}

// TestFilesWithoutRecordsAreNamed: files without bytes, or with a header only, are named once.
func TestFilesWithoutRecordsAreNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.csv": "y,a\n" + strings.Repeat("0,1\n1,2\n", 20), "b.csv": "", "c.csv": "y,a\n"} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	c, err := config.Parse("empty.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], header: true}
label: {field: y}
features: [{field: a, encode: hash}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 16, epochs: 2}
`, dir)))
	fatal.If(t, err)
	var warned []string
	runJob(t, 2, Options{Config: c, Warn: func(line string) {
		if strings.Contains(line, "without records") {
			warned = append(warned, line)
		}
	}})
	if want := fmt.Sprintf("2 files without records: [%s %s]", filepath.Join(dir, "b.csv"), filepath.Join(dir, "c.csv")); !slices.Equal(warned, []string{want}) {
		t.Errorf("warnings %q\nwant %q", warned, want)
	}
}
