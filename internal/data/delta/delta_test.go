package delta

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

const small = `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"format":{"provider":"parquet"},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\"},{\"name\":\"d\",\"type\":\"date\"},{\"name\":\"s\",\"type\":{\"type\":\"struct\",\"fields\":[{\"name\":\"x\",\"type\":\"string\"},{\"name\":\"l\",\"type\":{\"type\":\"array\",\"elementType\":\"long\"}},{\"name\":\"h\",\"type\":{\"type\":\"array\",\"elementType\":{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"},{\"name\":\"m\",\"type\":{\"type\":\"map\",\"keyType\":\"string\",\"valueType\":\"long\"}}]}}},{\"name\":\"m\",\"type\":{\"type\":\"map\",\"keyType\":\"string\",\"valueType\":\"long\"}}]}}]}","partitionColumns":["d"],"configuration":{}}}
{"add":{"path":"d=a%2520b/1.parquet","partitionValues":{"d":"2026-11-01"}}}
{"add":{"path":"2.parquet","partitionValues":{"d":null}}}
{"add":{"path":"3.parquet","partitionValues":{"d":""},"deletionVector":{"storageType":"u","pathOrInlineDv":"v","offset":1}}}
{"commitInfo":{"x":1}}
{"remove":{"path":"3.parquet","deletionVector":{"storageType":"u","pathOrInlineDv":"v","offset":1}}}
`

// The state after one commit, read by hand.
func TestState(t *testing.T) {
	s := state{files: map[string]add{}}
	fatal.If(t, s.read(strings.NewReader(strings.Replace(small, `{"remove"`, "", 0))))
	if _, err := s.table("T", 0); err == nil || !strings.Contains(err.Error(), "the deletion vector of 3.parquet: the set of rows is damaged") {
		t.Fatalf("a file that the same commit removes and adds is current: %v", err)
	}
	fatal.If(t, s.read(strings.NewReader(`{"remove":{"path":"3.parquet","deletionVector":{"storageType":"u","pathOrInlineDv":"v","offset":1}}}`)))
	got, err := s.table("T", 1)
	fatal.If(t, err)
	if len(got.Files) != 2 || got.Files[0].Path != "T/2.parquet" || got.Files[0].Values[0] != nil || got.Files[1].Path != "T/d=a%20b/1.parquet" || *got.Files[1].Values[0] != "2026-11-01" {
		t.Errorf("files %+v", got.Files)
	}
	if fmt.Sprint(got.Columns) != "[{a a} {s.x s.x} {s.l s.l} {s.h.id s.h.id} {s.h.m s.h.m} {s.m.key s.m.key} {s.m.value s.m.value}]" {
		t.Errorf("columns %+v", got.Columns)
	}
}

// The sets were written by pyroaring 1.0: an array, runs, and a bitmap.
func TestRowSets(t *testing.T) {
	b, err := os.ReadFile("testdata/sets.txt")
	fatal.If(t, err)
	for line := range strings.Lines(string(b)) {
		var set string
		var n, sum uint64
		if _, err := fmt.Sscan(line, &n, &sum, &set); err != nil {
			t.Fatal(err)
		}
		v := vector{StorageType: "i", PathOrInlineDv: set, Cardinality: int64(n)}
		rows, err := v.rows("")
		fatal.If(t, err)
		for _, row := range rows {
			sum -= uint64(row)
		}
		if uint64(len(rows)) != n || sum != 0 {
			t.Errorf("%d rows, want %d; the sum differs by %d", len(rows), n, sum)
		}
		for i := 0; i < len(set)-10; i += 5 {
			v.PathOrInlineDv = set[:i]
			if _, err := v.rows(""); err == nil {
				t.Errorf("no error for %d digits of %d", i, len(set))
			}
		}
	}
}

// FuzzRowSet: no set makes the reader panic, and rows ascend.
func FuzzRowSet(f *testing.F) {
	b, err := os.ReadFile("testdata/sets.txt")
	fatal.If(f, err)
	for line := range strings.Lines(string(b)) {
		set, err := base85(strings.Fields(line)[2])
		fatal.If(f, err)
		f.Add(set)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rows, err := rowSet(b)
		if err == nil && !slices.IsSorted(rows) || len(rows) > 1<<17+64*len(b)*1024 {
			t.Errorf("%d rows of %d bytes", len(rows), len(b))
		}
	})
}

// FuzzCommit: no commit makes the reader panic, and every path stays in the table.
func FuzzCommit(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(`{"add":{"path":"file:/a/b.parquet"}} {"metaData":{"schemaString":"{}"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := state{files: map[string]add{}}
		if s.read(bytes.NewReader(b)) != nil {
			return
		}
		if got, err := s.table("T", 0); err == nil {
			for _, f := range got.Files {
				if !strings.HasPrefix(f.Path, "T/") && !strings.HasPrefix(f.Path, "/") || len(f.Values) != len(got.Partitions) {
					t.Errorf("%+v", f)
				}
			}
		}
	})
}

// FuzzCheckpoint: no checkpoint makes the reader panic.
func FuzzCheckpoint(f *testing.F) {
	b, err := os.ReadFile("../record/testdata/delta/partitioned/_delta_log/00000000000000000002.checkpoint.parquet")
	fatal.If(f, err)
	f.Add(b)
	b, err = os.ReadFile("../record/testdata/checkpoints/second.parquet")
	fatal.If(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := state{files: map[string]add{}}
		if s.readTable(bytes.NewReader(b), int64(len(b)), minReader, schemaString) == nil {
			_, _ = s.table("T", 0)
		}
	})
}
