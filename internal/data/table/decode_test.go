package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// made describes a file of one column x, written by hand.
type made struct {
	element    format.SchemaElement
	statistics *statistics // of the column
	unordered  bool        // the footer has no column orders
	codec      format.CompressionCodec
	rows       int64
	values     int64 // 0: rows
	pages      []page
}

type page struct {
	head pageHeader
	body []byte
}

// bytes returns the file.
func (m *made) bytes(t testing.TB) []byte {
	t.Helper()
	marshal := func(v any) []byte {
		b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
		fatal.If(t, err)
		return b
	}
	b := []byte("PAR1")
	for _, p := range m.pages {
		p.head.Packed = int32(len(p.body))
		b = append(append(b, marshal(p.head)...), p.body...)
	}
	if m.values == 0 {
		m.values = m.rows
	}
	m.element.Name = "x"
	c := chunkMeta{Type: m.element.Type.V, Codec: m.codec, Values: m.values, Bytes: int64(len(b) - 4), Data: 4}
	if m.statistics != nil {
		c.Statistics = thrift.New(*m.statistics)
	}
	f := footer{
		Schema:    list[format.SchemaElement]{{Name: "schema", NumChildren: thrift.New(int32(1))}, m.element},
		Groups:    list[rowGroup]{{Chunks: list[chunk]{{Meta: c}}, Rows: m.rows}},
		KeyValues: list[keyValue]{{Key: "without a value"}},
	}
	if !m.unordered {
		f.Orders = list[format.ColumnOrder]{{Value: new(format.TypeDefinedOrder)}}
	}
	foot := marshal(f)
	b = append(b, foot...)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(foot))), "PAR1"...)
}

// first returns a page of n values with an uncompressed body.
func first(kind format.Encoding, n int, body []byte) page {
	return page{pageHeader{Type: format.DataPage, Plain: int32(len(body)), V1: thrift.New(dataPage{Values: int32(n), Encoding: kind, Levels: format.RLE, Repeats: format.RLE})}, body}
}

func flatElement(kind format.Type, optional bool) format.SchemaElement {
	e := format.SchemaElement{Type: thrift.New(kind), RepetitionType: thrift.New(format.Required)}
	if optional {
		e.RepetitionType.V = format.Optional
	}
	return e
}

// runs encodes bits in runs of random kinds and lengths.
func runs(t *rapid.T, bits []bool) []byte {
	b := make([]byte, 4)
	for at := 0; at < len(bits); {
		equal := 1
		for at+equal < len(bits) && bits[at+equal] == bits[at] {
			equal++
		}
		if n := rapid.IntRange(0, equal).Draw(t, "equal"); n > 0 {
			b = binary.AppendUvarint(b, uint64(n)<<1)
			if at += n; bits[at-1] {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
			continue
		}
		groups := rapid.IntRange(1, (len(bits)-at+7)/8).Draw(t, "groups")
		if len(bits)-at >= 8 {
			groups = min(groups, (len(bits)-at)/8) // only the last group may be filled up
		}
		b = binary.AppendUvarint(b, uint64(groups)<<1|1)
		packed := make([]byte, groups)
		for i := range min(8*groups, len(bits)-at) {
			if bits[at+i] {
				packed[i/8] |= 1 << (i % 8)
			}
		}
		b, at = append(b, packed...), at+8*groups
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// Booleans in runs have the values that were written, whatever the runs.
func TestBooleansInRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Bool(), 1, 100).Draw(t, "bits")
		for range rapid.IntRange(0, 3).Draw(t, "stretches") {
			want = append(want, slices.Repeat([]bool{rapid.Bool().Draw(t, "bit")}, rapid.IntRange(1, 40).Draw(t, "length"))...)
		}
		got, err := booleans([]byte{0xff, 0xff}, runs(t, want), len(want))
		fatal.If(t, err)
		for i := range want {
			if got[i/8]>>(i%8)&1 != 0 != want[i] {
				t.Fatalf("bit %d of %v is wrong: %08b", i, want, got)
			}
		}
	})
}

// Tables of other writers have the values that their writers read back.
func TestOtherWriters(t *testing.T) {
	var want [][]string
	for i := range 16 {
		want = append(want, []string{fmt.Sprint(i < 8)})
	}
	if got := cells(t, read(t, "bool-rle-16.parquet"), []string{"click"}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("bool-rle-16: %v", got)
	}
	names := []string{"click", "hover", "user", "item"}
	rle, plain := cells(t, read(t, "bool-rle-3000.parquet"), names), cells(t, read(t, "bool-plain-3000.parquet"), names)
	clicks := 0
	for _, row := range rle {
		if row[0] == "true" {
			clicks++
		}
	}
	if fmt.Sprint(rle) != fmt.Sprint(plain) || len(rle) != 3000 || clicks != 697 {
		t.Errorf("bool-rle-3000: %d rows, %d clicks, equal to PLAIN: %v", len(rle), clicks, fmt.Sprint(rle) == fmt.Sprint(plain))
	}
}

// Files that writers fill up, describe with keys without values, or whose names collide.
func TestOddFiles(t *testing.T) {
	for _, c := range []struct {
		file, columns string
		rows          int
		first         string
	}{
		{"fastparquet-int96", "click ts price", 200, "[[true 1970-01-20 20:15:21.6 0.0] [false 1970-01-20 20:15:21.601 0.25]]"},
		{"fastparquet-warnings", "click user uid cat", 200, "[[true   c0] [false u1 9007199254740993 c1]]"},
		{"kv-without-value", "click age", 2, "[[1 30] [0 41]]"},
		{"nan", "click x", 3, "[[1 1.5] [0 nan]]"},
		{"bool", "click mobile price", 4, "[[true false 2.5] [false true 1.25]]"},
		{"dots", "click a.b", 1, "[[1 2.5]]"},
	} {
		rows := cells(t, read(t, c.file+".parquet"), strings.Fields(c.columns))
		if got := fmt.Sprint(rows[:min(2, len(rows))]); got != c.first || len(rows) != c.rows {
			t.Errorf("%s: %d rows, %s, want %d, %s", c.file, len(rows), got, c.rows, c.first)
		}
	}
}

// Prices compressed to less than a third by LZ4_RAW are those that pyarrow 26.0.1 reads.
func TestGrownLZ4(t *testing.T) {
	var b []byte
	rows := cells(t, read(t, "lz4raw-required-numbers.parquet"), []string{"price", "click"})
	for _, row := range rows {
		price, err := strconv.ParseFloat(row[0], 64)
		fatal.If(t, err)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(price))
	}
	if got := crc32.ChecksumIEEE(b); len(rows) != 4000 || got != 2438291867 || fmt.Sprint(rows[:2]) != "[[5138.7 1] [1757.41 0]]" {
		t.Errorf("%d rows, %v …, checksum %d", len(rows), rows[:2], got)
	}
}

// Every compression returns what was compressed. A page that unpacks to another size than its
// header states is an error, and takes no more memory than that.
func TestUnpack(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for _, codec := range []compress.Codec{&parquet.Snappy, &parquet.Gzip, &parquet.Brotli, &parquet.Zstd, &parquet.Lz4Raw} {
		var u unpacker
		for _, plain := range [][]byte{noise, bytes.Repeat([]byte("abcdefgh"), 100_000), noise[:1], make([]byte, 100)} {
			packed, err := codec.Encode(nil, plain)
			fatal.If(t, err)
			for _, lie := range []int{0, -1, 1, len(plain), 1 - len(plain)} {
				size := len(plain) + lie
				got, err := u.unpack(codec.CompressionCodec(), packed, size)
				switch {
				case size == len(plain) && (err != nil || !bytes.Equal(got, plain)):
					t.Errorf("%v, %d bytes: %v, equal %v", codec, len(plain), err, bytes.Equal(got, plain))
				case size != len(plain) && size > 0 && err == nil:
					t.Errorf("%v, %d bytes with a header of %d: no error", codec, len(plain), size)
				case cap(u.plain) > 2*800_000:
					t.Fatalf("%v, %d bytes with a header of %d: %d allocated", codec, len(plain), size, cap(u.plain))
				}
			}
		}
	}
}

// The deprecated framing of LZ4 is that of Hadoop, in one or several parts, or none.
func TestDeprecatedLZ4(t *testing.T) {
	plain := bytes.Repeat([]byte("abcdefgh"), 1000)
	block := func(b []byte) []byte {
		packed, err := parquet.Lz4Raw.Encode(nil, b)
		fatal.If(t, err)
		return packed
	}
	sized := func(n int, b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(n)), b...) }
	part := func(b []byte) []byte { return sized(len(block(b)), block(b)) }
	twice := slices.Concat(sized(len(plain), nil), part(plain[:5000]), part(plain[5000:]))
	for name, packed := range map[string][]byte{
		"no framing": block(plain),
		"one part":   sized(len(plain), part(plain)),
		"two parts":  twice,
		"two blocks": slices.Concat(sized(5000, part(plain[:5000])), sized(3000, part(plain[5000:]))),
	} {
		var u unpacker
		if got, err := u.unpack(format.Lz4, packed, len(plain)); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: %v, equal %v", name, err, bytes.Equal(got, plain))
		}
		if _, err := u.unpack(format.Lz4, packed[:len(packed)-1], len(plain)); err == nil {
			t.Errorf("%s, cut: no error", name)
		}
	}
}

// wide are the differences of two blocks' integers of 32 bits in 33 bits, as DuckDB 2.0.0 writes
// them: from −2^31 to 2^31−1 and back.
func wide() []byte {
	b := binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, 128), 4), 3)
	b = binary.AppendVarint(b, math.MinInt32)
	b = binary.AppendVarint(b, math.MinInt32-int64(math.MaxInt32))
	b = append(b, 34, 0, 0, 0) // differences less the least: 2 × (2^32−1), 0
	part := make([]byte, 32*34/8)
	binary.LittleEndian.PutUint64(part, 2*(1<<32-1))
	return append(b, part...)
}

func TestWideDifferences(t *testing.T) {
	m := made{element: flatElement(format.Int32, false), rows: 3, pages: []page{first(format.DeltaBinaryPacked, 3, wide())}}
	if got := fmt.Sprint(cells(t, m.bytes(t), []string{"x"})); got != "[[-2147483648] [2147483647] [-2147483648]]" {
		t.Error(got)
	}
}

// Damaged runs and blocks of differences do not allocate what they state.
func TestDamagedRuns(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<40)
	for name, f := range map[string]func() error{
		"levels":   func() error { _, err := runLevels(nil, 1, 10, append(huge, 1)); return err },
		"indexes":  func() error { _, err := indexes(nil, append([]byte{20}, append(huge, 1, 1, 1)...), 10); return err },
		"width":    func() error { _, err := indexes(nil, []byte{33, 3, 1, 1, 1, 1}, 10); return err },
		"booleans": func() error { _, err := booleans(nil, append([]byte{7, 0, 0, 0}, append(huge, 1)...), 10); return err },
		"delta": func() error {
			_, err := checkDelta(format.DeltaBinaryPacked, append([]byte{128, 1, 4}, append(huge, 0)...))
			return err
		},
		"second delta": func() error {
			_, err := checkDelta(format.DeltaByteArray, append([]byte{128, 1, 4, 1, 0, 128, 1, 4}, append(huge, 0)...))
			return err
		},
	} {
		if err := f(); err == nil {
			t.Errorf("%s of 2^40 values: no error", name)
		}
	}
}

func int64s(values ...int64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// Pages that writers fill up, or whose body is empty because all values are null.
func TestOddPages(t *testing.T) {
	v2 := func(n, nulls int, levels []byte, codec bool, body []byte) page {
		h := dataPageV2{Values: int32(n), Nulls: int32(nulls), Encoding: format.Plain, LevelBytes: int32(len(levels)), IsCompressed: thrift.New(codec)}
		return page{pageHeader{Type: format.DataPageV2, Plain: int32(len(levels) + len(body)), V2: thrift.New(h)}, append(levels, body...)}
	}
	int96 := append(make([]byte, 8), 0x8c, 0x3d, 0x25, 0)          // 1970-01-01
	far := append(int64s(-32509551616000), 0xa8, 0xab, 0xb0, 0xf9) // as parquet-mr 1.13.1 writes it: both overflow
	packedLevels := first(format.Plain, 3, append([]byte{0b10100000}, int64s(5, 7)...))
	packedLevels.head.V1.V.Levels = format.BitPacked
	for name, c := range map[string]struct {
		made
		want string
	}{
		"INT96 with padding":      {made{element: flatElement(format.Int96, false), rows: 1, pages: []page{first(format.Plain, 1, append(int96, 0, 0, 0, 0, 0))}}, "[1970-01-01 00:00:00]"},
		"INT96 of a far year":     {made{element: flatElement(format.Int96, false), rows: 1, pages: []page{first(format.Plain, 1, far)}}, "[290000-12-30 23:00:00]"},
		"INT64 with padding":      {made{element: flatElement(format.Int64, false), rows: 1, pages: []page{first(format.Plain, 1, int64s(5, 6))}}, "[5]"},
		"text with padding":       {made{element: flatElement(format.ByteArray, false), rows: 1, pages: []page{first(format.Plain, 1, []byte("\x01\x00\x00\x00a\x01\x00\x00\x00bxx"))}}, "[a]"},
		"V2, all null, empty":     {made{element: flatElement(format.Int64, true), codec: format.Snappy, rows: 3, pages: []page{v2(3, 3, []byte{6, 0}, true, nil)}}, "[] [] []"},
		"V2, all null, one byte":  {made{element: flatElement(format.Int64, true), codec: format.Snappy, rows: 1, pages: []page{v2(1, 1, []byte{2, 0}, false, []byte{0})}}, "[]"},
		"V2, not compressed":      {made{element: flatElement(format.Int64, true), codec: format.Zstd, rows: 1, pages: []page{v2(1, 0, []byte{2, 1}, false, int64s(9))}}, "[9]"},
		"no dictionary, all null": {made{element: flatElement(format.ByteArray, true), rows: 2, pages: []page{first(format.RLEDictionary, 2, []byte{2, 0, 0, 0, 4, 0})}}, "[] []"},
		"levels packed":           {made{element: flatElement(format.Int64, true), rows: 3, pages: []page{packedLevels}}, "[5] [] [7]"},
		"an empty page":           {made{element: flatElement(format.Int64, false), rows: 1, pages: []page{first(format.Plain, 0, nil), first(format.Plain, 1, int64s(4))}}, "[4]"},
		"an index page":           {made{element: flatElement(format.Int64, false), rows: 1, pages: []page{{head: pageHeader{Type: format.IndexPage}}, first(format.Plain, 1, int64s(4))}}, "[4]"},
	} {
		rows, err := readAll(c.bytes(t), []string{"x"})
		if got := strings.Join(rows, " "); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
}

// A list of unsigned integers may begin in a page in which all of them fit int64 and end in one
// in which they do not, or the other way round.
func TestUnsignedListOverPages(t *testing.T) {
	e := flatElement(format.Int64, false)
	e.RepetitionType.V, e.LogicalType.Value = format.Repeated, &format.IntType{BitWidth: 64}
	part := func(repeat byte, values ...int64) page {
		levels := func(level byte, n int) []byte { return []byte{2, 0, 0, 0, byte(n << 1), level} }
		body := append([]byte{4, 0, 0, 0, 2, repeat}, levels(1, len(values))...)
		if len(values) > 1 {
			body = append([]byte{4, 0, 0, 0, 2, repeat, byte((len(values) - 1) << 1), 1}, levels(1, len(values))...)
		} else {
			body[0] = 2
		}
		return first(format.Plain, len(values), append(body, int64s(values...)...))
	}
	m := made{element: e, rows: 3, values: 8, pages: []page{part(0, 1, 2), part(1, -1, 3), part(0, -2), part(1, 4), first(format.Plain, 0, make([]byte, 8)), part(1, 5), part(0, 6)}}
	rows, err := readAll(m.bytes(t), []string{"x"})
	if got, want := strings.Join(rows, " "), "[1 2 18446744073709551615 3] [18446744073709551614 4 5] [6]"; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// A group without the mark of a list is a struct, also if its only member is repeated.
func TestRepeatedMemberOfStruct(t *testing.T) {
	type phone struct {
		Number int64   `parquet:"number"`
		Kind   *string `parquet:"kind,optional"`
	}
	type row struct {
		Phones *struct {
			Phone []phone `parquet:"phone"`
		} `parquet:"phones,optional"`
	}
	home := "home"
	var rows [3]row
	rows[1].Phones = &struct {
		Phone []phone `parquet:"phone"`
	}{}
	rows[2].Phones = &struct {
		Phone []phone `parquet:"phone"`
	}{[]phone{{1, &home}, {2, nil}}}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b)
	_, err := w.Write(rows[:])
	fatal.If(t, err)
	fatal.If(t, w.Close())
	got, err := readAll(b.Bytes(), []string{"phones.phone.number", "phones.phone.kind"})
	if want := "[][] [][] [1 2][home]"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("%q, %v, want %s", got, err, want)
	}
}
