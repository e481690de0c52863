package avro_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/avro"
	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func open(b []byte) (*table.File, error) {
	form, err := avro.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	return table.New(form)
}

// rows returns the rows of some columns as text: the values of a row with | between them, ∅ for a null in a
// list, and "" for no value.
func rows(f *table.File, names []string) (all [][]string, err error) {
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

// fastavro wrote random rows of every type and codec, and pyarrow the same as Parquet.
func TestSameAsParquet(t *testing.T) {
	for file, of := range map[string]string{"deflate": "rows", "snappy": "rows", "zstandard": "rows", "bzip2": "rows", "nested": "nested"} {
		b, err := os.ReadFile("testdata/" + of + ".parquet")
		fatal.If(t, err)
		p, err := table.Open(bytes.NewReader(b), int64(len(b)))
		fatal.If(t, err)
		want, err := rows(p, p.Columns())
		fatal.If(t, err)
		b, err = os.ReadFile("testdata/" + file + ".avro")
		fatal.If(t, err)
		f, err := open(b)
		fatal.If(t, err)
		if u := f.Unread(); of == "rows" && (len(u) != 1 || u[0].Name != "uu") || of == "nested" && len(u) > 0 {
			t.Errorf("%s: unread columns %v, want the union", file, u)
		}
		got, err := rows(f, p.Columns())
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %d rows, want %d, %v", file, len(got), len(want), err)
		}
		for i := range want {
			for c, name := range p.Columns() {
				if got[i][c] != want[i][c] {
					t.Errorf("%s: row %d: column %s is %q, want %q", file, i, name, got[i][c], want[i][c])
				}
			}
		}
	}
}

// The record of Polars has the name "".
func TestPolars(t *testing.T) {
	b, err := os.ReadFile("testdata/polars.avro")
	fatal.If(t, err)
	f, err := open(b)
	fatal.If(t, err)
	got, err := rows(f, f.Columns())
	if want := [][]string{{"0", "ios"}, {"1", ""}, {"", "web"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// container is a file with a schema and one block.
func container(schema, codec string, n int64, block string) []byte {
	text := func(s string) string {
		b := []byte{}
		for x := 2 * len(s); ; x >>= 7 {
			if x < 128 {
				return string(append(b, byte(x))) + s
			}
			b = append(b, byte(x)|128)
		}
	}
	mark := strings.Repeat("m", 16)
	return []byte(avro.Magic + "\x04" + text("avro.schema") + text(schema) + text("avro.codec") + text(codec) + "\x00" + mark + string(binary.AppendVarint(nil, n)) + text(block) + mark)
}

func TestFaults(t *testing.T) {
	record := func(kind string) string {
		return `{"type":"record","name":"r","fields":[{"name":"a","type":` + kind + `}]}`
	}
	for _, x := range []struct {
		file []byte
		want string
	}{
		{container(record(`"int"`), "xz", 1, "\x02"), `packed with "xz"`},
		{container(`"int"`, "null", 1, "\x02"), "write records"},
		{container(record(`"Other"`), "null", 1, "\x02"), `does not define the type "Other"`},
		{container(record(`"int"`)+strings.Repeat(" ", 10<<20), "null", 1, "\x02"), `its header has 10485825 bytes of "avro.schema", at most 1048576 are possible`},
		{container(record(`"int"`), "null", 1, "\x02")[:60], "its header ends early"},
		{container(record(`"int"`), "null", 2, "\x02"), "block 0 at offset 119: it claims 2 records in 1 bytes"},
		{container(record(`"long"`), "null", 2, "\x02\xff"), "block 0 at offset 120: record 1: its bytes end early"},
		{container(record(`"int"`), "null", 1, "\x02\x02"), "1 bytes follow its 1 records"},
		{container(record(`{"type":"enum","name":"e","symbols":["x"]}`), "null", 1, "\x02"), "symbol 1 of 1"},
		{container(record(`["null","int"]`), "null", 1, "\x04\x02"), "its bytes end early"},
		{container(record(`"int"`), "null", 1, "\x02")[:130], "was it copied whole?"},
	} {
		f, err := open(x.file)
		if err == nil {
			_, err = rows(f, f.Columns())
		}
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
	}
	f, err := open(container(`{"type":"record","name":"r","fields":[{"name":"id","type":"int"},{"name":"next","type":["null","r"]}]}`, "null", 1, "\x06\x02\x08\x00"))
	fatal.If(t, err)
	got, err := rows(f, f.Columns())
	if err != nil || len(got) != 1 || got[0][0] != "3" || len(f.Unread()) != 1 {
		t.Errorf("a record in itself: %q, %v, %v", got, f.Unread(), err)
	}
}

// A damaged file is an error, or has other values.
func TestMutations(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for _, codec := range []string{"deflate", "snappy", "zstandard", "bzip2", "nested"} {
		b, err := os.ReadFile("testdata/" + codec + ".avro")
		fatal.If(t, err)
		for range 200 {
			m := bytes.Clone(b)
			for range 1 + r.IntN(3) {
				m[r.IntN(len(m))] = byte(r.Uint32())
			}
			if r.IntN(4) == 0 {
				m = m[:r.IntN(len(m))]
			}
			if f, err := open(m); err == nil {
				_, _ = rows(f, f.Columns()) // must not panic
			}
		}
	}
}

// FuzzOpen: any bytes are an error or rows.
func FuzzOpen(f *testing.F) {
	f.Add(container(`{"type":"record","name":"r","fields":[{"name":"a","type":["null",{"type":"array","items":"string"}]}]}`, "null", 1, "\x02\x02\x02x\x00"))
	f.Add(container(`{"type":"record","name":"r","fields":[{"name":"h","type":{"type":"array","items":["null",{"type":"record","name":"q","fields":[{"name":"id","type":"long"},{"name":"w","type":["null","float"]}]}]}},
		{"name":"m","type":{"type":"map","values":"int"}},{"name":"u","type":{"type":"array","items":{"type":"array","items":"q"}}}]}`, "null", 1, "\x04\x02\x06\x00\x00\x00\x02\x02k\x02\x00\x00"))
	b, err := os.ReadFile("testdata/nested.avro")
	fatal.If(f, err)
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) {
		if f, err := open(b); err == nil {
			_, _ = rows(f, f.Columns())
		}
	})
}

// Unread lists in lists are not searched for columns: of records that contain one another there would be
// 2^40 here. A map of records is no column of a field that has its name by chance.
func TestUnreadTypesAreSkipped(t *testing.T) {
	deep := `{"type":"record","name":"R0","fields":[{"name":"a","type":"int"}]}`
	for i := range 40 {
		deep = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"x","type":%s},{"name":"y","type":"R%d"}]}`, i+1, deep, i)
	}
	for _, x := range []struct{ schema, record string }{
		{`{"type":"record","name":"r","fields":[{"name":"u","type":{"type":"array","items":{"type":"array","items":` + deep + `}}},{"name":"v","type":"int"}]}`, "\x00\x06"},
		{`{"type":"record","name":"r","fields":[{"name":"u","type":{"type":"map","values":{"type":"record","name":"q","fields":[{"name":"a","type":"int"}]}}},{"name":"u.value.a","type":"int"},{"name":"v","type":"int"}]}`, "\x02\x02k\x08\x00\x02\x06"},
	} {
		f, err := open(container(x.schema, "null", 1, x.record))
		fatal.If(t, err)
		got, err := rows(f, f.Columns())
		if err != nil || len(got) != 1 || got[0][len(got[0])-1] != "3" || len(got[0]) == 2 && got[0][0] != "1" {
			t.Errorf("%q: %q, %v", f.Columns(), got, err)
		}
	}
}

// Types with two names, and members with one name twice, are errors.
func TestNamesOfTypes(t *testing.T) {
	for _, x := range []struct{ schema, want string }{
		{`{"type":"record","name":"r","fields":[{"name":"a","type":"int long"}]}`, "does not define"},
		{`{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array","items":{"type":"record","name":"q","fields":[{"name":"x","type":"int"}]}}},{"name":"a","type":"int"}]}`, "a twice"},
	} {
		if _, err := avro.ParseSchema([]byte(x.schema)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", x.schema, err)
		}
	}
}

// Items without bytes are limited, and records in themselves: 40 bytes could have any number of them.
func TestItemsWithoutBytes(t *testing.T) {
	for _, schema := range []string{
		`{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array","items":"null"}}]}`,
		`{"type":"record","name":"r","fields":[{"name":"u","type":{"type":"array","items":{"type":"array","items":"null"}}},{"name":"a","type":"int"}]}`,
		`{"type":"record","name":"r","fields":[{"name":"u","type":{"type":"array","items":"r"}},{"name":"s","type":"r"},{"name":"a","type":"int"}]}`,
		`{"type":"record","name":"r","fields":[{"name":"s","type":{"type":"record","name":"q","fields":[{"name":"x","type":"q"},{"name":"y","type":"q"}]}},{"name":"a","type":"int"}]}`,
	} {
		s, err := avro.ParseSchema([]byte(schema))
		fatal.If(t, err)
		m := avro.NewMessage(s)
		m.Set([]byte("\x08" + strings.Repeat("\xfe\xff\xff\x1f\x00", 4) + "\x00\x02"))
		f, err := table.New(m)
		fatal.If(t, err)
		r, err := f.Rows(0, []string{"a"}, false)
		fatal.If(t, err)
		if _, err := r.Append(nil); err == nil || !strings.Contains(err.Error(), "end early") {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// Records without bytes are rejected, and blocks that claim more records than their bytes can be:
// 20 bytes could have 2^26 of them.
func TestClaimedRecords(t *testing.T) {
	for _, fields := range []string{``, `{"name":"a","type":"null"}`, `{"name":"a","type":{"type":"record","name":"q","fields":[{"name":"b","type":"null"}]}},{"name":"c","type":"q"}`} {
		if _, err := open(container(`{"type":"record","name":"r","fields":[`+fields+`]}`, "null", 1<<26, "")); err == nil || !strings.Contains(err.Error(), "have no values") {
			t.Errorf("%s: %v", fields, err)
		}
	}
	for schema, most := range map[string]int{`"int"`: 8, `"double"`: 1, `["null","double"]`: 8, `{"type":"fixed","name":"f","size":4}`: 2} {
		f, err := open(container(`{"type":"record","name":"r","fields":[{"name":"n","type":"null"},{"name":"a","type":`+schema+`}]}`, "null", 1<<26, strings.Repeat("\x00", 8)))
		fatal.If(t, err)
		if _, err := rows(f, []string{"n"}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("claims 67108864 records in 8 bytes, which have at most %d", most)) {
			t.Errorf("%s: %v", schema, err)
		}
	}
}
