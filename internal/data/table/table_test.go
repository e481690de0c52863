package table

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// row has a column of every readable kind, and one that is not readable.
type row struct {
	Bool     bool     `parquet:"bool"`
	I32      int32    `parquet:"i32"`
	U32      uint32   `parquet:"u32"`
	I64      int64    `parquet:"i64,dict"`
	F32      float32  `parquet:"f32"`
	F64      float64  `parquet:"f64,optional"`
	Text     string   `parquet:"text"`
	Dict     string   `parquet:"dict,dict"`
	Maybe    *string  `parquet:"maybe,optional,dict"`
	Fixed    [4]byte  `parquet:"fixed"`
	List     []string `parquet:"list,list"`
	Repeated []int64  `parquet:"repeated"`
	Group    struct{ A, B int64 }
	Map      map[string]int64
}

var wanted = []string{"bool", "i32", "u32", "i64", "f32", "f64", "text", "dict", "maybe", "fixed", "list", "repeated"}

// want returns the expected print of a row.
func (r *row) want() string {
	maybe, f64 := "[]", "[]"
	if r.Maybe != nil {
		maybe = fmt.Sprintf("[%s]", *r.Maybe)
	}
	if r.F64 != 0 {
		f64 = text(value.List{Kind: value.Float64, Reals: []float64{r.F64}})
	}
	return fmt.Sprintf("[%v][%d][%d][%d]%s%s[%s][%s]%s[%s]%v%v", r.Bool, r.I32, r.U32, r.I64,
		text(value.List{Kind: value.Float64, Reals: []float64{value.Widen(r.F32)}}), f64, r.Text, r.Dict, maybe, r.Fixed[:], r.List, r.Repeated)
}

func text(l value.List) string {
	var b []byte
	for i := range l.Len() {
		if i > 0 {
			b = append(b, ' ')
		}
		b = l.Append(b, i)
	}
	return "[" + string(b) + "]"
}

// readAll prints the rows of a file.
func readAll(b []byte, names []string) (rows []string, err error) {
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	lists := make([]value.List, len(names))
	for g := range f.Groups() {
		r, err := f.Rows(g, names, true)
		if err != nil {
			return rows, err
		}
		defer r.Close()
		for {
			b, err := r.Append(nil)
			if err == io.EOF {
				break
			}
			if err == nil {
				err = Decode(b, lists)
			}
			if err != nil {
				return rows, err
			}
			line := ""
			for _, l := range lists {
				line += text(l)
			}
			rows = append(rows, line)
		}
	}
	return rows, nil
}

func drawRow(t *rapid.T) row {
	word := rapid.SampledFrom([]string{"", "a", "bc", "a longer text"})
	r := row{
		Bool: rapid.Bool().Draw(t, "bool"), I32: rapid.Int32().Draw(t, "i32"), U32: rapid.Uint32().Draw(t, "u32"),
		I64: rapid.Int64Range(-2, 2).Draw(t, "i64"), F32: rapid.Float32().Draw(t, "f32"), F64: rapid.Float64().Draw(t, "f64"),
		Text: word.Draw(t, "text"), Dict: word.Draw(t, "dict"), Fixed: [4]byte{'f', 'o', 'u', 'r'},
		List: rapid.SliceOfN(word, 0, 5).Draw(t, "list"), Repeated: rapid.SliceOfN(rapid.Int64(), 0, 5).Draw(t, "repeated"),
	}
	r.F64 += 0 // −0, written as a value, is read as zero
	if rapid.Bool().Draw(t, "there") {
		s := word.Draw(t, "maybe")
		r.Maybe = &s
	}
	return r
}

// The output of parquet-go is read back, for any page size, version and number of row
// groups.
func TestReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := parquet.NewGenericWriter[row](&b, parquet.PageBufferSize(rapid.IntRange(1, 200).Draw(t, "page")),
			parquet.DataPageVersion(rapid.IntRange(1, 2).Draw(t, "version")), parquet.Compression(&parquet.Zstd))
		var want []string
		for range rapid.IntRange(1, 3).Draw(t, "groups") {
			for range rapid.IntRange(1, 20).Draw(t, "rows") {
				r := drawRow(t)
				want = append(want, r.want())
				if _, err := w.Write([]row{r}); err != nil {
					t.Fatal(err)
				}
			}
			fatal.If(t, w.Flush())
		}
		fatal.If(t, w.Close())
		got, err := readAll(b.Bytes(), wanted)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d rows of %d, %v", len(got), len(want), err)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("row %d is\n%s, want\n%s", i, got[i], want[i])
			}
		}
	})
}

// small returns a file of few rows.
func small(t testing.TB) []byte {
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.PageBufferSize(20))
	for i := range 5 {
		s := fmt.Sprint(i)
		if _, err := w.Write([]row{{I64: int64(i), Text: s, Maybe: &s, List: []string{s, s}, Repeated: []int64{1, 2}}}); err != nil {
			t.Fatal(err)
		}
	}
	fatal.If(t, w.Close())
	return b.Bytes()
}

func TestColumns(t *testing.T) {
	b := small(t)
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	fatal.If(t, err)
	if fmt.Sprint(f.Columns()) != fmt.Sprint(append(wanted, "Group.A", "Group.B", "Map.key", "Map.value")) || fmt.Sprint(f.Groups()) != "[5]" {
		t.Errorf("columns %v, groups %v", f.Columns(), f.Groups())
	}
	if u := f.Unread(); len(u) != 0 {
		t.Errorf("columns that cannot be read: %v", u)
	}
	if rows := cells(t, b, []string{"i64", "Group"}); fmt.Sprint(rows) != "[[0 ] [1 ] [2 ] [3 ] [4 ]]" {
		t.Errorf("rows with a column that is not there: %v", rows)
	}
	r, err := f.Rows(0, []string{"i64", "Group"}, true)
	fatal.If(t, err)
	spans := make([]Span, 2)
	n, err := r.Next(3, spans)
	if err != nil || n != 3 || fmt.Sprint(spans[1].There, spans[1].Most) != "[0 0 0] 1" {
		t.Errorf("%d rows, %v: a column that is not there has the levels %v of %d", n, err, spans[1].There, spans[1].Most)
	}
	if _, err := f.Rows(1, nil, true); err == nil {
		t.Error("a row group was read that is not there")
	}
}

// A truncated file is an error: its footer is at its end.
func TestEveryCut(t *testing.T) {
	b := small(t)
	for n := range b {
		if rows, err := readAll(b[:n], wanted); err == nil {
			t.Fatalf("cut at %d of %d: %d rows and no error", n, len(b), len(rows))
		}
	}
}

// The library would allocate a footer of any length before it reads it.
func TestFooterLongerThanTheFile(t *testing.T) {
	b := small(t)
	copy(b[len(b)-8:], "\xff\xff\xff\xff")
	want := fmt.Sprintf("a footer of 4294967295 bytes in a file of %d bytes", len(b))
	if _, err := readAll(b, wanted); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// A file with one changed byte gives an error or rows, and never panics.
func TestEveryByteChanged(t *testing.T) {
	b := small(t)
	for i := range b {
		old := b[i]
		for _, c := range []byte{old ^ 1, 0xff} {
			b[i] = c
			readAll(b, wanted)
		}
		b[i] = old
	}
}

func FuzzDecode(f *testing.F) {
	b := small(f)
	t, err := Open(bytes.NewReader(b), int64(len(b)))
	fatal.If(f, err)
	r, err := t.Rows(0, wanted, true)
	fatal.If(f, err)
	row, err := r.Append(nil)
	fatal.If(f, err)
	r.Close()
	f.Add(row)
	f.Fuzz(func(t *testing.T, row []byte) {
		lists := make([]value.List, 3)
		_ = Decode(row, lists) // must not panic
	})
}
