package record

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// readAll returns the values of the records of a text, and the number of bad lines.
func readAll(t *testing.T, src schema.Source, text string) (all []string, bad int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFiles(src, []string{path})
	if err != nil {
		t.Fatal(err)
	}
	w, err := f.Walk(t.Context(), f.Fields(), 10, func(lists []value.List) error {
		var own []string
		for i := range lists {
			own = append(own, string(lists[i].Texts[0]))
		}
		all = append(all, strings.Join(own, "¦"))
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all, w.Bad
}

func TestEscapes(t *testing.T) {
	abc := []string{"a", "b", "c"}
	for name, c := range map[string]struct {
		src  schema.Source
		text string
		want []string
	}{
		"Spark": { // written by df.write.csv of Spark 4.3.0
			schema.Source{Format: "csv", Header: true, Escape: "quoted", Multiline: true},
			"click,p,z\n" + `1,"a,b\\",x` + "\n" + `0,a\,"y\""` + "\n" + `1,"\"q\"","c,\"d"` + "\n" + "0,pad,#com\n1,\"line1\nline2\",\n" + `0,,""` + "\n" + `1,"a\\,b","\\\""` + "\n" + `0,"x\"y",NULL` + "\n",
			[]string{`1¦a,b\¦x`, `0¦a\¦y"`, `1¦"q"¦c,"d`, "0¦pad¦#com", "1¦line1\nline2¦", "0¦¦", `1¦a\,b¦\"`, `0¦x"y¦NULL`},
		},
		"Spark with tabs": {
			schema.Source{Format: "csv", Delimiter: "\t", Fields: abc, Escape: "quoted"},
			"1\t\"\"\t\"t\tb\"\n0\t\"say \\\"x\\\"\"\tC:\\new\n",
			[]string{"1¦¦t\tb", `0¦say "x"¦C:\new`},
		},
		"MySQL": { // SELECT … INTO OUTFILE
			schema.Source{Format: "tsv", Fields: abc, Escape: "all", Multiline: true},
			"1\ta\\\tb\t\\N\n0\tone\\\ntwo\tC:\\\\x\n1\tx\\0\\\\\t\"q\"\n",
			[]string{"1¦a\tb¦", "0¦one\ntwo¦C:\\x", "1¦x\x00\\¦\"q\""},
		},
		"MySQL with quotes": { // FIELDS TERMINATED BY ',' ENCLOSED BY '"'
			schema.Source{Format: "csv", Fields: abc, Escape: "all", Multiline: true},
			"\"1\",\"a\\\"b\\\\\",\\N\n\"0\",\"x\\\ny\",\"N\"\n",
			[]string{`1¦a"b\¦`, "0¦x\ny¦N"},
		},
		"PostgreSQL": { // COPY … TO
			schema.Source{Format: "tsv", Fields: abc, Escape: "all"},
			"1\ta\\tb\\\\\t\\N\n0\tone\\ntwo\t \\r\\v \n",
			[]string{"1¦a\tb\\¦", "0¦one\ntwo¦ \r\v "},
		},
		"Hive": {
			schema.Source{Format: "csv", Delimiter: "\x01", Fields: abc, Escape: "all"},
			"1\x01\"a\x01b\\\x01c\n0\x01\\N\x01x\x02y\n",
			[]string{"1¦\"a¦b\x01c", "0¦¦x\x02y"},
		},
		"no escapes": {
			schema.Source{Format: "csv", Fields: abc},
			`1,a\,"\n"` + "\n", []string{`1¦a\¦\n`},
		},
	} {
		if got, bad := readAll(t, c.src, c.text); bad > 0 || !slices.Equal(got, c.want) {
			t.Errorf("%s: %d bad, %q\nwant %q", name, bad, got, c.want)
		}
	}
}

// Good records inside a faulty one are in the count of bad ones.
func TestLinesInsideFaultyRecords(t *testing.T) {
	src := schema.Source{Format: "csv", Fields: []string{"a", "b"}, Multiline: true}
	got, bad := readAll(t, src, "1,x\n0,\"open\n1,y\n0,\"z\"x\n1,w\n")
	if len(got)+int(bad) != 5 || len(got) != 2 {
		t.Errorf("%q and %d bad of 5", got, bad)
	}
}

func FuzzEscapes(f *testing.F) {
	f.Add("1\ta\\\tb\\\n\\N\n", true, true)
	f.Add("\"a\\\"\n,\"\\\\\"\n\\", false, true)
	f.Fuzz(func(t *testing.T, text string, tsv, all bool) {
		src := schema.Source{Format: "csv", Fields: []string{"a"}, Escape: "quoted"}
		if all {
			src.Escape = "all"
		}
		if tsv {
			src.Format = "tsv"
		}
		d := NewDelimited(src)
		for line := range strings.SplitSeq(text, "\n") {
			fields, _ := d.Split([]byte(line), nil)
			n := 0
			for _, f := range fields {
				n += len(f)
			}
			if n > len(line) {
				t.Fatalf("%q has %d bytes in its fields", line, n)
			}
		}
	})
}

func TestTablesInOneValue(t *testing.T) {
	for text, want := range map[string]string{
		`{"click":{"0":true,"1":false},"u":{"0":1}}`:                "columns",
		`{"0":{"click":true},"1":{"click":false}}`:                  "index",
		`[[true,null,0.0],[false,"u1",0.25]]`:                       "values",
		`{"columns":["a","b"],"index":[0,1],"data":[[1,2],[3,4]]}`:  "split",
		`{"schema":{"fields":[{"name":"index"}]},"data":[{"a":1}]}`: "table",
		`{"click":1,"user":{"id":7}}`:                               "",
		`{"click":{"0":1}}` + "\n" + `{"click":{"0":2}}` + "\n":     "",
		`{"columns":["a","b"],"data":3}`:                            "",
		"[1,2]\n[3,4]\n":                                            "",
	} {
		if got := orientOf([]byte(text)); got != want {
			t.Errorf("%s: orient %q, want %q", text, got, want)
		}
	}
}
