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

// message is a message of a stream.
type message struct {
	kind int64 // 1: the schema, 2: a dictionary, 3: a batch
	head flat.Table
	body []byte
}

// schemaOf is the message of a schema of one column.
func schemaOf(column flat.Table) message {
	return message{1, flat.Table{flat.Of(2, 0), flat.To([]flat.Table{column})}, nil}
}

// pairs is a list of structs of two numbers.
func pairs(numbers ...uint64) flat.Cell {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return flat.To(flat.Structs{N: len(numbers) / 2, Data: b})
}

// stream returns a stream of messages.
func stream(messages ...message) (all []byte) {
	for _, m := range messages {
		meta := flat.Build(flat.Table{flat.Of(2, 4), flat.Of(1, m.kind), flat.To(m.head), flat.Of(8, int64(len(m.body)))})
		all = binary.LittleEndian.AppendUint32(append(all, 0xff, 0xff, 0xff, 0xff), uint32(len(meta)))
		all = append(append(all, meta...), m.body...)
	}
	return all
}

// nulls is a stream with a column of nulls, of a batch with some rows, and a body.
func nulls(n int64, body []byte) []byte {
	column := flat.Table{flat.To("n"), flat.Of(1, 1), flat.Of(1, 1), flat.To(flat.Table{}), {}, flat.To([]flat.Table{})}
	return stream(schemaOf(column), message{3, flat.Table{flat.Of(8, n), pairs(uint64(n), uint64(n)), pairs()}, body})
}

// An index that the dictionary does not have is an error.
func TestIndexesBeyondDictionary(t *testing.T) {
	const text = 5
	of := flat.Table{flat.Of(8, 0), flat.To(flat.Table{flat.Of(4, 32), flat.Of(1, 1)})}
	column := flat.Table{flat.To("x"), flat.Of(1, 1), flat.Of(1, text), flat.To(flat.Table{}), flat.To(of), flat.To([]flat.Table{})}
	entries := message{2, flat.Table{flat.Of(8, 0), flat.To(flat.Table{flat.Of(8, 2), pairs(2, 0), pairs(0, 0, 0, 12, 16, 2)})}, []byte("\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00....ab......")}
	for index, want := range map[int32]string{0: "", 1: "", 2: "batch 0: column x: value 1 has the index 2 in a dictionary of 2 values", -1: "value 1 has the index -1 in a dictionary of 2 values"} {
		body := binary.LittleEndian.AppendUint32(make([]byte, 4), uint32(index))
		got, err := rows(stream(schemaOf(column), entries, message{3, flat.Table{flat.Of(8, 2), pairs(2, 0), pairs(0, 0, 0, 8)}, body}), nil)
		if want == "" && (err != nil || len(got) != 2 || got[0][0] != "a" || got[1][0] != "ab"[index:index+1]) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("index %d: %q, %v, want %q", index, got, err, want)
		}
	}
}

// A column of nulls has no bytes, so a batch of few bytes has a limited number of rows.
func TestNullsAreLimited(t *testing.T) {
	got, err := rows(nulls(1<<16, nil), nil)
	if err != nil || len(got) != 1<<16 || got[0][0] != "" {
		t.Errorf("%d rows, %v", len(got), err)
	}
	for _, x := range []struct {
		rows int64
		body int
		want string
	}{{1<<16 + 1, 0, "65537 rows in 0 bytes, at most 65536"}, {1 << 26, 8, "at most 98304"}, {1 << 40, 1 << 15, "at most 67108864"}} {
		if _, err := rows(nulls(x.rows, make([]byte, x.body)), nil); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%d rows: %v, want %s", x.rows, err, x.want)
		}
	}
}
