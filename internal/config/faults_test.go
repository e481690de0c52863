package config

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// small is the configuration that the cases of testdata/faults.txt change.
const small = `data:
  train: [train.csv]
  fields: [y, age, city, tags, price]
label:
  field: y
features:
  - {field: age, encode: quantile}
  - {field: city, encode: hash}
  - {field: price, encode: standardise}
model:
  embedding_dim: 4
train:
  global_batch: 64
`

// TestFaults reads cases from testdata/faults.txt: a name after ##, edits of
// small as s|old|new| lines (\n is a line end), and after => each fault that
// Parse must report, in order.
func TestFaults(t *testing.T) {
	if _, err := Parse("small.yaml", []byte(small)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("testdata/faults.txt")
	fatal.If(t, err)
	var got strings.Builder
	for _, one := range strings.Split("\n"+string(b), "\n## ")[1:] {
		in := small
		lines := strings.Split(one, "\n")
		got.WriteString("## " + lines[0] + "\n")
		for _, line := range lines[1:] {
			edit := strings.Split(line, "|")
			if len(edit) != 4 || edit[0] != "s" {
				continue
			}
			got.WriteString(line + "\n")
			old, new := unescape(edit[1]), unescape(edit[2])
			if strings.Count(in, old) == 0 {
				t.Errorf("%s: %q is not in the configuration", lines[0], old)
			}
			in = strings.Replace(in, old, new, 1)
		}
		_, err := Parse("t", []byte(in))
		var all *Error
		if !errors.As(err, &all) {
			t.Errorf("%s: no fault in\n%s", lines[0], in)
			continue
		}
		for _, f := range all.Faults {
			got.WriteString("=> " + strings.TrimPrefix(f.String(), "t:") + "\n")
		}
		got.WriteString("\n")
	}
	golden.Check(t, "faults.txt", got.String())
}

func unescape(s string) string {
	return strings.NewReplacer(`\n`, "\n", `\p`, "|", `\t`, "\t", `\x00`, "\x00", `\xff`, "\xff").Replace(s)
}

func TestErrorNamesThePlace(t *testing.T) {
	in := strings.Replace(small, "global_batch: 64", "globl_batch: 64\n  epochs: none", 1)
	_, err := Parse("ctr.yaml", []byte(in))
	want := `config: 2 faults:
  ctr.yaml:13:3: train.globl_batch: unknown key; did you mean global_batch? (valid: ` +
		strings.Join(newGrammar().names(reflect.TypeFor[Train]()), ", ") + `)
  ctr.yaml:14:11: train.epochs: is the string "none"; it must be an integer`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %v", err, want)
	}
	_, err = Parse("ctr.yaml", []byte(strings.Replace(small, "64", "0", 1)))
	if want := "config: ctr.yaml:13:17: train.global_batch: is 0; it must be from 1 to 67108864"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %v", err, want)
	}
}

// TestWindowsFiles: line ends and the byte order mark change neither the Config nor the lines
// of faults.
func TestWindowsFiles(t *testing.T) {
	want, err := Parse("x", []byte(small))
	fatal.If(t, err)
	got, err := Parse("x", []byte("\ufeff"+strings.ReplaceAll(small, "\n", "\r\n")))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	bad := strings.Replace(small, "embedding_dim: 4", "embedding_dim: four", 1)
	_, err = Parse("x", []byte("\ufeff"+strings.ReplaceAll(bad, "\n", "\r\n")))
	var all *Error
	if !errors.As(err, &all) || all.Faults[0].Line != 11 || all.Faults[0].Column != 18 {
		t.Errorf("got %v, want line 11, column 18", err)
	}
}

// TestHostileFiles: files that would exhaust time, memory or stack end with an error. The
// limit of a minute only distinguishes a hang from a slow machine.
func TestHostileFiles(t *testing.T) {
	const n = 50000
	deep := func(open string, levels int) string { return strings.Repeat(open, levels) }
	stairs := func(levels int) string {
		var b strings.Builder
		for i := range levels {
			b.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return b.String()
	}
	for name, in := range map[string]string{
		"too long":         strings.Repeat("#", MaxBytes+1),
		"long comment":     strings.Repeat("#", MaxBytes),
		"brackets":         deep("[", n),
		"braces":           deep("{a: ", n),
		"braces, bounded":  deep("{a: ", 14),
		"brackets, closed": deep("[", 14) + deep("]", 14),
		"dashes":           deep("- ", n),
		"keys":             deep("a: ", n),
		"question marks":   deep("? ", n),
		"in a list":        deep("- {a: [", n/10),
		"stairs":           stairs(500),
		"anchors":          deep("&a ", n),
		"aliases":          "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
		"tags":             deep("!!a ", n),
		"documents":        deep("---\n", n/4),
		"colons":           deep(":", n),
		"commas":           deep(",", n),
		"unknown keys":     func() string { return strings.Repeat("zzz: 1\n", n/7) }(),
		"lists as values":  strings.Repeat("zzz:\n- 1\n", n/8),
		"nested keys":      strings.Repeat("zzz:\n  a: 1\n", n/8),
		"entries of keys":  "features:\n" + strings.Repeat("  - zz: 1\n    field: age\n", n/20),
		"long key":         deep("k", n) + ": 1\n",
		"many features":    strings.Replace(small, "  - {field: city, encode: hash}\n", strings.Repeat("  - {field: zzzz, encode: hash}\n", 12000), 1),
		"many items":       "data: {fields: [" + strings.Repeat("a,", n) + "]}",
		"many tables":      small + "tables:\n" + strings.Repeat("  - {name: q}\n", 16000),
	} {
		start := time.Now()
		_, err := Parse(name, []byte(in))
		var all *Error
		if !errors.As(err, &all) {
			t.Errorf("%s: error %v, want one of type *Error", name, err)
			continue
		}
		if len(all.Faults) > keptFaults || len(all.Error()) > 200000 {
			t.Errorf("%s: %d faults in %d bytes", name, len(all.Faults), len(all.Error()))
		}
		if d := time.Since(start); d > time.Minute {
			t.Errorf("%s took %v", name, d)
		} else if d > 300*time.Millisecond {
			t.Logf("%s took %v", name, d)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"adult.yaml", "../../examples/frappe.yaml", "../../examples/criteo.yaml"} {
		b, err := os.ReadFile(file)
		fatal.If(f, err)
		f.Add(b)
	}
	f.Add([]byte(small))
	for _, in := range []string{
		"", "a", "- a", "{", "a: 'x", "a: |\n  b\n", "a: >-\n b", "? a\n: b", "%YAML 1.2\n---\na: 1", "a: &x 1\nb: *x", "<<: {a: 1}",
		"data: ~", "data:\n\ttrain: x", "train: {seed: 0x10, epochs: 010}", "label: {threshold: .inf}", "features: [{}]", "crosses: [{of: []}]",
		"data: {train: [\"\\x00\\u0085\\U0001F600\"]}", "train: {seed: 18446744073709551616}", "tables: [{name: a, deep: {}, wide: {kind: sgd}}]",
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Parse("fuzz", b)
		if err != nil {
			var all *Error
			if !errors.As(err, &all) || len(all.Faults) == 0 {
				t.Fatalf("error %v is not an *Error with faults", err)
			}
			for _, f := range all.Faults {
				if f.Line < 1 || f.Column < 1 || f.Msg == "" {
					t.Fatalf("fault %+v names no place", f)
				}
			}
			return
		}
		c.Fill()
		d, err := Parse("again", c.YAML())
		if err != nil {
			t.Fatalf("%v\n%s", err, c.YAML())
		}
		if !reflect.DeepEqual(c, d) {
			t.Fatalf("changed from\n%s\nto\n%s", c.YAML(), d.YAML())
		}
	})
}
