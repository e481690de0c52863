// Package signal measures how well one column predicts a label of two classes.
//
// A Sample keeps some records of each class: those with the smallest keys. The key of a
// record is a hash of its place, so the sample depends neither on the order of reading nor
// on the number of parts.
//
// A value predicts the label by its likelihood ratio. The records of each class are
// divided into two halves, and each half is scored by the ratios of the other one. So an
// identifier that differs in every record predicts nothing.
package signal

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/wire"
)

// Missing is the word of a missing value.
const Missing uint64 = math.MaxUint64

// Word returns the word of a finite number.
func Word(x float64) uint64 { return math.Float64bits(x) }

const (
	maxWords  = 1 << 22 // of a sample
	fewest    = 20      // minimum records of each class for a Signal
	perfect   = 10      // the same for a Signal of AUC 1
	maxRanges = 64      // intervals of the numbers of a column
	leaking   = 0.99    // AUC above which a single column counts as a leak
)

// Sample is a sample of the records of each class. Make it with New.
type Sample struct {
	columns int
	class   [2]class
}

// class holds the records of one label.
type class struct {
	most  int   // maximum records to keep
	seen  int64 // records offered
	limit uint64
	rows  []row // at most 2·most
}

type row struct {
	key   uint64
	words []uint64
}

// New returns an empty sample of records with this number of columns. It keeps up to most
// records of each class, or fewer if there are many columns.
func New(columns, most int) *Sample {
	most = max(min(most, maxWords/2/max(columns, 1)), fewest)
	s := &Sample{columns: columns}
	for i := range s.class {
		s.class[i] = class{most: most, limit: math.MaxUint64}
	}
	return s
}

// Wants counts a record and reports whether the caller should Add it.
func (s *Sample) Wants(key uint64, one bool) bool {
	c := s.of(one)
	c.seen++
	return key < c.limit
}

// Add adds a record with one word per column: Word of a number, a hash of a string, or
// Missing. It copies words.
func (s *Sample) Add(key uint64, one bool, words []uint64) {
	if len(words) != s.columns {
		panic("signal: Add: one word for each column")
	}
	s.of(one).add(row{key, slices.Clone(words)})
}

func (s *Sample) of(one bool) *class {
	if one {
		return &s.class[1]
	}
	return &s.class[0]
}

func (c *class) add(r row) {
	if c.rows = append(c.rows, r); len(c.rows) >= 2*c.most {
		c.cut()
	}
}

// cut sorts the records by key and drops those beyond most.
func (c *class) cut() {
	slices.SortFunc(c.rows, func(a, b row) int { return cmp.Compare(a.key, b.key) })
	if len(c.rows) > c.most {
		clear(c.rows[c.most:])
		c.rows = c.rows[:c.most]
		c.limit = c.rows[c.most-1].key
	}
}

// Columns returns the words of the sampled records by column, and their labels.
func (s *Sample) Columns() (words [][]uint64, ones []bool) {
	words = make([][]uint64, s.columns)
	for c := range s.class {
		s.class[c].cut()
		for _, r := range s.class[c].rows {
			for j, w := range r.words {
				words[j] = append(words[j], w)
			}
			ones = append(ones, c == 1)
		}
	}
	return words, ones
}

// Merge adds the records of another part of the same table.
func (s *Sample) Merge(o *Sample) error {
	if s.columns != o.columns {
		return fmt.Errorf("signal: merge: a sample of %d columns, here are %d", o.columns, s.columns)
	}
	for i := range s.class {
		s.class[i].seen += o.class[i].seen
		for _, r := range o.class[i].rows {
			s.class[i].add(r)
		}
	}
	return nil
}

// Append appends the encoding of s for From.
func (s *Sample) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.columns))
	for i := range s.class {
		c := &s.class[i]
		c.cut()
		b = binary.AppendUvarint(b, uint64(c.seen))
		b = binary.AppendUvarint(b, uint64(len(c.rows)))
		for _, r := range c.rows {
			b = binary.LittleEndian.AppendUint64(b, r.key)
			for _, w := range r.words {
				b = binary.LittleEndian.AppendUint64(b, w)
			}
		}
	}
	return b
}

// From decodes a sample with limits on its columns and records per class.
func From(r *wire.Reader, maxColumns, most int) *Sample {
	columns := r.Uvarint()
	if columns > uint64(maxColumns) {
		r.Fail("a sample of %d columns", columns)
		return nil
	}
	s := New(int(columns), most)
	for i := range s.class {
		c := &s.class[i]
		c.seen = r.Count()
		for range r.Length(c.most, 8*(1+s.columns)) {
			x := row{r.Uint64(), make([]uint64, s.columns)}
			for j := range x.words {
				x.words[j] = r.Uint64()
			}
			c.add(x)
		}
		c.cut()
	}
	return s
}

// Signal is the predictive value of one column in a sample.
type Signal struct {
	Known   bool    // the sample has enough records of both classes
	AUC     float64 // of the column as the only feature, at least 0.5
	Bits    float64 // lower bound of the mutual information with the label
	Absence bool    // the value is missing in all records of one class and in none of the other
}

// Leaks reports whether the column reveals the label.
func (s Signal) Leaks() bool { return s.Known && (s.Absence || s.AUC > leaking) }

// String describes a Signal that leaks.
func (s Signal) String() string {
	if s.Absence {
		return "it is missing exactly where the label has one of its values"
	}
	return fmt.Sprintf("as the only feature it has an AUC of %.4f", s.AUC)
}

// Of measures a column as categories and, if its values are numbers, also by ranges of
// numbers. The better result counts.
func (s *Sample) Of(column int, numbers bool) Signal {
	best := s.by(column, false)
	if numbers {
		ranges := s.by(column, true)
		best.Known, best.Absence = best.Known || ranges.Known, best.Absence || ranges.Absence
		best.AUC, best.Bits = max(best.AUC, ranges.AUC), max(best.Bits, ranges.Bits)
	}
	return best
}

// by measures a column by ranges of its numbers or by their values.
func (s *Sample) by(column int, ranges bool) Signal {
	for i := range s.class {
		if s.class[i].cut(); len(s.class[i].rows) < perfect {
			return Signal{}
		}
	}
	group, groups := s.groups(column, ranges)
	if groups == 1 {
		return Signal{Known: true, AUC: 0.5} // the halves may differ in their shares of ones, which is chance
	}
	var half [2][2][]float64 // by half and class: records of each group
	for h := range half {
		for c := range half[h] {
			half[h][c] = make([]float64, groups)
		}
	}
	absent := [2]int{}
	for c := range s.class {
		for i, r := range s.class[c].rows {
			if half[i%2][c][group[r.words[column]]]++; r.words[column] == Missing {
				absent[c]++
			}
		}
	}
	n0, n1 := len(s.class[0].rows), len(s.class[1].rows)
	signal := Signal{Known: true, Absence: absent[0] == n0 && absent[1] == 0 || absent[1] == n1 && absent[0] == 0}
	rate := float64(s.class[1].seen) / float64(s.class[0].seen+s.class[1].seen)
	signal.AUC, signal.Bits = measure(half, rate)
	if min(n0, n1) < fewest && signal.AUC < 1 && !signal.Absence {
		return Signal{}
	}
	return signal
}

// groups maps the values of a column to groups that are treated as one value.
func (s *Sample) groups(column int, ranges bool) (group map[uint64]int, n int) {
	counts, total := map[uint64]int{}, 0
	for c := range s.class {
		for _, r := range s.class[c].rows {
			counts[r.words[column]]++
			total++
		}
	}
	words := make([]uint64, 0, len(counts))
	for w := range counts {
		words = append(words, w)
	}
	least := 1 // minimum records of a group
	if ranges && len(words) > maxRanges {
		least = (total + maxRanges - 1) / maxRanges
	}
	slices.SortFunc(words, func(a, b uint64) int {
		if ranges && a != Missing && b != Missing {
			return cmp.Compare(math.Float64frombits(a), math.Float64frombits(b))
		}
		return cmp.Compare(a, b) // Missing sorts last
	})
	group, in := map[uint64]int{}, 0
	for _, w := range words {
		if in >= least || in > 0 && w == Missing {
			n, in = n+1, 0
		}
		group[w] = n
		in += counts[w]
	}
	return group, n + 1
}

// measure scores each half of the records by the likelihood ratios of the other one.
func measure(half [2][2][]float64, rate float64) (auc, bits float64) {
	type scored struct{ ratio, zeros, ones float64 }
	var all []scored
	total, sum := [2]float64{}, [2]float64{}
	for h := range half {
		for c := range half[h] {
			sum[c] = 0
			for _, n := range half[1-h][c] {
				sum[c] += n
			}
		}
		for g := range half[h][0] {
			zeros, ones := half[h][0][g], half[h][1][g]
			ratio := (half[1-h][1][g] + 1) / (half[1-h][0][g] + 1) * sum[0] / sum[1]
			all = append(all, scored{ratio, zeros, ones})
			total[0] += zeros
			total[1] += ones
		}
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(a.ratio, b.ratio) })
	below, loss := 0.0, 0.0
	for i := 0; i < len(all); {
		tie := scored{ratio: all[i].ratio}
		for ; i < len(all) && all[i].ratio == tie.ratio; i++ {
			tie.zeros += all[i].zeros
			tie.ones += all[i].ones
		}
		auc += float64(tie.ones * (below + tie.zeros/2))
		below += tie.zeros
		p := rate * tie.ratio / (float64(rate*tie.ratio) + 1 - rate)
		loss -= float64(rate*tie.ones/total[1]*math.Log2(p)) + float64((1-rate)*tie.zeros/total[0]*math.Log2(1-p))
	}
	entropy := float64(-rate*math.Log2(rate)) - float64((1-rate)*math.Log2(1-rate))
	return max(auc/(total[0]*total[1]), 0.5), max(entropy-loss, 0)
}
