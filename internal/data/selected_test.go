package data

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestFoldersSelectFiles: a file whose folders make data.where false is not opened.
func TestFoldersSelectFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"dt=2026-11-01/hour=0/a.csv": "y,x\n1,1\n0,2\n", "dt=2026-11-02/hour=0/a.csv": "y,x\n1,3\n0,\n0,4\n",
		"dt=2026-11-02/hour=13/a.csv": "y,x\n1,5\n", "dt=__HIVE_DEFAULT_PARTITION__/hour=7/a.csv": "y,x\n1,6\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
	}
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "x", Encode: "hash"}}}
	for where, want := range map[string][2]int64{ // files that are not read, records
		"dt != '2026-11-01'":                     {2, 4},
		"dt == '2026-11-02' and x > 3":           {1, 2},
		"x > 3 and dt == '2026-11-02'":           {1, 2},
		"hour < 12":                              {1, 6},
		"hour in (7, 13)":                        {2, 2},
		"x > 3 or hour == 13":                    {0, 3},
		"hour == 13 or dt == '2026-11-01'":       {2, 3},
		"not (hour == 0) and not (x == 5)":       {2, 1},
		"x > 1":                                  {0, 5},
		"missing(x) and hour == 0":               {0, 1},
		"missing(dt)":                            {3, 1},
		"if(missing(x), 1, x) > 3 and hour < 12": {0, 2},
		"max(x, 0) > 3":                          {0, 3},
	} {
		d, err := Open(schema.Source{Header: true, Where: where}, s, []string{dir})
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		c, err := d.Scan(t.Context(), 0, 1, nil, nil)
		if err == nil {
			err = d.Use(c)
		}
		_, unread := d.Excluded()
		if got := [2]int64{int64(unread), d.Rows(All)}; err != nil || got != want {
			t.Errorf("%s: %d files not read, %d records, want %v: %v", where, got[0], got[1], want, err)
		}
	}
	fatal.If(t, os.WriteFile(filepath.Join(dir, "dt=2026-11-01", "hour=0", "a.csv"), []byte("damaged"), 0o000))
	if _, err := Open(schema.Source{Header: true, Where: "dt != '2026-11-01'"}, s, []string{dir}); err != nil {
		t.Errorf("a file that is not selected: %v", err)
	}
	if _, err := Open(schema.Source{Header: true, Where: "dt == '2027'"}, s, []string{dir}); err == nil || !strings.Contains(err.Error(), "excludes every file by the values of its folders") {
		t.Error(err)
	}
}
