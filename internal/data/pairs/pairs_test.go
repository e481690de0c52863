package pairs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/signal"
)

// made returns a table of eight columns. Each value has an effect on the label, and each
// combination of a planted pair has one too.
func made(seed uint64, n int, planted ...[2]int) *Table {
	r := rand.New(rand.NewPCG(seed, 1))
	sizes := []int{25, 12, 40, 8, 20, 15, 100, 6}
	effects, together := map[[2]int]float64{}, map[[4]int]float64{}
	of := func(key [2]int) float64 {
		if _, ok := effects[key]; !ok {
			effects[key] = r.NormFloat64() / 2
		}
		return effects[key]
	}
	t := &Table{Columns: make([]Column, len(sizes))}
	words := make([][]uint64, len(sizes))
	for range n {
		z, row := -1.0, make([]int, len(sizes))
		for j, size := range sizes {
			row[j] = min(int(r.ExpFloat64()*float64(size)/3), size-1)
			words[j] = append(words[j], uint64(row[j]))
			z += of([2]int{j, row[j]})
		}
		for _, p := range planted {
			key := [4]int{p[0], p[1], row[p[0]], row[p[1]]}
			if _, ok := together[key]; !ok {
				together[key] = 0.8 * r.NormFloat64()
			}
			z += together[key]
		}
		t.Ones = append(t.Ones, r.Float64() < 1/(1+math.Exp(-z)))
	}
	for j := range words {
		t.Columns[j] = Values(words[j])
	}
	return t
}

func names(found []Pair) (all []string) {
	for _, x := range found {
		all = append(all, fmt.Sprintf("%d×%d", x.A, x.B))
	}
	slices.Sort(all)
	return all
}

// TestPlanted: exactly the pairs that matter are found, also if the rows are in the order of time.
func TestPlanted(t *testing.T) {
	for seed := range uint64(3) {
		table := made(seed, 20_000, [2]int{0, 1}, [2]int{2, 3}, [2]int{4, 7})
		for _, table.Ordered = range []bool{false, true} {
			if got := names(Search(table).Pairs); !slices.Equal(got, []string{"0×1", "2×3", "4×7"}) {
				t.Errorf("seed %d, ordered %v: %v", seed, table.Ordered, got)
			}
		}
	}
}

// TestNothing: random labels, and effects that only add up, give no pair.
func TestNothing(t *testing.T) {
	for seed := range uint64(4) {
		table := made(seed, 10_000, [2]int{0, 1})
		rand.New(rand.NewPCG(seed, 2)).Shuffle(len(table.Ones), func(i, j int) { table.Ones[i], table.Ones[j] = table.Ones[j], table.Ones[i] })
		for name, x := range map[string]*Table{"random": table, "additive": made(seed, 10_000)} {
			if f := Search(x); len(f.Pairs) > 0 || len(f.Leaks) > 0 || f.Tried != 28 {
				t.Errorf("seed %d, %s: %+v", seed, name, f)
			}
		}
	}
}

// TestChance: the best of many pairs gains something by chance, which does not count.
func TestChance(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	table := &Table{Columns: make([]Column, 60), Ones: made(1, 2000).Ones}
	for j := range table.Columns {
		words := make([]uint64, len(table.Ones))
		for i := range words {
			words[i] = r.Uint64N(3)
		}
		table.Columns[j] = Values(words)
	}
	if f := Search(table); len(f.Pairs) > 0 || f.Tried != 60*59/2 {
		t.Errorf("%+v", f)
	}
	if few, many := threshold(1), threshold(80_000); few < 1.6 || few > 1.7 || many < 4.8 || many > 5 {
		t.Errorf("thresholds %v, %v", few, many)
	}
}

// TestForward: in the order of time, labels of newer rows change no score and no correction of
// older ones.
func TestForward(t *testing.T) {
	const n, older = 5000, 4000
	table := made(3, n)
	table.Ordered = true
	was := newScan(table)
	corrections := was.corrections(table.Columns[0].Codes, table.Columns[0].Size)
	for i := older; i < n; i++ {
		table.Ones[i] = !table.Ones[i]
	}
	s := newScan(table)
	for i := range older {
		if s.logit[i] != was.logit[i] {
			t.Fatalf("row %d: logit %v, was %v", i, s.logit[i], was.logit[i])
		}
	}
	for v, d := range s.corrections(table.Columns[0].Codes, table.Columns[0].Size) {
		if d != corrections[v] {
			t.Fatalf("code %d: corrections %v, were %v", v, d, corrections[v])
		}
	}
}

// TestCopy: a copy of a column adds no second pair.
func TestCopy(t *testing.T) {
	table := made(1, 10_000, [2]int{0, 1})
	table.Columns = append(table.Columns, table.Columns[0])
	if got := Search(table).Pairs; len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestLeak: a pair that is the label in disguise is named, and not proposed.
func TestLeak(t *testing.T) {
	table, r := made(1, 5000), rand.New(rand.NewPCG(3, 3))
	a, b := make([]uint64, len(table.Ones)), make([]uint64, len(table.Ones))
	for i, one := range table.Ones {
		a[i] = r.Uint64N(30)
		b[i] = a[i] % 2
		if one {
			b[i] = 1 - b[i]
		}
	}
	table.Columns = append(table.Columns, Values(a), Values(b))
	if f := Search(table); len(f.Pairs) > 0 || !slices.Equal(names(f.Leaks), []string{"8×9"}) {
		t.Errorf("%+v", f)
	}
}

// TestFuture: what newer rows reveal about older ones is no gain. Here each combination occurs at
// one time only, with labels of its own.
func TestFuture(t *testing.T) {
	table, r := made(1, 10_000), rand.New(rand.NewPCG(4, 4))
	a, b, bias := make([]uint64, len(table.Ones)), make([]uint64, len(table.Ones)), 0.0
	for i := range table.Ones {
		if i%50 == 0 {
			bias = 0.2 + 0.6*float64(r.IntN(2))
		}
		a[i], b[i] = uint64(i/50%20), uint64(i/1000)
		table.Ones[i] = r.Float64() < bias
	}
	table.Columns = append(table.Columns, Values(a), Values(b))
	for want, ordered := range []bool{true, false} {
		if table.Ordered = ordered; len(Search(table).Pairs) != want {
			t.Errorf("ordered %v: %+v", ordered, Search(table))
		}
	}
}

// TestBadTables: one class, few rows, constant columns.
func TestBadTables(t *testing.T) {
	one := made(1, 1000)
	for i := range one.Ones {
		one.Ones[i] = i < Fewest-1
	}
	if f := Search(one); !f.Few || f.Tried > 0 {
		t.Errorf("%+v", f)
	}
	constant := &Table{Ones: made(1, 1000).Ones, Columns: []Column{Values(make([]uint64, 1000)), Values(make([]uint64, 1000))}}
	if f := Search(constant); f.Few || len(f.Pairs) > 0 {
		t.Errorf("%+v", f)
	}
	if f := Search(&Table{}); !f.Few {
		t.Errorf("%+v", f)
	}
}

// TestSkipped: columns beyond the limit of time are skipped and listed: not the one that says
// something.
func TestSkipped(t *testing.T) {
	const n = 40_000
	table, noise, told := &Table{}, make([]uint64, n), make([]uint64, n)
	r := rand.New(rand.NewPCG(5, 5))
	for i := range n {
		one := r.IntN(2)
		table.Ones = append(table.Ones, one == 1)
		noise[i], told[i] = r.Uint64N(9), uint64(one+r.IntN(3))
	}
	for range 299 {
		table.Columns = append(table.Columns, Values(noise))
	}
	table.Columns = append(table.Columns, Values(told))
	f := Found{Rows: n}
	got := (&scan{Table: table}).chosen(&f)
	if len(got)+len(f.Skipped) != 300 || len(got)*(len(got)-1)/2*n > visits || len(f.Skipped) == 0 || !slices.Contains(got, 299) {
		t.Errorf("%d columns, skipped %d", len(got), len(f.Skipped))
	}
}

// TestGain compares the gain of a pair with a plain computation.
func TestGain(t *testing.T) {
	table := made(2, 4000, [2]int{1, 3})
	s := newScan(table)
	x := &tried{Pair: Pair{A: 1, B: 3}}
	codes, size := s.codes(x)
	got, _ := s.exact(codes, size)
	want := 0.0
	for i := range table.Ones {
		of := sum{}
		for j := range table.Ones {
			if s.fold[j] != s.fold[i] && table.Columns[1].Codes[i] == table.Columns[1].Codes[j] && table.Columns[3].Codes[i] == table.Columns[3].Codes[j] {
				of.residual += s.sums[j].residual
				of.information += s.sums[j].information
			}
		}
		if table.Columns[1].Codes[i] > 0 && table.Columns[3].Codes[i] > 0 {
			want += lossAt(s.logit[i], table.Ones[i]) - lossAt(s.logit[i]+shrunken(of), table.Ones[i])
		}
	}
	if math.Abs(got-want) > 1e-9*want || want < 10 {
		t.Errorf("%v, want %v", got, want)
	}
	for _, y := range s.pairsOf(1, []int{3}) {
		if about := y.Gain * s.rows(); math.Abs(about-want) > want/10 || y.Combinations != size-1 {
			t.Errorf("approximately %v of %v, %d combinations of %d", about, want, y.Combinations, size-1)
		}
	}
}

// TestRanges: frequent numbers are alone, the others share ranges of about as many rows.
func TestRanges(t *testing.T) {
	words := []uint64{signal.Missing}
	for i := range 3300 {
		words = append(words, signal.Word(float64(i)), signal.Word(1650))
	}
	c := Ranges(words)
	rows := make([]int, c.Size)
	for _, v := range c.Codes {
		rows[v]++
	}
	alone := c.Codes[2]
	if most := rows[alone]; rows[0] != 1 || most != 3301 || c.Size > ranges+4 || len(slices.DeleteFunc(rows, func(n int) bool { return n < 102 })) != 1 {
		t.Error(rows, most, c.Size)
	}
}
