package record

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// rowsOfTable returns the records of a folder as texts, one per record.
func rowsOfTable(t *testing.T, dir string, fields ...string) (rows []string) {
	t.Helper()
	f, err := OpenFiles(schema.Source{Format: "parquet"}, []string{dir})
	fatal.If(t, err)
	if got := f.Fields(); !slices.Equal(got, fields) {
		t.Errorf("%s: fields %q", dir, got)
	}
	w, err := f.Walk(t.Context(), fields, 1, func(l []value.List) error {
		var row []string
		for i := range l {
			text := "-"
			if l[i].Len() > 0 {
				text = string(l[i].Append(nil, 0))
			}
			row = append(row, text)
		}
		rows = append(rows, strings.Join(row, " "))
		return nil
	}, nil)
	if err != nil || w.Bad > 0 {
		t.Fatalf("%s: %+v, %v", dir, w, err)
	}
	return rows
}

// The tables in testdata/delta were written by deltalake 1.6.6 (Python); the rows are those that
// it reads.
func TestDeltaTables(t *testing.T) {
	prices := func(dir string) (all []float64) {
		for _, row := range rowsOfTable(t, "testdata/delta/"+dir, "click", "user", "price", "day") {
			var x float64
			fmt.Sscan(strings.Fields(row)[2], &x)
			all = append(all, x)
		}
		return all
	}
	for _, x := range []struct {
		dir         string
		rows        int
		least, most float64
	}{{"deleted", 60, 10, 24.75}, {"overwritten", 100, 250, 274.75}, {"mapped", 100, 0, 24.75}} {
		if got := prices(x.dir); len(got) != x.rows || slices.Min(got) != x.least || slices.Max(got) != x.most {
			t.Errorf("%s: %d rows, prices %v", x.dir, len(got), got)
		}
	}
	rows := rowsOfTable(t, "testdata/delta/new-column", "click", "user", "price", "day", "os")
	with := 0
	for _, row := range rows {
		var price float64
		fmt.Sscan(strings.Fields(row)[2], &price)
		if strings.HasSuffix(row, " ios") != (price >= 12.5) || strings.HasSuffix(row, " -") != (price < 12.5) {
			t.Errorf("new-column: %s", row)
		}
		if price >= 12.5 {
			with++
		}
	}
	if len(rows) != 100 || with != 50 {
		t.Errorf("new-column: %d rows, %d with os", len(rows), with)
	}
}

// Rows that deletion vectors mark, in a file and in the log, are not read; DIR@vN is an earlier
// version. deltalake 1.6.6 reads the same rows.
func TestDeletionVectors(t *testing.T) {
	sum := 0
	rows := rowsOfTable(t, "testdata/delta/vectors", "id", "click")
	for _, row := range rows {
		var id int
		fmt.Sscan(row, &id)
		sum += id
	}
	if len(rows) != 3631 || sum != 14177220 || !slices.Contains(rows, "1 1") || slices.Contains(rows, "0 0") {
		t.Errorf("%d rows, sum %d, first %q", len(rows), sum, rows[0])
	}
	for version, want := range map[string]int{"@v0": 200, "@v2": 600, "@v3": 8600, "@v4": 3631} {
		if rows := rowsOfTable(t, "testdata/delta/vectors"+version, "id", "click"); len(rows) != want {
			t.Errorf("%s: %d rows, want %d", version, len(rows), want)
		}
	}
	if _, err := Resolve([]string{"testdata/delta/vectors@v5"}); err == nil || !strings.Contains(err.Error(), "there is no version 5, the newest is 4") {
		t.Error(err)
	}
	for _, x := range []string{"vx", "v-1", "5", ""} {
		want := fmt.Sprintf("testdata/delta/vectors@%s: %q is no version of the Delta table; one is written as testdata/delta/vectors@v12", x, x)
		if _, err := Resolve([]string{"testdata/delta/vectors@" + x}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	dir := filepath.Join(t.TempDir(), "t")
	fatal.If(t, os.CopyFS(dir, os.DirFS("testdata/delta/overwritten")))
	before, err := Resolve([]string{dir + "@v0"})
	fatal.If(t, err)
	fatal.If(t, os.Remove(before[0].Name))
	if _, err := Resolve([]string{dir + "@v0"}); err == nil || !strings.Contains(err.Error(), "VACUUM has probably removed the files of this version") {
		t.Error(err)
	}
	_, err = Resolve([]string{dir})
	fatal.If(t, err)
}

// A checkpoint, later commits, deleted files and partitions with special characters.
func TestDeltaCheckpoint(t *testing.T) {
	counts := map[string]int{}
	for _, row := range rowsOfTable(t, "testdata/delta/partitioned", "click", "user", "s.a", "s.b", "dt", "hour") {
		words := strings.SplitN(row, " ", 5)
		counts[words[4]]++
		if n := strings.TrimPrefix(words[1], "u"); words[2] != n || words[3] != "b"+n {
			t.Errorf("row %s", row)
		}
	}
	want := map[string]int{"2026-11-01 0": 20, "2026-11-02 0": 10, "2026-11-02 2": 10, "2026-11-03 0": 4, "2026-11-03 1": 3,
		"2026-11-03 2": 3, `a b/c=%,"x 1`: 20, "- 2": 19}
	if !maps.Equal(counts, want) {
		t.Errorf("%v", counts)
	}
}

// testdata/delta/by-id was written with pyarrow 26.0.1: columns are mapped by field ids, so that their
// names in the files have no meaning. One file has other names than the log, and the name of a column for
// another one; the other file has a column with a name of the log, but no id. The checkpoint is one of
// the second version, as JSON, whose file of actions is in _sidecars.
func TestDeltaByID(t *testing.T) {
	const checkpoint, uuid = "_delta_log/00000000000000000003.checkpoint.", "5f0e2b1e-0000-4000-8000-000000000003"
	fields := []string{"id", "title", "st.a", "h.id", "h.w", "m.key", "m.value", "name", "late", "dt"}
	want := []string{"3 t3 6 h3 1.5 k 3 7 - -", "4 t4 8 h4 2.0 k 4 7 - -", "5 t5 10 h5 2.5 k 5 7 - -", "0 t0 0 h0 0.0 k 0 - - x", "1 t1 2 h1 0.5 k 1 - - x", "2 t2 4 h2 1.0 k 2 - - x"}
	second, err := os.ReadFile("testdata/checkpoints/second.parquet")
	fatal.If(t, err)
	for _, name := range []string{uuid + ".json", uuid + ".parquet", "parquet"} {
		dir := filepath.Join(t.TempDir(), "t")
		fatal.If(t, os.CopyFS(dir, os.DirFS("testdata/delta/by-id")))
		if name != uuid+".json" {
			fatal.If(t, os.Remove(filepath.Join(dir, checkpoint+uuid+".json")))
			fatal.If(t, os.WriteFile(filepath.Join(dir, checkpoint+name), second, 0o600))
		}
		if rows := rowsOfTable(t, dir, fields...); !slices.Equal(rows, want) {
			t.Errorf("%s: %q", name, rows)
		}
		if rows := rowsOfTable(t, dir+"@v3", fields...); len(rows) != 5 || !slices.Contains(rows, "7 t7 14 h7 3.5 k 7 - - -") {
			t.Errorf("%s, version 3: %q", name, rows)
		}
		side, err := filepath.Glob(filepath.Join(dir, "_delta_log/_sidecars/*"))
		fatal.If(t, err)
		fatal.If(t, os.Remove(side[0]))
		if _, err := Resolve([]string{dir}); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s, without the file of a checkpoint: %v", name, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "t")
	fatal.If(t, os.CopyFS(dir, os.DirFS("testdata/delta/by-id")))
	other, err := os.ReadFile("testdata/checkpoints/second.parquet")
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(filepath.Join(dir, "b.parquet"), other, 0o600))
	if _, err := OpenSet(schema.Source{Format: "parquet"}, []string{dir}); err == nil || !strings.Contains(err.Error(), "finds columns by field ids, and the file has none") {
		t.Errorf("a file without ids: %v", err)
	}
}

// Tables that cannot be read as they are now are errors that say why.
func TestDeltaFaults(t *testing.T) {
	const next = "_delta_log/00000000000000000002.json"
	for _, x := range []struct {
		from, file, text, want string
	}{
		{"partitioned", "_delta_log/00000000000000000003.json", "", "version 3 is missing"},
		{"partitioned", "_delta_log/00000000000000000002.checkpoint.parquet", "", "version 0 is missing"},
		{"partitioned", "_delta_log/00000000000000000002.checkpoint.parquet", "PAR1", "checkpoint.parquet: "},
		{"deleted", "_delta_log/00000000000000000000.json", "", "the log has a gap"},
		{"deleted", next, `{"add": {`, "action 1"},
		{"deleted", next, `{"protocol":{"minReaderVersion":4}}`, "version 4 of its protocol"},
		{"deleted", next, `{"protocol":{"minReaderVersion":3,"readerFeatures":["deletionVectors","typeWidening"]}}`, `it needs the table feature "typeWidening"`},
		{"deleted", next, `{"add":{"path":"x.parquet","partitionValues":{}}}`, "a file of version 2 of the Delta table"},
		{"deleted", next, `{"add":{"path":"../x.parquet","partitionValues":{}}}`, "leads out of the table"},
		{"deleted", next, `{"add":{"path":"s3://b/x.parquet","partitionValues":{}}}`, "is in another store"},
		{"deleted", next, `{"add":{"path":"x.parquet","partitionValues":{},"deletionVector":{"storageType":"u","pathOrInlineDv":"x"}}}`, "the deletion vector of x.parquet: the set of rows is damaged"},
		{"deleted", next, `{"add":{"path":"x.parquet","partitionValues":{},"deletionVector":{"storageType":"t","pathOrInlineDv":"x"}}}`, "it needs a deletion vector that is stored as \"t\""},
		{"vectors", "ab/deletion_vector_0f00ba11-1234-4abc-8def-0123456789ab.bin", "\x01\x00\x00\x00\x04abcd0000", "deletion_vector_0f00ba11-1234-4abc-8def-0123456789ab.bin: EOF"},
		{"vectors", "ab/deletion_vector_0f00ba11-1234-4abc-8def-0123456789ab.bin", "", "no such file"},
		{"deleted", next, `{"metaData":{"format":{"provider":"parquet"},"schemaString":"{\"fields\":[{\"name\":\"a\",\"type\":\"long\"}]}","partitionColumns":["b"]}}`, `no partition column "b"`},
		{"deleted", next, `{"metaData":{"schemaString":"{\"fields\":[{\"name\":\"a\",\"type\":\"long\"},{\"name\":\"b\",\"type\":\"long\"}]}","partitionColumns":["b"]}}`, "no value of the partition column b"},
		{"deleted", next, `{"metaData":{"schemaString":"{}","configuration":{"delta.columnMapping.mode":"hash"}}}`, "it needs column mapping by hash"},
		{"deleted", next, `{"metaData":{"schemaString":"{\"fields\":[{\"name\":\"a\",\"type\":\"long\",\"metadata\":{\"delta.columnMapping.physicalName\":\"a\"}}]}","configuration":{"delta.columnMapping.mode":"id"}}}`, `the column "a" has no id`},
		{"deleted", "_delta_log/00000000000000000001.json", `{"remove":{"path":"part-00000-09b859f1-4bf9-49c6-bf85-d05afd839e84-c000.snappy.parquet"}}`, "has no rows"},
	} {
		dir := filepath.Join(t.TempDir(), "t")
		fatal.If(t, os.CopyFS(dir, os.DirFS("testdata/delta/"+x.from)))
		path := filepath.Join(dir, x.file)
		if x.text == "" {
			fatal.If(t, os.Remove(path))
		} else {
			fatal.If(t, os.WriteFile(path, []byte(x.text), 0o600))
		}
		_, err := Resolve([]string{dir})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s, %s: %v, want %q", x.from, x.file, err, x.want)
		}
		if unsupported := strings.Contains(x.want, "it needs"); unsupported && !strings.Contains(err.Error(), "DeltaTable('"+dir+"')") {
			t.Errorf("%v has no command that exports the rows", err)
		}
	}
}
