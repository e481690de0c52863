package arrow_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/arrow"
	"github.com/wdlrun/wdlrun/internal/data/flat"
	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// rows returns the rows of some columns as text: values of a row are separated by |, a null in a list is
// ∅, and a missing value or an empty list is "".
func rows(b []byte, names []string) (all [][]string, err error) {
	form, err := arrow.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	f, err := table.New(form)
	if err != nil {
		return nil, err
	}
	if names == nil {
		names = f.Columns()
	}
	lists := make([]value.List, len(names))
	for g := range f.Groups() {
		r, err := f.Rows(g, names, true)
		if err != nil {
			return all, err
		}
		for {
			row, err := r.Append(nil)
			if err == io.EOF {
				break
			}
			if err == nil {
				err = table.Decode(row, lists)
			}
			if err != nil {
				return all, err
			}
			texts := make([]string, len(lists))
			for i := range lists {
				var values []string
				for j := range lists[i].All {
					if j < 0 {
						values = append(values, "∅")
					} else {
						values = append(values, string(lists[i].Append(nil, j)))
					}
				}
				texts[i] = strings.Join(values, "|")
			}
			all = append(all, texts)
		}
	}
	return all, nil
}

// pyarrow wrote the same random tables as Arrow IPC and as Parquet.
func TestSameAsParquet(t *testing.T) {
	files, err := filepath.Glob("testdata/*.arrow*")
	fatal.If(t, err)
	if len(files) != 4 {
		t.Fatalf("files %q", files)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		fatal.If(t, err)
		want, columns := parquet(t, strings.TrimSuffix(strings.TrimSuffix(name, ".arrows"), ".arrow")+".parquet")
		got, err := rows(b, columns)
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %d rows, want %d, %v", name, len(got), len(want), err)
			continue
		}
		for i := range want {
			for c := range columns {
				if got[i][c] != want[i][c] {
					t.Fatalf("%s: row %d: column %s is %q, want %q", name, i, columns[c], got[i][c], want[i][c])
				}
			}
		}
	}
}

// parquet reads the expected rows.
func parquet(t *testing.T, name string) (all [][]string, names []string) {
	b, err := os.ReadFile(name)
	fatal.If(t, err)
	f, err := table.Open(bytes.NewReader(b), int64(len(b)))
	fatal.If(t, err)
	names = f.Columns()
	lists := make([]value.List, len(names))
	for g := range f.Groups() {
		r, err := f.Rows(g, names, true)
		fatal.If(t, err)
		for {
			row, err := r.Append(nil)
			if err == io.EOF {
				break
			}
			fatal.If(t, err)
			fatal.If(t, table.Decode(row, lists))
			texts := make([]string, len(lists))
			for i := range lists {
				var values []string
				for j := range lists[i].All {
					if j < 0 {
						values = append(values, "∅")
					} else {
						values = append(values, string(lists[i].Append(nil, j)))
					}
				}
				texts[i] = strings.Join(values, "|")
			}
			all = append(all, texts)
		}
	}
	return all, names
}

// A damaged file is an error. It neither panics nor states sizes that are allocated.
func TestMutations(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for _, name := range []string{"testdata/lz4.arrow", "testdata/zstd.arrows", "testdata/plain.arrow", "testdata/nested.arrow"} {
		b, err := os.ReadFile(name)
		fatal.If(t, err)
		n := 150
		if !testing.Short() {
			n = 300
		}
		for range n {
			m := bytes.Clone(b)
			for range 1 + r.IntN(3) {
				m[r.IntN(len(m))] = byte(r.Uint32())
			}
			if r.IntN(4) == 0 {
				m = m[:r.IntN(len(m))]
			}
			_, _ = rows(m, nil) // an error, or other values
		}
	}
}

// FuzzOpen: any bytes are an error or rows.
func FuzzOpen(f *testing.F) {
	for _, name := range []string{"testdata/lz4.arrow", "testdata/zstd.arrows", "testdata/plain.arrow", "testdata/nested.arrow"} {
		b, err := os.ReadFile(name)
		fatal.If(f, err)
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = rows(b, nil) })
}

// stream returns a stream with a column of nulls, of a batch with some rows, and a body.
func stream(n int64, body []byte) []byte {
	column := flat.Table{flat.To("n"), flat.Of(1, 1), flat.Of(1, 1), flat.To(flat.Table{}), {}, flat.To([]flat.Table{})}
	nodes := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(n)), uint64(n))
	var all []byte
	for _, m := range []struct {
		kind int64
		head flat.Table
		body []byte
	}{{1, flat.Table{flat.Of(2, 0), flat.To([]flat.Table{column})}, nil}, {3, flat.Table{flat.Of(8, n), flat.To(flat.Structs{N: 1, Data: nodes}), flat.To(flat.Structs{})}, body}} {
		meta := flat.Build(flat.Table{flat.Of(2, 4), flat.Of(1, m.kind), flat.To(m.head), flat.Of(8, int64(len(m.body)))})
		all = binary.LittleEndian.AppendUint32(append(all, 0xff, 0xff, 0xff, 0xff), uint32(len(meta)))
		all = append(append(all, meta...), m.body...)
	}
	return all
}

// A column of nulls has no bytes, so a batch of few bytes has a limited number of rows.
func TestNullsAreLimited(t *testing.T) {
	got, err := rows(stream(1<<16, nil), nil)
	if err != nil || len(got) != 1<<16 || got[0][0] != "" {
		t.Errorf("%d rows, %v", len(got), err)
	}
	for _, x := range []struct {
		rows int64
		body int
		want string
	}{{1<<16 + 1, 0, "65537 rows in 0 bytes, at most 65536"}, {1 << 26, 8, "at most 98304"}, {1 << 40, 1 << 15, "at most 67108864"}} {
		if _, err := rows(stream(x.rows, make([]byte, x.body)), nil); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%d rows: %v, want %s", x.rows, err, x.want)
		}
	}
}
