package jobs

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// must runs a command and fails the test if the command fails.
func must(t *testing.T, dir, args string) outcome {
	t.Helper()
	o := run(t, dir, strings.Fields(args)...)
	if o.code != 0 {
		t.Fatalf("wdlrun %s: exit code %d\n%s%s", args, o.code, o.stdout, o.stderr)
	}
	return o
}

// described is the output of data stats --json.
type described struct {
	Records   int64
	Bad       int64
	LabelRate float64 `json:"label_rate"`
	Columns   []struct {
		Name, Type string
		Missing    float64
		Distinct   int64
		Sum        float64
	}
}

func describe(t *testing.T, dir, args string) (d described) {
	t.Helper()
	fatal.If(t, json.Unmarshal([]byte(must(t, dir, "data stats --json "+args).stdout), &d))
	return d
}

// TestAdultInEveryFormat converts the built-in data to every format and compares what is read
// with known values. The expected sums of age and hours_per_week are computed from UCI's file.
func TestAdultInEveryFormat(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	files := []string{"builtin:adult.data"}
	for _, to := range []string{"a.csv", "a.tsv.gz", "a.parquet", "a.arrow", "a.avro", "a.jsonl.gz", "a.tfrecord.zst", "a.ndjson"} {
		must(t, dir, "data convert -out "+to+" "+files[len(files)-1]) // each file is converted from the one before
		files = append(files, to)
	}
	for _, f := range files {
		d := describe(t, dir, f)
		if d.Records != 32561 || d.Bad != 0 || len(d.Columns) != 15 || math.Abs(d.LabelRate-7841./32561) > 1e-9 {
			t.Errorf("%s: %d records, %d bad, %d columns, label rate %v", f, d.Records, d.Bad, len(d.Columns), d.LabelRate)
		}
		found := 0
		for _, c := range d.Columns {
			switch c.Name {
			case "age":
				if found++; c.Sum != 1256257 || c.Type != "integer" || c.Missing != 0 {
					t.Errorf("%s: age: %+v", f, c)
				}
			case "hours_per_week":
				if found++; c.Sum != 1316684 {
					t.Errorf("%s: hours_per_week: %+v", f, c)
				}
			case "workclass":
				if found++; math.Abs(c.Missing-1836./32561) > 1e-9 || c.Distinct != 8 {
					t.Errorf("%s: workclass: %+v", f, c)
				}
			}
		}
		if found != 3 {
			t.Errorf("%s: one of age, hours_per_week and workclass is missing: %+v", f, d.Columns)
		}
	}
	if o := must(t, dir, "data show -records 2 a.parquet"); !strings.Contains(o.stdout, "\nhours_per_week  40             13\n") {
		t.Error(o.stdout)
	}
	if o := run(t, dir, "data", "convert", "-out", "a.csv", "builtin:adult.data"); o.code != 1 || !strings.Contains(o.stderr, "a.csv exists") {
		t.Errorf("convert overwrote a file: %s", o.stderr)
	}
}

// TestConvertSaysWhatChanges: a column whose values a format has no place for is named once, with the form in
// which they are written; the compression in the file is that of -compress.
func TestConvertSaysWhatChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.csv", "y,price,tags,plain\n1,52.60,a|b,7\n0,7.00,c,8\n")
	write(t, dir, "l.jsonl", `{"y": 1, "tags": ["a", "b"], "x": 1.5, "ok": true}`+"\n"+`{"y": 0, "tags": ["c"], "x": NaN, "ok": false}`+"\n")
	const lists = "lists are texts with | between their values, of which a configuration makes lists with separator: \"|\""
	for _, x := range []struct{ args, want string }{
		{"-out a.parquet a.csv", "field  values  in parquet\nprice  2       numbers are texts, because some have a form of their own: 52.60\ntags   1       texts with | are no lists; in a configuration, keep separator: \"|\"\nwrote"},
		{"-out a.libsvm -fields y,price,plain a.csv", "field  values  in libsvm\nprice  2       numbers lose their form: 52.60\nwrote"},
		{"-out l.csv l.jsonl", "field  values  in csv\ntags   2       " + lists + "\nwrote"},
		{"-out m.jsonl l.jsonl", "field  values  in jsonl\nx      1       NaN and infinities are texts\nwrote"},
		{"-out l.arrow -compress none l.jsonl", "wrote"},
		{"-out l.avro -compress snappy l.jsonl", "wrote"},
	} {
		if o := must(t, dir, "data convert "+x.args); !strings.HasPrefix(o.stderr, x.want) {
			t.Errorf("%s: %s, want %s", x.args, o.stderr, x.want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "l.avro")); err != nil || !strings.Contains(string(b), "snappy") {
		t.Errorf("%q, %v", b, err)
	}
	if o := run(t, dir, "data", "convert", "-out", "z.avro.gz", "a.csv"); o.code != 1 || !strings.Contains(o.stderr, "Avro is compressed inside") {
		t.Error(o.stderr)
	}
}

// TestConvertSaysWhatTypesBecome: a column that a table stores in a type that is not written is named with its
// type, and so are values that become null. A string that looks like a number stays what it was.
func TestConvertSaysWhatTypesBecome(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	types, err := filepath.Abs("../../internal/data/table/testdata/types.parquet")
	fatal.If(t, err)
	zoned := filepath.Join(filepath.Dir(types), "../../arrow/testdata/plain.arrow")
	rows := func(stderr string) (all []string) {
		for line := range strings.Lines(stderr) {
			if all = append(all, strings.Join(strings.Fields(line), " ")); strings.HasPrefix(line, "wrote") {
				return all[:len(all)-1]
			}
		}
		return all
	}
	write(t, dir, "mixed.jsonl", `{"mixed":1,"truth":true,"day":"2024-05-01","parts":1,"big":9223372036854775808,"list":["a"]}`+"\n"+
		`{"mixed":"abc","truth":0,"day":"2024-05-02","parts":1.5,"big":1,"list":["b"]}`+"\n"+`{"mixed":7,"truth":false,"day":"2024-05-03","parts":Infinity,"big":2,"list":["a"]}`+"\n")
	write(t, dir, "lines.csv", "y,mixed,day,limit\n1,abc,2024-05-01 12:00:00,inf\n0,5,2024-05-01T12:00:01Z,0.5\n")
	write(t, dir, "a.jsonl", `{"y":1,"site":"","tags":["a","b"]}`+"\n"+`{"y":0,"site":"","tags":[]}`+"\n"+`{"y":0,"site":"x","tags":null}`+"\n")
	for _, x := range []struct {
		args string
		want []string
	}{
		{"-out t.arrow -fields u64,d4,d9,date,time_tz,ts,ts_tz,uuid,blob,i32 " + types, []string{"field values in arrow",
			"u64 3 numbers are texts, because some integers have more than 64 bits with the sign: 18446744073709551615", "d4 3 decimals are numbers of 64 bits", "d9 3 decimals are texts, with all digits",
			"time_tz 3 times are texts: 12:34:56.5+00", "uuid 3 UUIDs are texts",
			`blob 2 bytes that are not UTF-8 are written as \x00\xFF`, "blob 3 bytes are texts"}},
		{"-out t.avro t.arrow", nil}, // strings by now, or dates and times in both
		{"-out t.parquet -fields date_odd,ts_odd,ts_ns " + types, []string{"field values in parquet", "date_odd 3 dates are texts: some are infinite, before the year 1, or of another type",
			"ts_odd 3 timestamps are texts: some are infinite, before the year 1, too far for nanoseconds, or of another type"}},
		{"-out t.csv -fields u64,d9,ts,blob " + types, []string{"field values in csv", `blob 2 bytes that are not UTF-8 are written as \x00\xFF`}},
		{"-out t.jsonl -fields u64,date,ts " + types, []string{"field values in jsonl", "u64 3 numbers are texts, because some integers have more than 64 bits with the sign: 18446744073709551615"}},
		{"-out a.parquet -fields y,site,tags a.jsonl", []string{"field values in parquet", `site 2 "" is null`, "tags 2 lists without a value are null, whether they were empty or null"}},
		{"-out a.csv -fields y,site a.jsonl", []string{"field values in csv", `site 2 "" is missing`}},
		{"-out mixed.parquet mixed.jsonl", []string{"field values in parquet", "mixed 2 numbers are texts, because there are others, such as \"abc\"", "truth 3 numbers and truth values are texts, because there are both",
			"day 3 dates and times are texts, as they were: 2024-05-01", "parts 3 numbers are texts, because integers are next to others: 1, 1.5", "big 3 numbers are texts, because some integers have more than 64 bits with the sign: 9223372036854775808"}},
		{"-out back.jsonl mixed.parquet", nil},
		{"-out lines.avro lines.csv", []string{"field values in avro", "mixed 1 numbers are texts, because there are others, such as \"abc\"", "day 2 dates and times are texts, as they were: 2024-05-01 12:00:00"}},
		{"-out zone.parquet -fields tsz " + zoned, []string{"field values in parquet", "tsz 23 times are in UTC, without the name of their zone, Europe/Berlin"}},
	} {
		if o := must(t, dir, "data convert "+x.args); !slices.Equal(rows(o.stderr), x.want) {
			t.Errorf("%s: %q, want %q", x.args, rows(o.stderr), x.want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "back.jsonl")); err != nil || !strings.Contains(string(b), `"list":["a"]`) {
		t.Errorf("lists of one value: %s, %v", b, err)
	}
	if c := describe(t, dir, "lines.avro").Columns; c[3].Type != "number" {
		t.Errorf("a column of numbers with inf: %+v", c[3])
	}
	fatal.If(t, os.Mkdir(filepath.Join(dir, "parts"), 0o755))
	write(t, dir, "parts/0.csv", "y,x\n1,2\n0,3\n")
	write(t, dir, "parts/1.csv", "")
	write(t, dir, "parts/2.csv", "\n")
	if o := must(t, dir, "data stats parts"); !strings.Contains(o.stderr, "left out, because there are no records in them: parts/1.csv, parts/2.csv") {
		t.Error(o.stderr)
	}
	if o := run(t, dir, "data", "convert", "-out", "none/a.avro", "lines.csv"); o.code != 1 || !strings.Contains(o.stderr, "none/a.avro: there is no folder none: make it, or choose another name") {
		t.Error(o.stderr)
	}
}

// TestConvertKeepsValues: every format that stores strings preserves each field byte for byte,
// including numbers not in their shortest form, codes, and blanks in quotes. Blanks around an
// unquoted field are dropped.
func TestConvertKeepsValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.csv", "y,price,rate,code,title\n1,52.60,0.5,007,\" Toy Story \"\n0,7.00,2.25,12,Heat (1995) \n0,1e3,3,5,Casino\n")
	const want = "y,price,rate,code,title\n1,52.60,0.5,007,\" Toy Story \"\n0,7.00,2.25,12,Heat (1995)\n0,1e3,3,5,Casino\n"
	for _, through := range []string{"b.csv", "b.parquet", "b.arrow", "b.avro", "b.tfrecord", "b.jsonl"} {
		must(t, dir, "data convert -out "+through+" a.csv")
		back := "back-" + through + ".csv"
		must(t, dir, "data convert -out "+back+" -fields y,price,rate,code,title "+through)
		if b, err := os.ReadFile(filepath.Join(dir, back)); err != nil || string(b) != want {
			t.Errorf("%v: converted to %s and back:\n%s", err, through, b)
		}
	}
	// A column gets a number type if each number is written as it was read. LibSVM accepts all
	// of them.
	types := map[string]string{}
	for _, c := range describe(t, dir, "b.parquet").Columns {
		types[c.Name] = c.Type
	}
	if types["rate"] != "number" || types["y"] != "integer" || types["price"] != "number" {
		t.Errorf("types of b.parquet: %v", types)
	}
	must(t, dir, "data convert -fields y,price,rate -out a.libsvm a.csv")
	if b, err := os.ReadFile(filepath.Join(dir, "a.libsvm")); err != nil || !strings.HasPrefix(string(b), "1 1:52.6 2:0.5\n0 1:7 ") {
		t.Errorf("a.libsvm: %v: %s", err, b)
	}
}

// TestConvertKeepsWords: without a configuration, words such as NA stay values of strings, and of all
// fields where lines become lines. Among numbers and truth values they become missing, and a line says so.
func TestConvertKeepsWords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const lines = "y,n,city,ok,none\n1,NA,NA,true,null\n0,3,Oslo,NA,null\n1,NA,null,false,null\n"
	write(t, dir, "a.csv", lines)
	write(t, dir, "c.yaml", "data: {train: [a.csv], header: true, missing: [\"null\"]}\nlabel: {field: y}\nfeatures: [{field: city, encode: hash}]\n")
	const typed = `{"y":1,"n":null,"city":"NA","ok":true,"none":"null"} {"y":0,"n":3,"city":"Oslo","ok":null,"none":"null"} {"y":1,"n":null,"city":"null","ok":false,"none":"null"}`
	const named = "n      2       \"NA\" is missing; to decide otherwise: -config FILE with data.missing\nok     1       \"NA\" is missing;"
	for to, x := range map[string]struct{ want, said string }{
		"b.tsv":     {strings.ReplaceAll(lines, ",", "\t"), ""},
		"b.jsonl":   {typed, named},
		"b.parquet": {typed, named},
		"b.feather": {typed, named},
		"b.libffm":  {"", "city   1       \"NA\" is missing; to decide otherwise: -config FILE with data.missing\ncity   1       \"null\" is missing"},
	} {
		args := ""
		if to == "b.libffm" {
			args = "-codes codes "
		}
		o := must(t, dir, "data convert -out "+to+" "+args+"a.csv")
		if !strings.Contains(o.stderr, x.said) || x.said == "" && strings.Contains(o.stderr, "missing") {
			t.Errorf("%s: %s", to, o.stderr)
		}
		if to == "b.libffm" {
			continue
		}
		if strings.Contains(x.said, "n ") && to != "b.jsonl" {
			must(t, dir, "data convert -out back-"+to+".jsonl "+to)
			to = "back-" + to + ".jsonl"
		}
		b, err := os.ReadFile(filepath.Join(dir, to))
		if got := strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", " "); err != nil || got != strings.ReplaceAll(strings.TrimSpace(x.want), "\n", " ") {
			t.Errorf("%s: %s, %v; want %s", to, got, err, x.want)
		}
		must(t, dir, "data diff a.csv "+to)
	}
	o := must(t, dir, "data convert -config c.yaml -out said.jsonl a.csv")
	b, err := os.ReadFile(filepath.Join(dir, "said.jsonl"))
	if err != nil || !strings.Contains(string(b), `"n":"NA","city":null,"ok":"false","none":null}`) || strings.Contains(o.stderr, "missing") {
		t.Errorf("%s%s, %v", b, o.stderr, err)
	}
}

// TestConvertKeepsTypes converts a table with every type of DuckDB to each format and compares
// it with the CSV file that DuckDB writes. Columns that cannot be read are named in the error.
func TestConvertKeepsTypes(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	tables, err := filepath.Abs("../../internal/data/table/testdata")
	fatal.If(t, err)
	want := csvOf(t, filepath.Join(tables, "types.csv"))
	odd := slices.Index(want[0], "f64_odd") // nan means missing in text, unless a configuration changes that
	for i := range want {
		want[i] = slices.Delete(want[i], odd, odd+1)
	}
	fields := " -fields " + strings.Join(want[0], ",") + " "
	must(t, dir, "data convert -out a.csv"+fields+filepath.Join(tables, "types.parquet"))
	for _, through := range []string{"a.csv", "b.parquet", "b.tfrecord", "b.jsonl", "c.csv"} {
		if through != "a.csv" {
			from := filepath.Join(tables, "types.parquet")
			if through == "c.csv" {
				from = "a.csv"
			}
			must(t, dir, "data convert -out "+through+fields+from)
			must(t, dir, "data convert -out back-"+through+".csv"+fields+through)
			through = "back-" + through + ".csv"
		}
		if got := csvOf(t, filepath.Join(dir, through)); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s:\n%q\nwant\n%q", through, got, want)
		}
	}
	o := run(t, dir, "data", "convert", "-out", "n.csv", filepath.Join(tables, "nested.parquet"))
	if o.code != 0 || !strings.Contains(o.stderr, "not read: ll is a list of lists or maps; write lists") {
		t.Errorf("exit code %d:\n%s", o.code, o.stderr)
	}
}

// TestConvertKeepsNumbersThatAreNone: NaN, infinities and words such as NULL are values of formats
// that have nulls, and a truth value stays one.
func TestConvertKeepsNumbersThatAreNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var rows strings.Builder
	for range 60 {
		rows.WriteString("{\"x\":1.5,\"w\":\"a\",\"b\":true,\"l\":[0.5,NaN]}\n{\"x\":NaN,\"w\":\"NULL\",\"b\":null,\"l\":null}\n{\"x\":-Infinity,\"w\":\"nan\",\"b\":false,\"l\":[null,2.5]}\n")
	}
	write(t, dir, "a.jsonl", rows.String())
	const want = `{"x":1.5,"w":"a","b":true,"l":[0.5,"nan"]} {"x":"nan","w":"NULL","b":null,"l":null} {"x":"-inf","w":"nan","b":false,"l":[null,2.5]}`
	must(t, dir, "data convert -out a.parquet a.jsonl")
	must(t, dir, "data convert -out b.jsonl a.parquet")
	b, err := os.ReadFile(filepath.Join(dir, "b.jsonl"))
	fatal.If(t, err)
	if got := strings.Join(strings.Split(string(b), "\n")[177:180], " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// csvOf returns the records of a CSV file.
func csvOf(t *testing.T, path string) [][]string {
	t.Helper()
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	all, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	fatal.If(t, err)
	return all
}

// TestShowOfNulls: a null in a list keeps its place, also between members of objects.
func TestLateFieldsAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const rows = 1500
	write(t, dir, "a.jsonl", strings.Repeat(`{"y":1,"often":2}`+"\n", rows-1)+`{"y":0,"rare":"here"}`+"\n")
	for _, args := range []string{"", "-fields y,often,rare "} {
		must(t, dir, "data convert -out b.csv "+args+"a.jsonl")
		b, err := os.ReadFile(filepath.Join(dir, "b.csv"))
		if err != nil || !strings.HasPrefix(string(b), "y,often,rare\n1,2,\n") || !strings.HasSuffix(string(b), "\n0,,here\n") {
			t.Errorf("%s: %v: the output begins with %.40q", args, err, b)
		}
		fatal.If(t, os.Remove(filepath.Join(dir, "b.csv")))
	}
	d := describe(t, dir, "a.jsonl")
	if n := len(d.Columns); n != 3 || d.Columns[2].Name != "rare" || d.Columns[2].Distinct != 1 || math.Abs(d.Columns[2].Missing-(rows-1.)/rows) > 1e-9 {
		t.Errorf("stats: %+v", d.Columns)
	}
	for n, want := range map[int]bool{rows: true, rows - 1: false} {
		if o := must(t, dir, fmt.Sprintf("data show --json -records %d a.jsonl", n)); strings.Contains(o.stdout, "rare") != want {
			t.Errorf("show -records %d: the late field is shown: %t, want %t", n, !want, want)
		}
	}
}

// TestConvertCodesOfTheLabel: if strings are replaced by numbers, the strings of the label
// become 1 and 0 according to their meaning, not to their order.
func TestConvertCodesOfTheLabel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "c.csv", "city,clicked,age\nOslo,no,3\nBergen,yes,4\nOslo,yes,5\nOslo,yes,6\n")
	write(t, dir, "odd.csv", "city,clicked,age\nOslo,no,3\nBergen,yes,4\nOslo,perhaps,5\n")
	write(t, dir, "c.yaml", "data: {train: [c.csv], header: true}\nlabel: {field: clicked, positive: [no], negative: [yes]}\nfeatures: [{field: city, encode: hash}]\n")
	for name, x := range map[string]struct{ args, labels, codes string }{
		"guess.libsvm": {"c.csv", "0111", "clicked\t0\tno\nclicked\t1\tyes\n"},
		"said.libffm":  {"-config c.yaml", "1000", "clicked\t1\tno\nclicked\t0\tyes\n"},
		"lines.tsv":    {"-fields clicked,city c.csv", "c0111", "clicked\t0\tno\nclicked\t1\tyes\n"},
	} {
		must(t, dir, "data convert -out "+name+" -codes "+name+".codes "+x.args)
		b, err := os.ReadFile(filepath.Join(dir, name))
		fatal.If(t, err)
		labels := ""
		for line := range strings.Lines(string(b)) {
			labels += line[:1]
		}
		if labels != x.labels {
			t.Errorf("%s: the labels are %s, want %s", name, labels, x.labels)
		}
		if b, err := os.ReadFile(filepath.Join(dir, name+".codes")); err != nil || !strings.HasPrefix(string(b), x.codes) {
			t.Errorf("%s: %v: the codes are\n%s", name, err, b)
		}
	}
	for args, want := range map[string]string{
		"-out a.libsvm c.csv":                              "libsvm holds only numbers, but these columns have strings: city; -codes FILE",
		"-out a.libsvm -codes a.codes odd.csv":             "column city is the label and has strings: set label.field",
		"-out a.csv -codes a.codes -config c.yaml odd.csv": `column clicked: "perhaps" is neither`,
	} {
		o := run(t, dir, append([]string{"data", "convert"}, strings.Fields(args)...)...)
		if o.code != 1 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: exit code %d, no %q in\n%s", args, o.code, want, o.stderr)
		}
	}
}

// TestBenchInputOfFewRecords follows the advice of the error message, and the command succeeds.
func TestBenchInputOfFewRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, dir, "gen -rows 800 -out new/folder/c.tsv")
	if o := run(t, dir, "bench", "input", "-data", "new/folder/c.tsv"); o.code != 1 || !strings.Contains(o.stderr, "-batch N below 100") {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
	must(t, dir, "bench input -batch 99 -time 1ms -data new/folder/c.tsv")
}

// TestGenInEveryFormat: gen writes the same rows in every format.
func TestGenInEveryFormat(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	var want float64
	for _, f := range []string{"c.tsv", "c.csv", "c.tsv.zst", "c.tfrecord.gz", "c.parquet", "c.libsvm", "c.libffm.sz"} {
		must(t, dir, "gen -rows 300 -out "+f)
		d := describe(t, dir, f)
		sum := 0.0
		for _, c := range d.Columns {
			if c.Name == "label" {
				sum = c.Sum
			}
		}
		if want == 0 {
			want = sum
		}
		if d.Records != 300 || sum != want || sum == 0 {
			t.Errorf("%s: %d records, %v clicks, want %v", f, d.Records, sum, want)
		}
	}
}

// TestDataCheck: data check names each bad record with its line, counts the records, and advises
// to set data.missing if a value is not a number.
func TestDataCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "c.csv", "y,city,age\n1,Oslo,3\n0,Bergen\n1,\"Voss,5\n0,Voss,tall\n0,Moss,4\n")
	write(t, dir, "c.yaml", strings.Replace(clicksYAML, "clicks.csv", "c.csv", 1))
	o := run(t, dir, "data", "check", "c.csv")
	for _, w := range []string{"c.csv:3: the record has 2 fields", "c.csv:4: ", "5 records", "3 good, 2 bad"} {
		if o.code != 1 || !strings.Contains(o.stdout, w) {
			t.Errorf("exit code %d, no %q in\n%s%s", o.code, w, o.stdout, o.stderr)
		}
	}
	o = run(t, dir, "data", "check", "-config", "c.yaml")
	if w := `c.csv:5: column age: "tall" is not a number`; o.code != 1 || !strings.Contains(o.stdout, w) || !strings.Contains(o.stdout, "2 good, 3 bad") {
		t.Errorf("exit code %d, no %q in\n%s%s", o.code, w, o.stdout, o.stderr)
	}
	if o := must(t, dir, "data check -max-bad 2 --json c.csv"); !strings.Contains(o.stdout, `"line":3`) || !strings.Contains(o.stdout, `"ok":true`) {
		t.Error(o.stdout)
	}
	write(t, dir, "zero.csv", "y,city,age\n1,Oslo,3\n"+strings.Repeat("0,Voss,4\n", 40_000)+"1,Mo\x00ss,4\n0,Moss,\x005\n")
	for _, flags := range []string{"", " -config c.yaml"} {
		o := run(t, dir, strings.Fields("data check"+flags+" zero.csv")...)
		if o.code != 1 || !containsAll(o.stdout, "zero.csv:40003: a zero byte in the text, perhaps of UTF-16 text", "tr -d '\\000' < FILE", "40001 good, 2 bad") {
			t.Errorf("data check%s of zero bytes: exit code %d\n%s%s", flags, o.code, o.stdout, o.stderr)
		}
	}
	fatal.If(t, os.Mkdir(filepath.Join(dir, "dt=1"), 0o755)) // the fields of a line are counted without those of folders
	write(t, dir, "dt=1/c.csv", "y,city,age\n1,Oslo,3\n0,Bergen\n")
	for _, flags := range []string{"", " -config c.yaml"} {
		if o := run(t, dir, strings.Fields("data check"+flags+" dt=1/c.csv")...); !strings.Contains(o.stdout, "dt=1/c.csv:3: the record has 2 fields, expected 3") {
			t.Errorf("data check%s in a folder of a partition: exit code %d\n%s%s", flags, o.code, o.stdout, o.stderr)
		}
	}
	numbers := "clicked,age\n" + strings.Repeat("0,31\n1,44\n", 100)
	write(t, dir, "a.csv", strings.Replace(numbers, "1,44", "1,n.a.", 1))
	write(t, dir, "b.csv", strings.Replace(numbers, "0,31\n1,44\n0,31", "0,31\n1,44\n0,old", 1))
	o = must(t, dir, "data check a.csv b.csv")
	for _, w := range []string{
		"a.csv:3: column age holds \"n.a.\" among 199 numbers; data.missing lists it",
		"b.csv:4: column age: \"old\" is not a number; if it means missing, list it in data.missing", "400 records in 2 files, csv: 400 good, 0 bad",
	} {
		if !strings.Contains(o.stdout, w) {
			t.Errorf("no %q in\n%s", w, o.stdout)
		}
	}
	if o := must(t, dir, "data stats a.csv"); !strings.Contains(o.stderr, "a.csv:3: column age holds \"n.a.\" among 199 numbers") {
		t.Errorf("data stats names no value that counts as missing: %s", o.stderr)
	}
	must(t, dir, "gen -rows 3000 -out c.tsv.gz")
	b, err := os.ReadFile(filepath.Join(dir, "c.tsv.gz"))
	fatal.If(t, err)
	write(t, dir, "cut.tsv.gz", string(b[:len(b)/2]))
	if o := run(t, dir, "data", "check", "cut.tsv.gz"); o.code != 1 || !strings.Contains(o.stderr, "ends early") || !strings.Contains(o.stderr, "cut.tsv.gz") {
		t.Errorf("exit code %d, %s%s", o.code, o.stdout, o.stderr)
	}
}

// TestUnknownValuesAreCounted: unknown values are counted over all ranks. Here they are three
// cities that are not in the training data. A missing city is not unknown.
func TestUnknownValuesAreCounted(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "clicks.csv", "y,city,age\n1,Oslo,3\n0,Bergen,4\n1,Oslo,5\n0,Bergen,6\n")
	write(t, dir, "new.csv", "y,city,age\n1,Voss,3\n0,Bergen,4\n1,Moss,5\n0,,6\n0,Voss,2\n")
	write(t, dir, "c.yaml", strings.Replace(clicksYAML, "encode: hash", "encode: vocabulary", 1))
	o := must(t, dir, "-np 2 train --json -config c.yaml -set train.epochs=1 -set data.test=[new.csv]")
	if !strings.Contains(o.stdout, `"test_unknown":{"city":3}`) {
		t.Error(o.stdout)
	}
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	if o := must(t, dir, "-np 3 eval -resume runs/"+filepath.Base(runs[0])+" -data new.csv"); !strings.Contains(o.stdout, "values that are newer than the model (train -from gives them rows): city 3 (60 %)") {
		t.Error(o.stdout)
	}
}

// TestDataCheckOfNumberLabels: for a label that is a number, data check prints no share of ones.
func TestDataCheckOfNumberLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "ratings.csv", "y,city\n4.5,Oslo\n3,Bergen\nx,Oslo\n")
	write(t, dir, "c.yaml", "data: {train: [ratings.csv], header: true}\nlabel: {field: y, kind: number}\nfeatures:\n  - {field: city, encode: hash}\n")
	o := must(t, dir, "data check -max-bad 1 -config c.yaml")
	if strings.Contains(o.stdout, "the label is 1") || !strings.Contains(o.stdout, "to leave out the bad ones: train -max-bad 1, or eval -max-bad 1\n") {
		t.Error(o.stdout)
	}
	if o := must(t, dir, "data check -json -max-bad 1 -config c.yaml"); strings.Contains(o.stdout, `"positives"`) {
		t.Error(o.stdout)
	}
}

// TestDataCheckGroupsReasons: data check prints each reason once. If many records have the same
// unusable label, it advises to change the label settings.
func TestDataCheckGroupsReasons(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rows := strings.Repeat("1,Oslo,3\n0,Bergen,4\n2,Voss,5\n", 40)
	write(t, dir, "clicks.csv", "y,city,age\n"+rows+"0,Voss,old\n")
	write(t, dir, "few.csv", "y,city,age\n"+strings.ReplaceAll(rows, "2,", "1,")+"2,Voss,5\n")
	write(t, dir, "c.yaml", clicksYAML)
	for flags, want := range map[string]string{
		"": `clicks.csv:4: column y: "2" is not a value of the label; expected one of "1", "0" (set label.positive, or label.threshold for numbers) (the first of 40 such records)
clicks.csv:122: column age: "old" is not a number; if it means missing, list it in data.missing
121 records in 1 file, csv: 80 good, 41 bad
the label is 1 in 40 of the good ones, 50 %
too many records have a label that cannot be used: change label in the configuration so that it suits the values
`,
		" few.csv": `few.csv:122: column y: "2" is not a value of the label; expected one of "1", "0" (set label.positive, or label.threshold for numbers)
121 records in 1 file, csv: 120 good, 1 bad
the label is 1 in 80 of the good ones, 66.7 %
to leave out the bad ones: train -max-bad 1, or eval -max-bad 1
`,
	} {
		if o := run(t, dir, strings.Fields("data check -config c.yaml"+flags)...); o.code != 1 || o.stdout != want {
			t.Errorf("code %d, %s", o.code, o.stdout)
		}
	}
	if o := run(t, dir, strings.Fields("data check -json -config c.yaml")...); !strings.Contains(o.stdout, `"records":40}`) {
		t.Error(o.stdout)
	}
}

// TestDataCheckOfUntrainable: data check fails where training would, with its reason.
func TestDataCheckOfUntrainable(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "clicks.csv", "y,city,age\nyes,Oslo,3\nno,Bergen,4\nyes,Oslo,5\n")
	write(t, dir, "head.csv", "y,city,age\n")
	write(t, dir, "c.yaml", clicksYAML)
	const values = "the most frequent values of field y: \"yes\" in 2 records, \"no\" in 1 record; see label.positive"
	for flags, want := range map[string][]string{
		" -set label.positive=[ja]":       {"training would fail: none of the 3 rows has the label 1, by field y: label.positive is [\"ja\"]", values},
		" -set label.positive=[ja] -json": {`"label_values":[{"value":"yes","records":2},{"value":"no","records":1}]`, `"exit_code":1`},
		" -set label.positive=[yes,no]":   {"training would fail: all 3 rows have the label 1, by field y", values},
		"":                                {"training would fail: clicks.csv: none of the 3 records can be used", values},
		" head.csv":                       {"training would fail: head.csv: there are no records"},
	} {
		o := run(t, dir, strings.Fields("data check -max-bad 3 -config c.yaml"+flags)...)
		for _, w := range want {
			if o.code != 1 || !strings.Contains(o.stdout, w) {
				t.Errorf("%s: code %d, no %q in\n%s%s", flags, o.code, w, o.stdout, o.stderr)
			}
		}
	}
	write(t, dir, "ones.csv", "y,city,age\n1,Oslo,3\n,Bergen,4\n1,Oslo,5\n")
	if o := run(t, dir, strings.Fields(`data check -max-bad 3 -config c.yaml -set data.train=[ones.csv] -set label.positive=["1"]`)...); !strings.Contains(o.stdout, `if a missing value means 0, add data.derive: {label: "if(missing(y), 0, 1)"}`) {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}
	for _, flags := range []string{"-set label.positive=[yes]", "-set label.positive=[ja] clicks.csv"} { // files on the command line may be for evaluation only
		must(t, dir, "data check -config c.yaml "+flags)
	}
}

// TestNoAUCOfOneClass: if all samples have the same label, the metrics of a training and of an
// evaluation contain no AUC.
func TestNoAUCOfOneClass(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "clicks.csv", "y,city,age\n1,Oslo,3\n0,Bergen,4\n1,Oslo,5\n0,Bergen,6\n")
	write(t, dir, "neg.csv", "y,city,age\n0,Oslo,3\n0,Bergen,4\n")
	write(t, dir, "c.yaml", clicksYAML)
	o := must(t, dir, "train -config c.yaml -set train.epochs=1 -set data.test=[neg.csv]")
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	if !strings.Contains(o.stdout, "test   AUC undefined (no positive samples)   log-loss ") {
		t.Error(o.stdout)
	}
	const why = "none of the 2 records of [neg.csv] has the label 1, by field y: label.positive is [\"1\"]; "
	if !strings.Contains(o.stderr, why) {
		t.Errorf("training: %s", o.stderr)
	}
	if o := must(t, dir, "eval -resume runs/"+filepath.Base(runs[0])+" -data neg.csv"); !strings.Contains(o.stdout, "AUC undefined (no positive samples)   log-loss ") || strings.Count(o.stderr, why) != 1 {
		t.Errorf("evaluation: %s%s", o.stdout, o.stderr)
	}
	if o := must(t, dir, "eval --json -resume runs/"+filepath.Base(runs[0])+" -data neg.csv"); !strings.Contains(o.stdout, `"positives":0,"auc":null,`) {
		t.Error(o.stdout)
	}
}

// TestEvalReadsAnotherFormat: eval with -set for the format and the labels of its files computes
// the same metrics as on files in the format of the training.
func TestEvalReadsAnotherFormat(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "clicks.csv", "y,city,age\n1,Oslo,3\n0,Bergen,4\n1,Oslo,5\n0,Bergen,6\n")
	write(t, dir, "noted.csv", "#as asked\ny,city,age\nyes,Oslo,3\nno,Bergen,4\nmaybe,Voss,1\nyes,Oslo,5\nno,Bergen,6\n")
	write(t, dir, "c.yaml", clicksYAML)
	must(t, dir, "train -config c.yaml -set train.epochs=1 -out runs")
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	eval := "-np 2 eval -resume runs/" + filepath.Base(runs[0])
	metrics := func(o outcome) string {
		_, s, _ := strings.Cut(o.stdout, "AUC ")
		return s
	}
	want := metrics(must(t, dir, eval+" -data clicks.csv"))
	const settings = " -set data.comment=# -set label.positive=[yes] -set label.negative=[no]"
	if got := metrics(must(t, dir, eval+" -data noted.csv -max-bad 1"+settings)); want == "" || got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for flags, says := range map[string]string{
		settings:                           `noted.csv:5: column y: "maybe" is not a value of the label; expected one of "yes", "no" (set label.positive and label.negative)`,
		" -set data.comment=#":             "eval -max-bad N",
		" -set train.epochs=2":             "takes no other setting",
		" -set data.train=[x] -set data.x": "-set data.train: ",
	} {
		if o := run(t, dir, strings.Fields(eval+" -data noted.csv"+flags)...); o.code != 1 || !strings.Contains(o.stderr, says) {
			t.Errorf("%s: code %d, %s", flags, o.code, o.stderr)
		}
	}
	if o := must(t, dir, "data check -config c.yaml -max-bad 1"+settings+" noted.csv"); !strings.Contains(o.stdout, "the label is 1 in 2 of the good ones, 50 %\n") {
		t.Error(o.stdout)
	}
	if o := must(t, dir, "data check -json -config c.yaml -set data.max_bad=5"+settings+" noted.csv"); !strings.Contains(o.stdout, `"bad":1,"positives":2,`) {
		t.Error(o.stdout)
	}
	if o := run(t, dir, strings.Fields("data check -set data.comment=# noted.csv")...); o.code != 1 || !strings.Contains(o.stderr, "give -config FILE") {
		t.Errorf("code %d, %s", o.code, o.stderr)
	}
}

// TestAdultTrainsAlikeFromEveryFormat: the trained model does not depend on the format of the
// records. Categories are numbers here, because LibSVM holds nothing else.
func TestAdultTrainsAlikeFromEveryFormat(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	columns := strings.Fields("age workclass education_num marital_status occupation relationship sex hours_per_week")
	must(t, dir, "data convert -codes codes -fields income,"+strings.Join(columns, ",")+" -out a.csv builtin:adult.data")
	if b, err := os.ReadFile(filepath.Join(dir, "codes")); err != nil || !strings.Contains(string(b), "income\t1\t>50K\n") {
		t.Fatalf("%v: the codes are %s", err, b)
	}
	var want trained
	for i, file := range []string{"a.csv", "a.libsvm", "a.tfrecord", "a.csv.gz", "a.parquet", "a.libsvm.zst"} {
		if i > 0 {
			must(t, dir, "data convert -out "+file+" a.csv")
		}
		format := strings.Split(file, ".")[1]
		text := "data: {train: [" + file + "], test: [" + file + "], format: " + format + ", header: " + map[bool]string{true: "true", false: "false"}[format == "csv"] + "}\n"
		label, features := "income", ""
		if format == "libsvm" {
			label = "label"
		}
		for i, c := range columns {
			encode, field := "vocabulary", c
			if c == "age" || c == "hours_per_week" {
				encode = "standardise"
			}
			if format == "libsvm" {
				field = strconv.Itoa(i + 1)
			}
			features += fmt.Sprintf("  - {name: %s, field: %q, encode: %s}\n", c, field, encode)
		}
		text += "label: {field: " + label + ", positive: [\"1\"]}\nfeatures:\n" + features + "train: {epochs: 1, shuffle: false, batch: 512}\n"
		write(t, dir, format+".yaml", text)
		got := train(t, dir, 1, "-config", format+".yaml")
		if format == "csv" {
			want = got // plain files are compared with a.csv, Parquet and compressed files, which are read in another order, with a.csv.gz
		}
		if got.Samples != 32561 || got.AUC < .85 || got.AUC != want.AUC || got.LogLoss != want.LogLoss {
			t.Errorf("%s: %d samples, AUC %v, log-loss %v; from csv %v, %v", file, got.Samples, got.AUC, got.LogLoss, want.AUC, want.LogLoss)
		}
	}
}

// TestEvalFindsTheFormat: eval computes the same metrics on the same records as text and in
// formats with named fields, without flags for the format.
func TestEvalFindsTheFormat(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	model := train(t, dir, 1, "-set", "train.epochs=1").RunDir
	var want string
	for _, file := range []string{"", "a.parquet", "a.tfrecord.zst"} {
		args := []string{"-np", "2", "eval", "-resume", model}
		if file != "" {
			must(t, dir, "data convert -out "+file+" builtin:adult.test")
			args = append(args, "-data", file)
		}
		o := run(t, dir, args...)
		_, metrics, _ := strings.Cut(o.stdout, "\nAUC ")
		if want == "" {
			want = metrics
		}
		if o.code != 0 || metrics == "" || metrics != want {
			t.Errorf("%q: exit code %d, AUC %q, want %q\n%s", file, o.code, metrics, want, o.stderr)
		}
	}
}

// TestInitOfWeightedIndices: the values of LibFFM become weights of their indices. In a field
// with one index they become a number. Values that are all 1 are ignored.
func TestInitOfWeightedIndices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var b strings.Builder
	for i := range 400 {
		fmt.Fprintf(&b, "%d 1:%d:1 2:%d:%g 2:%d:0.5 3:7:%g 4:%d:1\n", i%2, i*i%30, i%40, float64(i%9)/8, i%3, float64(i%100)/4, i)
	}
	write(t, dir, "a.ffm", b.String())
	config := must(t, dir, "init -data a.ffm").stdout
	write(t, dir, "a.yaml", config)
	for _, want := range []string{
		"\n  - {field: \"1\", encode: id}   #",
		"\n  - {field: \"2\", encode: id, weights: \"2_values\"}   #",
		"left out: the weights of field 2",
		"left out: its index is constant; 3_values is its value",
		"\n  - {field: \"3_values\", encode: quantile}   #",
		"\n  - {field: \"3_values\", encode: standardise}   #",
		"left out: nearly every row has its own index",
	} {
		if !strings.Contains(config, want) {
			t.Errorf("no %q in\n%s", want, config)
		}
	}
	if strings.Contains(config, "1_values") || strings.Contains(config, "4_values") {
		t.Errorf("the configuration has values that are all 1:\n%s", config)
	}
	must(t, dir, "data check -config a.yaml")
}

// TestCheckOfAnotherFormat: data check reads files with named fields with the configuration of
// another format. For other files it reports the difference.
func TestCheckOfAnotherFormat(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	const records = "y,city,age\n1,Oslo,3\n0,Bergen,4\n1,Oslo,5\n0,Bergen,6\n"
	write(t, dir, "clicks.csv", records)
	write(t, dir, "c.yaml", clicksYAML)
	write(t, dir, "j.yaml", strings.Replace(clicksYAML, "header: true", "format: jsonl", 1))
	write(t, dir, "bare.csv", strings.Join(strings.SplitAfter(records, "\n")[1:], ""))
	write(t, dir, "tabs.tsv", strings.ReplaceAll(records, ",", "\t"))
	write(t, dir, "pairs.libsvm", "1 1:3\n0 1:4\n")
	for _, to := range []string{"a.jsonl", "a.parquet", "a.tfrecord"} {
		must(t, dir, "data convert -out "+to+" clicks.csv")
	}
	for _, x := range []struct{ config, file, want string }{
		{"c.yaml", "a.jsonl", "4 records in 1 file, jsonl: 4 good, 0 bad"},
		{"c.yaml", "a.parquet", "4 records in 1 file, parquet: 4 good, 0 bad"},
		{"c.yaml", "a.tfrecord", "4 records in 1 file, tfrecord: 4 good, 0 bad"},
		{"j.yaml", "clicks.csv", "4 records in 1 file, csv: 4 good, 0 bad"},
		{"j.yaml", "tabs.tsv", "4 records in 1 file, tsv: 4 good, 0 bad"},
		{"c.yaml", "tabs.tsv", "tabs.tsv looks like tsv with a header, but the configuration is for csv with a header: convert"},
		{"c.yaml", "pairs.libsvm", "pairs.libsvm looks like libsvm, but the configuration is for csv with a header: convert"},
		{"j.yaml", "pairs.libsvm", "pairs.libsvm looks like libsvm, but the configuration is for jsonl: convert"},
		{"j.yaml", "bare.csv", "bare.csv looks like csv without a header, but the configuration is for jsonl: convert"},
	} {
		o := run(t, dir, "data", "check", "-config", x.config, x.file)
		if good := strings.Contains(x.want, "good"); (o.code == 0) != good || !strings.Contains(o.stdout+o.stderr, x.want) {
			t.Errorf("check -config %s %s: exit code %d\n%s%s\nwant %s", x.config, x.file, o.code, o.stdout, o.stderr, x.want)
		}
	}
}

// TestEvalOfTextWithHeader: a model trained on files with named fields can be evaluated on text
// with a header. For other text the error names what is missing.
func TestEvalOfTextWithHeader(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	must(t, dir, "data convert -out a.parquet builtin:adult.data")
	must(t, dir, "data convert -out a.csv builtin:adult.data")
	must(t, dir, "data convert -out a.tsv.gz builtin:adult.data")
	write(t, dir, "c.yaml", "data: {train: [a.parquet], test: [a.parquet], format: parquet}\nlabel: {field: income, positive: [\">50K\"]}\n"+
		"features:\n  - {field: education, encode: vocabulary}\n  - {field: age, encode: quantile}\ntrain: {epochs: 1}\n")
	model := train(t, dir, 1, "-config", "c.yaml").RunDir
	_, want, _ := strings.Cut(must(t, dir, "eval -resume "+model).stdout, "\nAUC ")
	for _, file := range []string{"a.csv", "a.tsv.gz"} {
		if _, got, _ := strings.Cut(must(t, dir, "eval -resume "+model+" -data "+file).stdout, "\nAUC "); got == "" || got != want {
			t.Errorf("%s: AUC %q, on the Parquet file of the training %q", file, got, want)
		}
	}
	write(t, dir, "bare.csv", "39, Bachelors, <=50K\n50, Bachelors, >50K\n38, HS-grad, <=50K\n")
	if o := run(t, dir, "eval", "-resume", model, "-data", "bare.csv"); o.code == 0 || !strings.Contains(o.stderr, "bare.csv: its fields have no names: it is csv without a header") {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
}

// TestLeaksAreNamed: init, data check, data stats and train name the field that reveals the
// label, and no other field.
func TestLeaksAreNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("click,city,refund,age\n")
	for i := range 600 {
		click, refund := i*i%7%2, ""
		if click == 1 {
			refund = fmt.Sprint(i % 5)
		}
		fmt.Fprintf(&b, "%d,c%d,%s,%d\n", click, i%11, refund, 20+i%37)
	}
	write(t, dir, "clicks.csv", b.String())
	if o := must(t, dir, "init -data clicks.csv -out c.yaml"); !regexp.MustCompile(`\nnext: check the line marked CHECK, then run: \S+ data check -config c.yaml; then: \S+ -np 2 train -config c.yaml\n$`).MatchString(o.stderr) {
		t.Error(o.stderr)
	}
	write(t, dir, "ragged.csv", b.String()+"1,c3\n")
	if o := must(t, dir, "init -data ragged.csv -out r.yaml"); !strings.Contains(o.stderr, "(1 more could not be read)") || !strings.Contains(o.stderr, "data check -config r.yaml") {
		t.Error(o.stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, "c.yaml"))
	if err != nil || strings.Count(string(text), "reveal the label") != 1 || !strings.Contains(string(text), "field: refund, encode: vocabulary}   # CHECK: may reveal the label: it is missing exactly where") {
		t.Errorf("%v\n%s", err, text)
	}
	const line = "fields that may reveal the label: \"refund\" (it is missing exactly where the label has one of its values); remove"
	if o := must(t, dir, "data check -config c.yaml"); strings.Count(o.stderr, line) != 1 || !strings.HasSuffix(o.stdout, " -np 2 train -config c.yaml\n") {
		t.Errorf("data check: %s", o.stderr)
	}
	if o := must(t, dir, "data stats --json clicks.csv"); strings.Count(o.stdout, `"leak":true`) != 1 || !strings.Contains(o.stdout, `"auc":1,"information":0.8`) {
		t.Errorf("data stats: %s", o.stdout)
	}
	if o := must(t, dir, "-np 2 train -config c.yaml -set train.epochs=1"); strings.Count(o.stderr, line) != 1 {
		t.Errorf("train: %s", o.stderr)
	}
}

// TestGuessesAreCalledGuesses: data stats reports that the label is a guess if no configuration
// names it. init states how many rows and files it has read.
func TestGuessesAreCalledGuesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"p1.csv", "p2.csv"} {
		write(t, dir, name, "1,Oslo,x\n2,Voss,y\n3,Voss,x\n4,Oslo,x\n")
	}
	if o := must(t, dir, "data stats p1.csv p2.csv"); !strings.Contains(o.stdout, "the label is probably column_3, and 1 if that is y: 25.00 % of them; -config FILE sets") {
		t.Errorf("data stats prints\n%s", o.stdout)
	}
	if o := must(t, dir, "data stats --json p1.csv"); !strings.Contains(o.stdout, `"label_guessed":true,"label_ones":["y"]`) {
		t.Errorf("data stats --json prints\n%s", o.stdout)
	}
	if o := must(t, dir, "data stats --json builtin:adult.test"); strings.Contains(o.stdout, "guessed") {
		t.Errorf("a label named by the configuration is reported as a guess:\n%s", o.stdout)
	}
	if o := run(t, dir, "init", "-data", "p*.csv", "-out", "c.yaml"); o.code != 0 || !strings.Contains(o.stderr, "all 8 rows of the 2 files of p*.csv") {
		t.Errorf("output of init:\n%s", o.stderr)
	}
	if o := must(t, dir, "init -data p*.csv"); !strings.Contains(o.stdout, `all 8 rows of the 2 files of "p*.csv".`) {
		t.Errorf("init writes\n%s", o.stdout)
	}
}

// TestInitOfSeveral: init reads all files of a glob that the shell has expanded, and train
// accepts its configuration.
func TestInitOfSeveral(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	for i, line := range []string{"0,Oslo,x\n", "1,Voss,y\n", "2,Voss,x\n", "3,Oslo,y\n"} {
		write(t, dir, fmt.Sprintf("p%d.csv", i), strings.Repeat(line, 50))
	}
	write(t, dir, "p.tsv", strings.Repeat("1\tOslo\tx\n", 50))
	if o := run(t, dir, "init", "-out", "c.yaml", "-data", "p0.csv", "p1.csv", "p2.csv", "p3.csv"); o.code != 0 ||
		!strings.Contains(o.stderr, "all 200 rows of the 4 files p0.csv … p3.csv\n") {
		t.Fatalf("output of init:\n%s", o.stderr)
	}
	if o := must(t, dir, "-np 2 train -config c.yaml --json"); !strings.Contains(o.stdout, `"samples":`) {
		t.Errorf("train prints\n%s", o.stdout)
	}
	if o := must(t, dir, "init --json p1.csv p0.csv"); !strings.Contains(o.stdout, `"data":"p1.csv","also":["p0.csv"],"files":2,"looked_at":["p1.csv","p0.csv"],"rows":100,"all":true`) {
		t.Errorf("init --json prints\n%s", o.stdout)
	}
	for args, want := range map[string]string{
		"p0.csv p.tsv":          "p.tsv: none of the lines read has 3 fields, the number in p0.csv; give files of one kind",
		"p0.csv p0.csv":         "p0.csv is named twice",
		"p0.csv -out c.yaml":    "init: c.yaml exists; remove it first or choose another name",
		"p0.csv -out no/c.yaml": "init: -out no/c.yaml: there is no folder no: make it, or choose another name",
		"p0.csv p1.csv -out":    "flag needs an argument: -out",
		"p0.csv -np 2":          "init is one process, so -np has no effect: leave it out",
		"p0.csv -- -out p.csv":  "-out",
	} {
		if o := run(t, dir, append([]string{"init"}, strings.Fields(args)...)...); o.code == 0 || !strings.Contains(o.stderr, want) {
			t.Errorf("output of init %s:\n%s\nwant %s", args, o.stderr, want)
		}
	}
}

// TestRaggedRecordOfAPartition: the message about a record counts the fields of its file, not those of its folder.
func TestRaggedRecordOfAPartition(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fatal.If(t, os.MkdirAll(filepath.Join(dir, "clicks", "dt=1"), 0o755))
	write(t, dir, "clicks/dt=1/p.csv", "a,b,y\n1,2,1\n3,4\n5,6,0\n")
	if o := run(t, dir, "data", "check", "clicks"); !strings.Contains(o.stdout+o.stderr, "p.csv:3: the record has 2 fields, expected 3") {
		t.Error(o)
	}
}
