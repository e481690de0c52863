package data

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// folderOf is a folder of a test, with the values of its records.
type folderOf struct {
	path, dt, hour string // "": missing
}

// partitioned writes 300 records to each of some folders.
func partitioned(t *testing.T, format, packing string) (dir string, folders []folderOf) {
	folders = []folderOf{
		{"dt=2026-11-01/hour=00", "2026-11-01", "00"},
		{"dt=2026-11-01/hour=03", "2026-11-01", "03"},
		{"dt=__HIVE_DEFAULT_PARTITION__/hour=03", "", "03"},
		{"dt=a%2Cb %22c%22%3D/hour=", `a,b "c"=`, ""},
	}
	slices.SortFunc(folders, func(a, b folderOf) int { return slices.Compare([]byte(a.path), []byte(b.path)) })
	dir = t.TempDir()
	for i, f := range folders {
		path := filepath.Join(dir, "clicks", f.path)
		fatal.If(t, os.MkdirAll(filepath.Join(path, "_temporary"), 0o755))
		b := datatest.Pack(t, packing, datatest.Numbered(t, format, 300*i, 300*i+300))
		fatal.If(t, os.WriteFile(filepath.Join(path, "part-0"), b, 0o644))
		for _, name := range []string{".part-0.crc", "_SUCCESS", "_temporary/part-1"} {
			fatal.If(t, os.WriteFile(filepath.Join(path, name), []byte("crc\x00"), 0o644))
		}
	}
	return filepath.Join(dir, "clicks"), folders
}

// The names of folders are fields of the records in them, in every format, whichever way the
// records are read.
func TestFoldersAreFields(t *testing.T) {
	datatest.EveryFormat(t, func(t *testing.T, format, packing string) {
		dir, folders := partitioned(t, format, packing)
		src, s := datatest.Fields(format)
		files, err := record.OpenFiles(src, []string{dir})
		fatal.If(t, err)
		n := 0
		w, err := files.Walk(t.Context(), []string{"hour", s.Features[0].Field, "dt"}, 3, func(l []value.List) error {
			f, text := folders[n/300], func(l *value.List) string {
				if l.Len() == 0 {
					return ""
				}
				return string(l.Append(nil, 0))
			}
			if got := (folderOf{f.path, text(&l[2]), text(&l[0])}); got != f || text(&l[1]) != fmt.Sprint(n) {
				t.Errorf("record %d: %+v, want %+v", n, got, f)
				return record.Stop
			}
			n++
			return nil
		}, nil)
		if err != nil || w.Records != 1200 || w.Bad != 0 {
			t.Fatalf("%+v, %v", w, err)
		}
		src.Derive = []schema.Derived{schema.NewDerived("late", "hour >= 3")}
		src.Where = "hour >= 0"
		label := s.Label
		s.Label = schema.Label{Field: "late"}
		s.Features = append(s.Features, schema.Feature{Field: "hour", Encode: "id"}, schema.Feature{Field: "dt", Encode: "vocabulary"}, schema.Feature{Field: "hour", Encode: "raw", Name: "r"})
		for _, plain := range []bool{false, true} {
			if plain { // without expressions, coders that read columns are used
				src.Derive, src.Where = nil, ""
				s.Label = label
				folders = folders[:len(folders)-1]
				fatal.If(t, os.RemoveAll(filepath.Join(dir, "dt=a%2Cb %22c%22%3D")))
			}
			for _, limits := range []limits{{minGroup, maxHeld}, tiny} {
				d, fit := prepareWithin(t, limits, src, s, 2, filepath.Join(dir))
				checkFolders(t, d, newEncoder(t, fit), folders, plain)
			}
		}
	})
}

// checkFolders compares the rows of a dataset with the folders in which their records are. The
// label is the parity of the record if odd is set, otherwise the folder decides it.
func checkFolders(t *testing.T, d *Dataset, e *encode.Encoder, folders []folderOf, odd bool) {
	t.Helper()
	for _, shuffle := range []bool{true, false} {
		rows := 0
		keys := map[string]uint64{}
		for _, b := range readAll(t, d, e, ReaderConfig{Seed: 5, GlobalBatch: 100, Shuffle: shuffle}) {
			for i := range b.Rows {
				n := b.Sparse[0].Values[b.Sparse[0].Offsets[i]]
				f := folders[n/300]
				hour, positive := uint64(0), n%2 == 1
				if f.hour == "03" {
					hour = 3
				}
				if !odd {
					positive = hour == 3
				}
				dt := b.Sparse[2].Values[b.Sparse[2].Offsets[i]]
				if was, ok := keys[f.dt]; ok && was != dt || (dt == encode.KeyMissing) != (f.dt == "") {
					t.Fatalf("record %d: key %d of dt, of other records of %q: %d", n, dt, f.dt, was)
				}
				keys[f.dt] = dt
				if got := b.Sparse[1].Values[b.Sparse[1].Offsets[i]]; got != hour || b.Dense[i] != float32(hour) || (b.Label[i] == 1) != positive {
					t.Fatalf("record %d of %s: hour %d, %v, label %v", n, f.path, got, b.Dense[i], b.Label[i])
				}
				rows++
			}
		}
		if rows != 900 || len(keys) != 2 {
			t.Errorf("%d rows, keys %v", rows, keys)
		}
	}
}
