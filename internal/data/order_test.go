package data

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

var modes = []mode{inOrder, inMemory, inDecks, onwards}

// For one rank, apart is inOrder; TestRanksReadApart has the rest.

// dealer deals records by the order only, without files.
type dealer struct {
	*order
	files []int64 // by group: the number of records before it in the files
	turns [2][]int32
	open  map[int64]*dealt // windows by deck
}

// dealt is a window in the order in which it is dealt, as numbers of records in the files.
type dealt struct {
	lo, hi int64
	rows   []int32
}

func newDealer(m mode, rows, blocks []int32, seed, epoch uint64) *dealer {
	d := &dealer{order: newOrder(m, rows, blocks, 1, seed, epoch), open: map[int64]*dealt{}, files: make([]int64, len(rows))}
	for g := range rows[:len(rows)-1] {
		d.files[g+1] = d.files[g] + int64(rows[g])
	}
	d.turns = [2][]int32{make([]int32, d.decks), make([]int32, d.decks)}
	return d
}

// take returns the records that rank r of p takes between x and y.
func (d *dealer) take(r, p int, x, y int64) (all []int32) {
	d.roundTurns(x, d.turns[0])
	d.roundTurns(y, d.turns[1])
	for _, s := range d.shares(int64(r), int64(p)) {
		k := s.deck
		first, end := s.of(d.taken(k, x, d.turns[0]), d.taken(k, y, d.turns[1]))
		for i := first; i < end; i = s.next(i + 1) {
			w := d.open[k]
			if w == nil || i < w.lo || i >= w.hi {
				w = d.deal(k, i)
				d.open[k] = w
			}
			all = append(all, w.rows[i-w.lo])
		}
	}
	return all
}

// deal returns the window of record i of deck k.
func (d *dealer) deal(k, i int64) *dealt {
	e := d.window(k, i)
	w := &dealt{lo: e.first - d.start(k), hi: e.end - d.start(k)}
	for n := e.from; n < e.to; n++ {
		for place := max(d.base[n], e.first); place < min(d.base[n+1], e.end); place++ {
			w.rows = append(w.rows, int32(d.files[d.perm[n]]+place-d.base[n]))
		}
	}
	d.permute(k, e, w.rows)
	return w
}

// singles returns blocks of one group each.
func singles(n int) []int32 { return identity(nil, n+1) }

// For any ranks, batches and interruptions: an epoch deals every record once, a step deals
// the same records for any number of ranks, and the ranks share them.
func TestEpochTakesEveryRecordOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Int32Range(0, 40), 1, 60).Draw(t, "rows per group")
		blocks := []int32{0}
		for most := rapid.IntRange(1, len(rows)).Draw(t, "groups of a block"); int(blocks[len(blocks)-1]) < len(rows); {
			blocks = append(blocks, min(blocks[len(blocks)-1]+rapid.Int32Range(0, int32(most)).Draw(t, "groups"), int32(len(rows))))
		}
		seed, epoch := rapid.Uint64().Draw(t, "seed"), rapid.Uint64Range(0, 9).Draw(t, "epoch")
		m := rapid.SampledFrom(modes).Draw(t, "mode")
		o := newDealer(m, rows, blocks, seed, epoch)
		n := o.rows()
		seen := make([]int, n)
		for x := int64(0); x < n; {
			if rapid.Bool().Draw(t, "resume") { // only x is kept
				o = newDealer(m, rows, blocks, seed, epoch)
			}
			p := rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(250, 600)).Draw(t, "ranks")
			y := min(x+rapid.Int64Range(1, 700).Draw(t, "batch"), n)
			step, one := []int32{}, o.take(0, 1, x, y)
			for r := range p {
				own := newDealer(m, rows, blocks, seed, epoch).take(r, p, x, y)
				step = append(step, own...)
			}
			slices.Sort(step)
			slices.Sort(one)
			if int64(len(step)) != y-x || !slices.Equal(step, one) {
				t.Fatalf("step %d to %d on %d ranks takes %v, on one %v", x, y, p, step, one)
			}
			for _, row := range step {
				seen[row]++
			}
			x = y
		}
		if i := slices.IndexFunc(seen, func(n int) bool { return n != 1 }); i >= 0 {
			t.Fatalf("record %d is taken %d times", i, seen[i])
		}
	})
}

// Ranks have equal shares of any batch, up to one record per deck of a class that is not
// evenly divided, and read only their own groups.
func TestRanksShareSteps(t *testing.T) {
	rows := slices.Repeat([]int32{220}, 1500)
	for _, p := range []int{2, 3, 4, 5, 8, 16} {
		for _, batch := range []int64{16, 64, 256, 1000} {
			o := newDealer(inDecks, rows, singles(1500), 1, 2)
			read := make([]map[int32]bool, p)
			for r := range p {
				read[r] = map[int32]bool{}
			}
			for x := int64(0); x+batch <= o.rows()/8; x += batch {
				least, most := int(batch), 0
				for r := range p {
					own := o.take(r, p, x, x+batch)
					least, most = min(least, len(own)), max(most, len(own))
					for _, row := range own {
						read[r][row/220] = true
					}
				}
				slack := 1
				if residues%p != 0 {
					slack = int(batch)/residues + residues // of 5 ranks, one has 4 classes of 16
				}
				if most-least > slack {
					t.Fatalf("%d ranks have %d to %d of a batch of %d", p, least, most, batch)
				}
			}
			for r := range p {
				if n := len(read[r]); n > 1200/p {
					t.Errorf("rank %d of %d has read %d groups of the first eighth of an epoch", r, p, n)
				}
			}
		}
	}
}

// Of files that must be read from their beginning, ranks have equal shares of any batch, and
// each reads its part of the decks, at most two of them with another rank.
func TestRanksShareBlocks(t *testing.T) {
	const groups = 3200
	rows := slices.Repeat([]int32{220}, groups)
	blocks := []int32{0}
	for b := range int32(64) {
		blocks = append(blocks, (b+1)*groups/64)
	}
	if d := newOrder(onwards, rows, blocks, 1, 1, 2).decks; d != maxOpen {
		t.Fatalf("%d decks", d)
	}
	o := newDealer(onwards, rows, blocks, 1, 2)
	for _, p := range []int64{2, 3, 4, 5, 8, 12, 16, 24, 32, 100, 129} {
		for r := range p {
			if n, most := int64(len(o.shares(r, p))), (maxOpen+p-1)/p+1; n > most {
				t.Errorf("rank %d of %d reads %d decks, want at most %d", r, p, n, most)
			}
		}
		for _, batch := range []int64{24, 64, 1000, 4096} {
			for x := int64(0); x+batch <= o.rows(); x += 997 * batch {
				for r := range p {
					if n := o.count(r, p, x, x+batch); max(n*p-batch, batch-n*p) > 3*p+batch/16 {
						t.Fatalf("rank %d of %d has %d of a batch of %d", r, p, n, batch)
					}
				}
			}
		}
	}
}

// count returns how many records rank r of p takes between x and y.
func (d *dealer) count(r, p, x, y int64) (n int64) {
	d.roundTurns(x, d.turns[0])
	d.roundTurns(y, d.turns[1])
	for _, s := range d.shares(r, p) {
		for i, end := s.of(d.taken(s.deck, x, d.turns[0]), d.taken(s.deck, y, d.turns[1])); i < end; i = s.next(i + 1) {
			n++
		}
	}
	return n
}

// Decks are as many as blocks allow, so that two ranks rarely read the same block.
func TestDecksOfBlocks(t *testing.T) {
	for _, c := range []struct {
		sizes []int32 // records of blocks
		want  int64
	}{
		{[]int32{9}, 1}, {[]int32{9, 9, 9}, 1}, {[]int32{9, 9, 9, 9}, 2}, {slices.Repeat([]int32{9}, 24), 8},
		{slices.Repeat([]int32{9}, 5000), maxOpen}, {append(slices.Repeat([]int32{1}, 100), 300), 1}, {[]int32{0, 0}, maxOpen},
	} {
		blocks := identity(nil, len(c.sizes)+1)
		if got := blockDecks(c.sizes, blocks); got != c.want {
			t.Errorf("blocks of %v: %d decks, want %d", c.sizes, got, c.want)
		}
	}
}

func TestOrderDependsOnSeedAndEpoch(t *testing.T) {
	rows := slices.Repeat([]int32{50}, 30)
	for _, m := range modes {
		a := newDealer(m, rows, singles(30), 1, 0).take(0, 1, 0, 600)
		for _, o := range []*dealer{newDealer(m, rows, singles(30), 2, 0), newDealer(m, rows, singles(30), 1, 1)} {
			if same := slices.Equal(o.take(0, 1, 0, 600), a); same != (m == inOrder) {
				t.Errorf("mode %d: another seed or epoch gives the same order: %v", m, same)
			}
		}
		if slices.IsSorted(a) != (m == inOrder) {
			t.Errorf("mode %d: %v", m, a)
		}
	}
}

// Checkpoints depend on the order: a change to it must change Order.
func TestOrderIsFixed(t *testing.T) {
	text := fmt.Sprintln(Order)
	for _, m := range modes {
		o := newDealer(m, []int32{7, 0, 5, 9, 3}, []int32{0, 2, 5}, 42, 3)
		text += fmt.Sprintln(o.perm, o.take(0, 1, 0, 24))
	}
	for _, m := range []mode{inDecks, onwards} {
		large := newDealer(m, slices.Repeat([]int32{3}, 2000), singles(2000), 42, 3)
		text += fmt.Sprintln(large.take(0, 1, 500, 524))
	}
	golden.Check(t, "order.txt", text)
}

func TestSteps(t *testing.T) {
	if Steps(0, 5) != 0 || Steps(10, 5) != 2 || Steps(11, 5) != 3 || Steps(3, 0) != 3 {
		t.Error("wrong number of steps")
	}
}

func TestHoldOutShare(t *testing.T) {
	h := holdOut{seed: 7, limit: 1 << 62}
	n := 0
	for b := range 10 {
		for r := range int32(10000) {
			if h.holds(b, r) {
				n++
			}
		}
	}
	if n < 24500 || n > 25500 {
		t.Errorf("%d of 100000 are held out, want about a quarter", n)
	}
}

// statisticsCases calls each with files of several sizes, of n records of 265 bytes and the mode in which
// they are shuffled.
func statisticsCases(t *testing.T, sizes int, each func(t *testing.T, n int64, rows []int32, m mode)) {
	const group, record = minGroup/(265+keptBytes) + 1, 265 + keptBytes
	for _, n := range []int64{4, 400, 40_000, 400_000, 4_000_000}[:sizes] { // 1 KB to 1 GB
		rows := []int32{}
		for left := n; left > 0; left -= group {
			rows = append(rows, int32(min(left, group)))
		}
		for _, m := range []mode{inMemory, inDecks, onwards} {
			switch fits := n*record <= maxHeld; {
			case fits != (m == inMemory):
			case m == onwards: // one sorted file is shuffled only within its windows
			default:
				t.Run(fmt.Sprintf("%d records", n), func(t *testing.T) { each(t, n, rows, m) })
			}
		}
	}
}

// TestBatchesAreSamples: the mean position of a batch varies as in a random sample
// does, and does not depend on the batches before it. Beyond memory, a batch of more than
// C records has several of a deck, which are from W groups: that adds (B/C − 1)/W to the
// variance. Batches near each other are drawn from the same C·W groups, and so their
// covariance is B/(C·W) of the variance of a random sample.
func TestBatchesAreSamples(t *testing.T) {
	statisticsCases(t, patient.Size(4, 5), func(t *testing.T, n int64, rows []int32, m mode) {
		for _, batch := range []int64{16, 64, 256, 1024, 4096} {
			k := n / batch
			if k < 50 {
				continue
			}
			o := newDealer(m, rows, singles(len(rows)), 11, 2)
			means := make([]float64, k)
			for i := range means {
				for _, row := range o.take(0, 1, int64(i)*batch, int64(i+1)*batch) {
					means[i] += (float64(row) + .5) / float64(n) / float64(batch)
				}
			}
			noise := math.Sqrt(2 / float64(k))
			least, most, common := 1-5*noise, 1+5*noise, 0.
			if m == inDecks {
				extra := max(float64(batch)/numDecks-1, 0) / deckSpan
				common = float64(batch) / poolGroups / (1 + extra)
				least, most = .6, (1+extra)*(1.1+5*noise) // a round has one record of each deck, which evens batches out
			}
			ideal := 1. / 12 / float64(batch) * (1 - float64(batch)/float64(n))
			if got := autocovariance(means, 0) / ideal; got < least || got > most {
				t.Errorf("batches of %d: %.3f times the variance of random samples, want %.3f to %.3f", batch, got, least, most)
			}
			for lag := 1; lag <= 8; lag++ {
				if got := autocovariance(means, lag) / autocovariance(means, 0); math.Abs(got) > common+5/math.Sqrt(float64(k)) {
					t.Errorf("batches of %d: autocorrelation %.3f at lag %d, want %.3f at most", batch, got, lag, common)
				}
			}
		}
	})
}

func autocovariance(x []float64, lag int) (sum float64) {
	for i := range x[lag:] {
		sum += (x[i] - .5) * (x[i+lag] - .5)
	}
	return sum / float64(len(x)-lag)
}

// TestClassesOfASortedFile: where the first quarter of the records are clicks, the
// classes change as often as in a random sequence, and no batch of 64 has one class.
func TestClassesOfASortedFile(t *testing.T) {
	statisticsCases(t, patient.Size(4, 5), func(t *testing.T, n int64, rows []int32, m mode) {
		o := newDealer(m, rows, singles(len(rows)), 5, 0)
		runs, last := 0., false
		for x := int64(0); x < n; x += 64 {
			clicks, all := 0, o.take(0, 1, x, min(x+64, n))
			shuffle(all, uint64(x)) // only the set of records of a step is specified
			for _, row := range all {
				click := int64(row) < n/4
				if click {
					clicks++
				}
				if click != last {
					runs++
				}
				last = click
			}
			if len(all) == 64 && (clicks == 0 || clicks == 64) {
				t.Fatalf("%d clicks in the batch at %d", clicks, x)
			}
		}
		want := 2 * .25 * .75 * float64(n)
		if math.Abs(runs-want) > .003*want+5*math.Sqrt(float64(n)) {
			t.Errorf("%v runs of one class, want %v", runs, want)
		}
	})
}

// TestPairsAreInAnyOrder: of two records, each comes first in half of the epochs, in
// memory and in decks, whether they are neighbours or far from each other.
func TestPairsAreInAnyOrder(t *testing.T) {
	patient.Long(t)
	const epochs, group, groups = 600, 3, 2500
	rows, at := slices.Repeat([]int32{group}, groups), make([]int64, group*groups)
	pairs := [][2]int{{0, 1}, {1, 2}, {0, 3}, {2, 3}, {0, group*groups - 1}, {17, 4000}, {3000, 3300}, {1, group*groups - 2}}
	for _, m := range []mode{inMemory, inDecks} {
		first := make([]int, len(pairs))
		for e := range uint64(epochs) {
			o := newDealer(m, rows, singles(groups), 9, e)
			for x := int64(0); x < o.rows(); x += 50 {
				for _, row := range o.take(0, 1, x, x+50) {
					at[row] = x
				}
			}
			for i, p := range pairs {
				if at[p[0]] < at[p[1]] || at[p[0]] == at[p[1]] && e%2 == 0 {
					first[i]++
				}
			}
		}
		for i, n := range first {
			if math.Abs(float64(n)-epochs/2) > 4*math.Sqrt(epochs)/2 {
				t.Errorf("mode %d: of records %v the first comes first in %d of %d epochs", m, pairs[i], n, epochs)
			}
		}
	}
}

// TestPermutationsAreUniform: in memory, all orders of four records are equally likely.
func TestPermutationsAreUniform(t *testing.T) {
	const epochs = 24000
	seen := map[string]int{}
	for e := range uint64(epochs) {
		o := newDealer(inMemory, []int32{3, 1}, singles(2), 1, e)
		order := []int32{}
		for x := range int64(4) {
			order = append(order, o.take(0, 1, x, x+1)...)
		}
		seen[fmt.Sprint(order)]++
	}
	chi := 0.
	for _, n := range seen {
		chi += math.Pow(float64(n)-epochs/24, 2) / (epochs / 24)
	}
	if len(seen) != 24 || chi > 50 { // 23 degrees of freedom, p = .001
		t.Errorf("%d orders, χ² %.1f", len(seen), chi)
	}
}
