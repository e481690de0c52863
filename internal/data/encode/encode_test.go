package encode

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/kernel/delim"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func TestKeyIsXXH3(t *testing.T) {
	text := []byte("the quick brown fox jumps over the lazy dog; \x00\xff\x80 and again")
	for n := range 40 {
		for at := 0; at+n <= len(text); at++ {
			b := text[at : at+n]
			if got, want := keyOf(b), xxh3.HashSeed(b, keySeed); got != want {
				t.Fatalf("keyOf(%q) = %x, xxh3 says %x", b, got, want)
			}
		}
	}
}

func TestDecimalIsParseNumber(t *testing.T) {
	for _, s := range []string{"0", "7", "42", "00042", "99999999", "100000000", "-5", "+5", "1.5", "1e3", "", "1 ", "12a", "a12", "\xb012", "1\x8a", "9/", ":9", "123456789012345678"} {
		for _, behind := range []string{"", "\t", "\t1\tab\t\xff\xff\xff"} {
			x, ok := decimal([]byte(s+behind), delim.Field{Lo: 0, Hi: int32(len(s))})
			want, why := value.ParseNumber([]byte(s))
			if ok && (why != "" || math.Float64bits(x) != math.Float64bits(want)) {
				t.Errorf("decimal(%q) = %v, parseNumber %v %s", s, x, want, why)
			}
			if !ok && len(s) < 16 && slices.Contains([]string{"0", "7", "42", "00042", "99999999", "-5", "1.5"}, s) {
				t.Errorf("decimal(%q) asks", s)
			}
		}
	}
}

func setOf(words ...string) *keySet {
	s := newKeySet(len(words))
	for _, w := range words {
		s.add(keyOf([]byte(w)))
	}
	return s
}

// twins are the two ways to encode records of one schema over y, a, b and c.
type twins struct {
	fast *RowCoder
	slow *RowCoder
}

func twinsOf(t testing.TB, src schema.Source, s schema.Schema) twins {
	t.Helper()
	s = s.Fill()
	stats := make([]statistics, len(s.Features))
	for i := range stats {
		stats[i].set = setOf("red", "7")
		if f := &s.Features[i]; f.Format != "" {
			var err error
			if stats[i].dates, err = newDateCode(f, "", 0); err != nil {
				t.Fatal(err)
			}
			stats[i].Mean, stats[i].Deviation = 2, 3
		}
	}
	coderOf := func() *RowCoder {
		p, err := newParser(src, []string{"y", "a", "b", "c"}, s)
		fatal.If(t, err)
		return &RowCoder{parser: p, coder: newCoder(s, stats, p)}
	}
	fast := coderOf()
	fast.direct = newDirect(fast.coder)
	return twins{fast, coderOf()}
}

// samePlain compares the results of plain for a line with the results of parser and coder.
func samePlain(t *testing.T, x twins, line []byte) (taken bool) {
	t.Helper()
	slow := x.slow
	got := extend([]uint64(nil), slow.coder.shape.plainWords())
	if taken = x.fast.usual(got, line); !taken {
		return false
	}
	want, fl := slow.encode(nil, line)
	if fl != nil {
		t.Fatalf("%q: taken, but parser and coder refuse it: %+v", line, fl)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q: %x, parser and coder %x", line, got, want)
	}
	// The general form of a row agrees.
	slow.coder.one.reset(1, slow.coder.shape.dense, slow.coder.shape.sparse)
	if fl := slow.coder.row(&slow.coder.one); fl != nil {
		t.Fatalf("%q: %+v", line, fl)
	}
	var lists, single Batch
	for b, row := range map[*Batch][]uint64{&single: want, &lists: slow.coder.shape.appendLists(nil, &slow.coder.one)} {
		b.reset(1, slow.coder.shape.dense, slow.coder.shape.sparse)
		g := newGather(slow.coder.shape)
		g.add(b, row)
		g.Finish(b)
	}
	if a, b := fmt.Sprint(single.Dense, single.Sparse, single.Label, single.Weight, single.Labels), fmt.Sprint(lists.Dense, lists.Sparse, lists.Label, lists.Weight, lists.Labels); a != b {
		t.Fatalf("%q: as keys %s, as lists %s", line, a, b)
	}
	return true
}

func plainSources() []schema.Source {
	return []schema.Source{
		{Format: "tsv", Fields: []string{"y", "a", "b", "c"}},
		{Format: "csv", Fields: []string{"y", "a", "b", "c"}, Missing: []string{"?", "NA"}},
	}
}

func TestPlainIsParserAndCoder(t *testing.T) {
	taken := 0
	for _, src := range plainSources() {
		d := "\t"
		if src.Format == "csv" {
			d = ","
		}
		for _, s := range datatest.Schemas() {
			x := twinsOf(t, src, s)
			for _, y := range []string{"1", "0", "no", "", "3"} {
				for _, a := range []string{"red", "blue", "", "?", " red", "a long colour that makes the line longer than a word or two and a block"} {
					for _, b := range []string{"0", "5", "", "1.5", "-3", "x", "NA", "1023", "1024", "12345678"} {
						for _, c := range []string{"7", "", "1e3", "2 ", "\"4\"", "4" + d + "4"} {
							if samePlain(t, x, []byte(y+d+a+d+b+d+c)) {
								taken++
							}
						}
					}
				}
			}
		}
	}
	if taken < 500 {
		t.Errorf("only %d lines were taken", taken)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add([]byte("1\tred\t12\t3.5"))
	f.Add([]byte("0,blue,,7"))
	var all []twins
	for _, src := range plainSources() {
		for _, s := range datatest.Schemas() {
			all = append(all, twinsOf(f, src, s))
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, x := range all {
			samePlain(t, x, line)
		}
	})
}

// exampleOf returns a tf.Example over y, a, b and c, from an index of values of each.
func exampleOf(t *testing.T, pick [4]int) []byte {
	t.Helper()
	text := func(s string) value.List { return value.List{Kind: value.Text, Texts: [][]byte{[]byte(s)}} }
	whole := func(n ...int64) value.List { return value.List{Kind: value.Int, Ints: n} }
	real := func(x ...float64) value.List { return value.List{Kind: value.Float32, Reals: x} }
	all := []value.List{
		{}, text("1"), text("red"), text(""), text("12.5"), text("no"), whole(1), whole(0), whole(7), whole(-5), whole(1 << 60), whole(1, 2),
		real(1), real(0.25), real(-3e9), real(math.NaN()), real(1, 2), text("00042"), text("a long colour that is no short key"),
	}
	lists := make([]value.List, 4)
	for i, p := range pick {
		lists[i] = all[p%len(all)]
	}
	return tfrecord.AppendExample(nil, []string{"y", "a", "b", "c"}, lists)
}

// sameSingles compares the results of singles for a record with the results of parser and coder.
func sameSingles(t *testing.T, x twins, record []byte) (taken bool) {
	t.Helper()
	slow := x.slow
	got := extend([]uint64(nil), slow.coder.shape.plainWords())
	if taken = x.fast.usual(got, record); !taken {
		return false
	}
	want, fl := slow.encode(nil, record)
	if fl != nil {
		t.Fatalf("%q: taken, but parser and coder refuse it: %+v", record, fl)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q: %x, parser and coder %x", record, got, want)
	}
	return true
}

func TestSinglesAreParserAndCoder(t *testing.T) {
	const kinds = 19
	taken := 0
	for _, s := range datatest.Schemas() {
		x := twinsOf(t, schema.Source{Format: "tfrecord"}, s)
		for y := range kinds {
			for a := range kinds {
				for b := range kinds {
					if sameSingles(t, x, exampleOf(t, [4]int{y, a, b, (y + a + b) % kinds})) {
						taken++
					}
				}
			}
		}
	}
	if taken < 500 {
		t.Errorf("only %d records were taken", taken)
	}
}

func FuzzSingles(f *testing.F) {
	f.Add([]byte{0x0a, 0x05, 0x0a, 0x03, 0x0a, 0x01, 'x'})
	for i := range 19 {
		lists := value.List{Kind: value.Int, Ints: []int64{1}}
		f.Add(tfrecord.AppendExample(nil, []string{"y", "a"}, []value.List{lists, {Kind: value.Text, Texts: [][]byte{{byte(i)}}}}))
	}
	var all []twins
	for _, s := range datatest.Schemas() {
		all = append(all, twinsOf(f, schema.Source{Format: "tfrecord"}, s))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		for _, x := range all {
			sameSingles(t, x, record)
		}
	})
}
