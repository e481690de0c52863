package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDialects(t *testing.T) {
	for name, c := range map[string]struct {
		text, format, delimiter, escape string
		multiline                       bool
	}{
		"Spark": {"click,p,z\n" + `1,"a,b\\",x` + "\n" + `0,a\,"y\""` + "\n" + `1,"\"q\"","c,\"d"` + "\n" + "1,\"line1\nline2\",\n0,,\"\"\n" + `0,"x\"y",z` + "\n",
			"csv", ",", "quoted", true},
		"Spark with tabs":                {"click\tp\tz\n1\t\"\"\tx\n0\ty\t\"\"\n1\tz\tx\n", "csv", "\t", "", false},
		"tsv with a quoted title":        {"click\tp\tz\n1\t\"Alien\" (1979)\tx\n0\t\"\"\tx\n1\tz\tx\n", "tsv", "\t", "", false},
		"tsv with a quoted word":         {"click\tp\tz\n1\t\"Alien\"\tx\n0\ty\tx\n1\tz\tx\n", "tsv", "\t", "", false},
		"MySQL":                          {"1\ta\t\\N\n0\tb\\\tc\t2\n1\td\t3\n0\te\t4\n", "tsv", "\t", "all", false},
		"MySQL, escaped line breaks":     {"1\ta\t1\n0\tone\\\ntwo\t2\n1\td\t3\n0\te\t4\n1\tf\t5\n", "tsv", "\t", "all", true},
		"MySQL with quotes":              {"\"1\",\"a\\\"b\",\\N\n\"0\",\"c\",\"3\"\n\"1\",\"d,e\",\"3\"\n", "csv", ",", "all", false},
		"PostgreSQL":                     {"1\ta\\tb\t\\N\n0\tc\t2\n1\td\t3\n", "tsv", "\t", "all", false},
		"paths of Windows":               {"1\tC:\\temp\\x\t1\n0\tC:\\new\t2\n1\td\t3\n", "tsv", "\t", "", false},
		"missing values of Hive":         {"1\x01a\x01\\N\n0\x01c\x01x\x02y\n1\x01d\x01z\n", "csv", "\x01", "", false},
		"a backslash before a delimiter": {"1,a\\,x\n0,b\\,y\n1,c,z\n", "csv", ",", "", false},
	} {
		path := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		in, err := First(path, 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if in.Format != c.format || in.Delimiter != c.delimiter || in.Escape != c.escape || in.Multiline != c.multiline {
			t.Errorf("%s: %s, delimiter %q, escape %q, multiline %t", name, in.Format, in.Delimiter, in.Escape, in.Multiline)
		}
	}
}

func TestHiveLists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "000000_0")
	if err := os.WriteFile(path, []byte(strings.Repeat("1\x01a\x02b\n0\x01b\x02c\n", 20)), 0o644); err != nil {
		t.Fatal(err)
	}
	in, err := First(path, 0)
	if err != nil || in.Columns[1].Separator != "\x02" || in.Columns[1].Distinct != 3 {
		t.Fatal(in, err)
	}
}

func TestPairsOf(t *testing.T) {
	for pieces, want := range map[string]string{
		"t1:1.5 t4:0.5":     ":",
		"a\x031.5 b\x030.5": "\x03",
		"http://x:1 y:2":    ":",
		"a=1 b=2":           "=",
		"12:30 13:45":       "",
		"12:30 t1:45":       ":",
		"t1:1.5 t4":         "",
		"t1:x t2:1":         "",
		":1 :2":             "",
	} {
		all := map[string]int{}
		for _, p := range strings.Fields(pieces) {
			all[p]++
		}
		if got := pairsOf(all); got != want {
			t.Errorf("%s: %q, want %q", pieces, got, want)
		}
	}
}
