package table

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// cells returns the values of a file by row, as text; the values of a list are joined.
func cells(t *testing.T, b []byte, names []string) (rows [][]string) {
	t.Helper()
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	fatal.If(t, err)
	lists := make([]value.List, len(names))
	for g := range f.Groups() {
		r, err := f.Rows(g, names, true)
		fatal.If(t, err)
		defer r.Close()
		for {
			b, err := r.Append(nil)
			if err == io.EOF {
				break
			}
			if err == nil {
				err = Decode(b, lists)
			}
			fatal.If(t, err)
			var row []string
			for _, l := range lists {
				row = append(row, strings.Trim(strings.ReplaceAll(text(l), " ", "|"), "[]"))
				if l.Len() == 1 {
					row[len(row)-1] = string(l.Append(nil, 0))
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	fatal.If(t, err)
	return b
}

// A table that DuckDB writes as CSV and as Parquet has the same values
// (testdata/make.mjs).
func TestTypesAreThoseOfCSV(t *testing.T) {
	want, err := csv.NewReader(bytes.NewReader(read(t, "types.csv"))).ReadAll()
	fatal.If(t, err)
	for _, name := range []string{"types.parquet", "types_v2.parquet"} {
		b := read(t, name)
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		fatal.If(t, err)
		columns := f.Columns()
		if len(columns) < len(want[0])-3 || len(f.Unread()) > 0 {
			t.Fatalf("%s: columns %q, and unread %v; want %q", name, columns, f.Unread(), want[0])
		}
		for i, row := range cells(t, b, columns) {
			for j, got := range row {
				if at := slices.Index(want[0], columns[j]); got != want[i+1][at] {
					t.Errorf("%s: row %d, column %s is %q, want %q", name, i, columns[j], got, want[i+1][at])
				}
			}
		}
	}
}

// Columns that cannot be read are listed with their names; lists of plain values can.
func TestNestedColumns(t *testing.T) {
	b := read(t, "nested.parquet")
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	fatal.If(t, err)
	var unread []string
	for _, u := range f.Unread() {
		unread = append(unread, u.Name+": "+u.Why[:strings.IndexAny(u.Why, ";,")])
	}
	if got, want := strings.Join(unread, "\n"), "ll: is a list of lists or maps"; got != want {
		t.Errorf("unread are\n%s\nwant\n%s", got, want)
	}
	if got, want := strings.Join(f.Columns(), " "), "y m.key m.value ls.a st.m.key st.m.value st.n li ld la"; got != want {
		t.Fatalf("columns %s, want %s", got, want)
	}
	if got, want := strings.Join(cells(t, b, f.Columns())[0], " "), "1 k 1 1 k 1 5 1|2 1.50|2.00 2024-05-01"; got != want {
		t.Errorf("the row is %s, want %s", got, want)
	}
}

// The members of structs in a list, and keys and values of a map, keep their places. pyarrow 26.0.1
// wrote and read the file.
func TestListsOfStructs(t *testing.T) {
	b := read(t, "struct-lists.parquet")
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	fatal.If(t, err)
	if got := fmt.Sprint(f.Columns(), len(f.Unread()), f.Unread()[0].Name); got != "[hist.id hist.w m.key m.value s.in.n] 1hist.tags" {
		t.Fatal(got)
	}
	r, err := f.Rows(0, f.Columns(), true)
	fatal.If(t, err)
	var got []string
	lists := make([]value.List, len(f.Columns()))
	for range 5 {
		row, err := r.Append(nil)
		fatal.If(t, err)
		fatal.If(t, Decode(row, lists))
		for _, l := range lists {
			var list []string
			for i := range l.All {
				if i < 0 {
					list = append(list, "-")
				} else {
					list = append(list, string(l.Append(nil, i)))
				}
			}
			got = append(got, strings.Join(list, ","))
		}
	}
	const want = "a,-,-,d|1.5,2.0,-,-|k,l|1,-|1" + "|||||" + "|||||" + "|-|-|z|3|-,4" + "|e|0.25|y|-|"
	if got := strings.Join(got, "|"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// other has types that DuckDB does not write.
type other struct {
	Int96      deprecated.Int96 `parquet:"int96"`
	TimeMillis int32            `parquet:"time_millis,time(millisecond)"`
	TimeNanos  int64            `parquet:"time_nanos,time(nanosecond:local)"`
	Nanos      int64            `parquet:"nanos,timestamp(nanosecond)"`
	Millis     int64            `parquet:"millis,timestamp(millisecond:local)"`
	Decimal    int64            `parquet:"decimal,decimal(3:10)"`
	Bytes      []byte           `parquet:"bytes"`
	List       []time.Time      `parquet:"list,list"`
}

// The types that parquet-go writes and DuckDB does not, in every compression.
func TestOtherTypes(t *testing.T) {
	noon := time.Date(2024, 5, 1, 12, 0, 0, 5e8, time.UTC)
	r := other{
		Int96:      deprecated.Int96{uint32(43200500000000 & math.MaxUint32), uint32(43200500000000 >> 32), 2460432},
		TimeMillis: 43200500, TimeNanos: 43200500000001, Nanos: noon.UnixNano() + 1, Millis: noon.UnixMilli(),
		Decimal: -12, Bytes: []byte("\x01é"), List: []time.Time{noon, noon.Add(-time.Second / 2)},
	}
	want := "2024-05-01 12:00:00.5 12:00:00.5+00 12:00:00.500000001 2024-05-01 12:00:00.500000001+00 2024-05-01 12:00:00.5 -0.012 \\x01\\xC3\\xA9 2024-05-01|12:00:00.5+00|2024-05-01|12:00:00+00"
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Brotli, &parquet.Zstd, &parquet.Lz4Raw} {
		var b bytes.Buffer
		w := parquet.NewGenericWriter[other](&b, parquet.Compression(codec))
		if _, err := w.Write([]other{r}); err != nil {
			t.Fatal(err)
		}
		fatal.If(t, w.Close())
		row := cells(t, b.Bytes(), []string{"int96", "time_millis", "time_nanos", "nanos", "millis", "decimal", "bytes", "list"})[0]
		if got := strings.Join(row, " "); got != want {
			t.Errorf("%v:\n%s, want\n%s", codec, got, want)
		}
	}
}

// Codecs that are not read are named in the error.
func TestCodecs(t *testing.T) {
	b := small(t)
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	fatal.If(t, err)
	for codec, want := range map[format.CompressionCodec]string{
		format.LZO: "column text: it is compressed with LZO",
	} {
		f.footer.Groups[0].Chunks[f.found["text"].index].Meta.Codec = codec
		if _, err := f.Rows(0, []string{"i32", "text"}, true); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "LZ4_RAW") {
			t.Errorf("%v: %v", codec, err)
		}
	}
}

// element returns a column of a schema.
func element(kind format.Type, bytes int32, logical format.LogicalTypeValue) *format.SchemaElement {
	e := &format.SchemaElement{Name: "x", Type: thrift.New(kind), LogicalType: format.LogicalType{Value: logical}}
	if bytes > 0 {
		e.TypeLength = thrift.New(bytes)
	}
	return e
}

// Types that cannot be read are errors that name them.
func TestTypesWithoutMeaning(t *testing.T) {
	for want, e := range map[string]*format.SchemaElement{
		"is BSON; write it as JSON":                    element(format.ByteArray, 0, new(format.BsonType)),
		"is a GEOMETRY; write":                         element(format.ByteArray, 0, new(format.GeometryType)),
		"is a DECIMAL of scale -1":                     element(format.Int32, 0, &format.DecimalType{Scale: -1, Precision: 3}),
		"is a DECIMAL of 65 bytes":                     element(format.FixedLenByteArray, 65, &format.DecimalType{Scale: 1, Precision: 3}),
		"is a DATE stored as DOUBLE":                   element(format.Double, 0, new(format.DateType)),
		"is a UUID stored as FIXED_LEN_BYTE_ARRAY(15)": element(format.FixedLenByteArray, 15, new(format.UUIDType)),
		"is a DECIMAL stored as FLOAT":                 element(format.Float, 0, new(format.DecimalType)),
	} {
		l, err := columnsOf([]format.SchemaElement{{Name: "root", NumChildren: thrift.New(int32(1))}, *e}, meanings{})
		if err != nil || len(l.names) != 0 || len(l.unread) != 1 || l.unread[0].Name != "x" || !strings.HasPrefix(l.unread[0].Why, want) {
			t.Errorf("%s: %+v, %v", want, l, err)
		}
	}
}

// converted0 returns value 0 of a column, as text.
func converted0(t *testing.T, e *format.SchemaElement, src *typed) (string, error) {
	t.Helper()
	convert, err := conversionOf(e)
	fatal.If(t, err)
	dst := new(typed)
	if err := convert(dst, src); err != nil {
		return "", err
	}
	l := value.List{Kind: dst.kind, Reals: dst.doubles}
	if dst.kind == value.Text {
		l.Texts = [][]byte{dst.text(0)}
	}
	return string(l.Append(nil, 0)), nil
}

// Every half is the number of its bits.
func TestHalves(t *testing.T) {
	e := element(format.FixedLenByteArray, 2, new(format.Float16Type))
	for _, x := range []struct {
		bits uint16
		want string
	}{{0x3c00, "1.0"}, {0xc000, "-2.0"}, {0x3555, "0.33325195"}, {0x0001, "5.9604645e-08"}, {0x03ff, "6.097555e-05"}, {0x7bff, "65504.0"}, {0x7c00, "inf"}, {0xfc00, "-inf"}, {0x7e00, "nan"}, {0x8000, "-0.0"}} {
		src := &typed{kind: value.Text, bytes: binary.LittleEndian.AppendUint16(nil, x.bits), width: 2}
		if got, err := converted0(t, e, src); got != x.want || err != nil {
			t.Errorf("%04x is %s, %v; want %s", x.bits, got, err, x.want)
		}
	}
	for b := range 1 << 16 { // against the definition
		sign, exponent, fraction := 1-2*float64(b>>15), b>>10&31, float64(b&1023)
		want := sign * math.Ldexp(1+fraction/1024, exponent-15)
		if exponent == 0 {
			want = sign * math.Ldexp(fraction/1024, -14)
		}
		if got := float64(half(uint16(b))); exponent < 31 && got != want {
			t.Fatalf("%04x is %v, want %v", b, got, want)
		}
	}
}

// FuzzTypes converts any bytes as values of every type: the result equals the result of a plain
// implementation, or is an error, and it never panics.
func FuzzTypes(f *testing.F) {
	f.Add([]byte{0x22, 0x96}, int64(1714566896789012), uint8(2))
	f.Add([]byte{0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, int64(-1), uint8(30))
	f.Add([]byte("abcdefghijklmnop"), int64(math.MinInt64), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, n int64, scale uint8) {
		decimal := &format.DecimalType{Scale: int32(scale), Precision: 38}
		ints := &typed{kind: value.Int, int64s: []int64{n}}
		same := func(got string, err error, want string) {
			t.Helper()
			if err != nil || got != want {
				t.Fatalf("%d, %x, scale %d: %s, %v; want %s", n, b, scale, got, err, want)
			}
		}
		got, err := converted0(t, element(format.Int64, 0, decimal), ints)
		same(got, err, plainDecimal(big.NewInt(n), int(scale)))
		texts := &typed{kind: value.Text, bytes: b, offsets: []uint32{0, uint32(len(b))}}
		if got, err = converted0(t, element(format.ByteArray, 0, decimal), texts); len(b) <= maxDecimalBytes {
			same(got, err, plainDecimal(signed(b), int(scale)))
		} else if err == nil {
			t.Fatalf("a DECIMAL of %d bytes is %s", len(b), got)
		}
		for _, unit := range []parquet.TimeUnit{parquet.Millisecond, parquet.Microsecond, parquet.Nanosecond} {
			if n == math.MaxInt64 || n == -math.MaxInt64 {
				break
			}
			got, err = converted0(t, element(format.Int64, 0, &format.TimestampType{Unit: unit.TimeUnit()}), ints)
			same(got, err, plainTime(n, int64(time.Second/unit.Duration())))
			converted0(t, element(format.Int64, 0, &format.TimeType{Unit: unit.TimeUnit()}), ints)
		}
		converted0(t, element(format.ByteArray, 0, nil), texts)
		fixed := append(b, make([]byte, 16)...)
		for _, e := range []*format.SchemaElement{
			element(format.FixedLenByteArray, 16, new(format.UUIDType)), element(format.FixedLenByteArray, 2, new(format.Float16Type)),
			{Type: thrift.New(format.FixedLenByteArray), TypeLength: thrift.New(int32(12)), ConvertedType: thrift.New(deprecated.Interval)},
		} {
			if _, err := converted0(t, e, &typed{kind: value.Text, bytes: fixed[:e.TypeLength.V], width: int(e.TypeLength.V)}); err != nil {
				t.Fatal(err)
			}
		}
		x := deprecated.Int96{uint32(n), uint32(n >> 32), binary.LittleEndian.Uint32(fixed)}
		if _, err := converted0(t, element(format.Int96, 0, nil), &typed{kind: value.Int, int96s: []deprecated.Int96{x}}); err != nil {
			t.Fatal(err)
		}
	})
}

func signed(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

func plainDecimal(n *big.Int, scale int) string {
	return new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).FloatString(scale)
}

func plainTime(n, aSecond int64) string {
	seconds, rest := n/aSecond, n%aSecond
	if rest < 0 {
		seconds, rest = seconds-1, rest+aSecond
	}
	at := time.Unix(seconds, rest*(1e9/aSecond)).UTC()
	year, before := at.Year(), ""
	if year <= 0 {
		year, before = 1-year, " (BC)"
	}
	text := strconv.Itoa(year)
	return strings.Repeat("0", max(4-len(text), 0)) + text + at.Format("-01-02") + before + at.Format(" 15:04:05.999999999")
}
