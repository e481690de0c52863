package encode

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/wire"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// A feature with encode: rate gives two numbers for each value of its field: the log-odds of the
// smoothed share of positive records among the training records with this value, and the logarithm
// of their number. A training record gets them from the records of other folds, because its own
// label is part of the counts of its fold. All other records get them from all training records.
//
// The coders encode such a feature as a hash behind the other features. When a batch is complete,
// its rows get the numbers of their keys, and the keys are removed from it.

const (
	rateFolds = 10
	rateSlots = 1 + rateFolds // counts of a value: of earlier trainings, then of each fold
	ratePrior = 10            // records with the mean share of positives, which are added to each value
	maxRated  = maxWords      // values of a feature
	rateMagic = "wdlrate1"

	mostCounted = 1 << 48 // records: sums cannot overflow
)

// tally counts records.
type tally struct{ all, ones int64 }

func (t tally) plus(o tally) tally  { return tally{t.all + o.all, t.ones + o.ones} }
func (t tally) minus(o tally) tally { return tally{t.all - o.all, t.ones - o.ones} }

// without returns t without records, some of which it may not have.
func (t tally) without(o tally) tally {
	rest := tally{max(0, t.all-o.all), max(0, t.ones-o.ones)}
	rest.ones = min(rest.ones, rest.all)
	return rest
}

// rates are the counts of the values of one feature.
type rates struct {
	order  RateOrder
	keys   []uint64 // ascending
	counts [][rateSlots]tally
	total  tally
	grown  bool // of an earlier training: unless the records are the same, all its counts stay

	at     map[uint64]int32
	values []rateValue // by key and slot: from all records, then for each fold from the others
	none   rateValue   // of other keys
}

type rateValue [schema.RateWidth]float32

// RateOrder defines the folds of records. They are random, or, if Rows is not 0, fold k is the k-th
// part of the records and is predicted by the folds before it.
type RateOrder struct {
	Data string `json:"data,omitempty"` // identifies the counted records and their order
	Rows int64  `json:"rows,omitempty"` // number of records, if they are in the order of time
}

// Fold returns the fold of a record, by its Batch.RowID.
func (o RateOrder) Fold(id uint64) int {
	if o.Rows > 0 {
		return min(int(id)*rateFolds/int(o.Rows), rateFolds-1)
	}
	return int(f32.Mix(id+f32.Golden) >> 32 * rateFolds >> 32)
}

// sumOf returns the counts of a value in all slots.
func sumOf(c *[rateSlots]tally) (all tally) {
	for _, t := range c {
		all = all.plus(t)
	}
	return all
}

// others returns the counts that predict the records of a fold, and the factor by which all records
// are more.
func (r *rates) others(c *[rateSlots]tally, fold int) (t tally, factor float64) {
	if r.order.Rows > 0 {
		for _, own := range c[:1+fold] {
			t = t.plus(own)
		}
		return t, 1
	}
	return sumOf(c).minus(c[1+fold]), float64(rateFolds) / (rateFolds - 1)
}

// raw returns the numbers of a value before they are standardised.
func (r *rates) raw(t tally, factor float64) (x [schema.RateWidth]float64) {
	mean := (float64(r.total.ones) + 1) / (float64(r.total.all) + 2)
	ones := float64(t.ones) + float64(ratePrior*mean)
	zeros := float64(t.all-t.ones) + float64(ratePrior*(1-mean))
	return [...]float64{math.Log(ones/zeros) - math.Log(mean/(1-mean)), math.Log1p(float64(float64(t.all) * factor))}
}

// moments returns the mean and the deviation of each number over the training records.
func (r *rates) moments() (means, deviations []float64) {
	var n, sum, squares [schema.RateWidth]float64
	for i := range r.counts {
		for k := range rateFolds {
			of := float64(r.counts[i][1+k].all)
			for j, x := range r.raw(r.others(&r.counts[i], k)) {
				n[j], sum[j], squares[j] = n[j]+of, sum[j]+float64(of*x), squares[j]+float64(float64(of*x)*x)
			}
		}
	}
	for j := range sum {
		mean := sum[j] / max(n[j], 1)
		means = append(means, mean)
		deviations = append(deviations, math.Sqrt(max(0, squares[j]/max(n[j], 1)-float64(mean*mean))))
	}
	return means, deviations
}

// index computes the numbers of all values.
func (r *rates) index(means, deviations []float64) {
	r.at = make(map[uint64]int32, len(r.keys))
	r.values = make([]rateValue, 0, rateSlots*len(r.keys))
	standardised := func(t tally, factor float64) (v rateValue) {
		for j, x := range r.raw(t, factor) {
			if deviations[j] > 0 {
				v[j] = float32((x - means[j]) / deviations[j])
			}
		}
		return v
	}
	r.none = standardised(tally{}, 1)
	for i, key := range r.keys {
		r.at[key] = int32(i)
		r.values = append(r.values, standardised(sumOf(&r.counts[i]), 1))
		for k := range rateFolds {
			r.values = append(r.values, standardised(r.others(&r.counts[i], k)))
		}
	}
}

// put writes the numbers of a row with some keys, their means if there are several.
func (r *rates) put(to []float32, keys []uint64, slot int) {
	if len(keys) == 1 {
		copy(to, r.valueOf(keys[0], slot)[:])
		return
	}
	var sum [schema.RateWidth]float64
	for _, key := range keys {
		for j, x := range r.valueOf(key, slot) {
			sum[j] += float64(x)
		}
	}
	for j := range to {
		to[j] = float32(sum[j] / float64(len(keys)))
	}
}

func (r *rates) valueOf(key uint64, slot int) *rateValue {
	i, ok := r.at[key]
	if !ok {
		return &r.none
	}
	return &r.values[int(i)*rateSlots+slot]
}

// past returns r as the counts of an earlier training.
func (r *rates) past() *rates {
	if r == nil {
		return nil
	}
	p := *r
	p.grown = true
	return &p
}

// rated is a feature with encode: rate in the batches of a coder.
type rated struct {
	*rates     // nil: not counted
	dense  int // its first number
}

// rate gives the rows of a complete batch the numbers of their rates, and removes the keys.
func (s *shape) rate(b *Batch) {
	if len(s.rated) == 0 {
		return
	}
	for k, f := range s.rated {
		j, width := &b.Sparse[s.firstRated+k], s.dense-len(s.targets)
		for r := range b.Rows {
			to := b.Dense[r*width+f.dense:][:schema.RateWidth]
			if clear(to); f.rates == nil {
				continue
			}
			slot := 0
			if s.outOfFold {
				slot = 1 + f.order.Fold(b.RowID[r])
			}
			f.put(to, j.Values[j.Offsets[r]:j.Offsets[r+1]], slot)
		}
	}
	rest := b.Sparse[s.firstRated:] // rotate it
	slices.Reverse(rest[:len(s.rated)])
	slices.Reverse(rest[len(s.rated):])
	slices.Reverse(rest)
	if !s.keepRated {
		b.hidden = len(s.rated)
		b.Sparse = b.Sparse[:len(b.Sparse)-b.hidden]
	}
}

// Rated reports whether there are features with encode: rate, and returns the order in which the
// records of the last training were counted for them.
func (e *Encoder) Rated() (order RateOrder, is bool) {
	for i, f := range e.schema.Features {
		if f.Encode == rateName {
			is = true
			if r := e.stats[i].rates; r != nil {
				order = r.order
			}
		}
	}
	return order, is
}

const rateName = "rate"

// RateOf returns the numbers of a missing value of a feature with encode: rate, and those of a value
// that training has not seen.
func (e *Encoder) RateOf(feature string) (missing, unknown [schema.RateWidth]float32) {
	for i, f := range e.schema.Features {
		if r := e.stats[i].rates; f.Name == feature && r != nil {
			return *r.valueOf(KeyMissing, 0), r.none
		}
	}
	return missing, unknown
}

// OutOfFold returns e for the batches of training records: their rates are those of the other folds.
func (e *Encoder) OutOfFold() *Encoder {
	other := *e
	other.outOfFold = true
	return &other
}

// Tally counts training records for the features with encode: rate. It belongs to one goroutine.
type Tally struct {
	*Encoder // its batches have the keys of these features behind the other entries of Sparse
	order    RateOrder
	counts   []map[uint64]*[rateSlots]tally // by feature with encode: rate
}

// Tally returns an empty Tally.
func (e *Encoder) Tally(order RateOrder) *Tally {
	with := *e
	with.keepRated, with.sparse = true, slices.Clip(e.sparse)
	t := &Tally{Encoder: &with, order: order}
	for _, f := range e.schema.Features {
		if f.Encode == rateName {
			t.counts = append(t.counts, map[uint64]*[rateSlots]tally{})
			with.sparse = append(with.sparse, SparseColumn{Name: f.Name, Multi: f.Separator != ""})
		}
	}
	return t
}

// Add counts the rows of a batch. Rows without weight do not count.
func (t *Tally) Add(b *Batch) error {
	first := len(b.Sparse) - len(t.counts)
	for f, counts := range t.counts {
		j := &b.Sparse[first+f]
		for r := range b.Rows {
			if b.Weight != nil && b.Weight[r] == 0 {
				continue
			}
			own := tally{all: 1}
			if b.Label[r] == 1 {
				own.ones = 1
			}
			slot := 1 + t.order.Fold(b.RowID[r])
			for _, key := range j.Values[j.Offsets[r]:j.Offsets[r+1]] {
				c := counts[key]
				if c == nil {
					if len(counts) >= maxRated {
						return fmt.Errorf("feature %s: its field has more than %d distinct values, too many for encode: rate; remove it", t.name(f), maxRated)
					}
					c = new([rateSlots]tally)
					counts[key] = c
				}
				c[slot] = c[slot].plus(own)
			}
		}
	}
	return nil
}

// name returns the name of feature n with encode: rate.
func (t *Tally) name(n int) string {
	for _, f := range t.schema.Features {
		if f.Encode == rateName {
			if n--; n < 0 {
				return f.Name
			}
		}
	}
	return ""
}

// Marshal encodes the counts for Merge.
func (t *Tally) Marshal() []byte {
	b := []byte(rateMagic)
	for _, counts := range t.counts {
		keys := slices.Sorted(maps.Keys(counts))
		b = binary.AppendUvarint(b, uint64(len(keys)))
		for _, key := range keys {
			b = appendTallies(b, key, counts[key])
		}
	}
	return b
}

// Merge adds the counts of another rank.
func (t *Tally) Merge(b []byte) error {
	r := &wire.Reader{B: b}
	r.Magic(rateMagic)
	for f, counts := range t.counts {
		for range r.Length(maxRated, 8+2*rateSlots) {
			key, own := talliesFrom(r)
			c := counts[key]
			if c == nil {
				c = new([rateSlots]tally)
				counts[key] = c
			}
			for k := range c {
				if c[k] = c[k].plus(own[k]); c[k].all > mostCounted {
					r.Fail("counts of more than %d records", int64(mostCounted))
				}
			}
		}
		if len(counts) > maxRated {
			return fmt.Errorf("feature %s: its field has more than %d distinct values, too many for encode: rate; remove it", t.name(f), maxRated)
		}
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("broken counts of rates: %w", err)
	}
	return nil
}

// WithRates returns e with the counts of t and of earlier trainings. With counted, an earlier training has already
// counted the records of t. They are then counted once, and the rate of a record leaves out its own label.
func (e *Encoder) WithRates(t *Tally, counted bool) (*Encoder, error) {
	stats, n := slices.Clone(e.stats), 0
	for i, f := range e.schema.Features {
		if f.Encode != rateName {
			continue
		}
		counts, s := maps.Clone(t.counts[n]), &stats[i]
		n++
		if s.rates != nil {
			for k, key := range s.rates.keys {
				c := [rateSlots]tally{}
				if own := counts[key]; own != nil {
					c = *own
				}
				if c[0] = s.rates.counts[k][0]; s.rates.grown {
					c[0] = sumOf(&s.rates.counts[k])
					if counted {
						c[0] = c[0].without(sumOf(&c).minus(c[0]))
					}
				}
				if c != [rateSlots]tally{} {
					counts[key] = &c
				}
			}
		}
		r := &rates{order: t.order, keys: slices.Sorted(maps.Keys(counts))}
		for _, key := range r.keys {
			r.counts = append(r.counts, *counts[key])
			r.total = r.total.plus(sumOf(counts[key]))
		}
		if s.rates = r; len(s.Means) == 0 {
			s.Means, s.Deviations = r.moments()
		}
	}
	return compile(e.schema, stats)
}

func appendTallies(b []byte, key uint64, c *[rateSlots]tally) []byte {
	b = binary.LittleEndian.AppendUint64(b, key)
	for _, t := range c {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(t.all)), uint64(t.ones))
	}
	return b
}

func talliesFrom(r *wire.Reader) (key uint64, c [rateSlots]tally) {
	key = r.Uint64()
	for k := range c {
		if c[k] = (tally{r.Count(), r.Count()}); c[k].ones > c[k].all {
			r.Fail("%d of %d records are positive", c[k].ones, c[k].all)
		}
	}
	return key, c
}

// rateJSON is a rates in a feature index.
type rateJSON struct {
	RateOrder
	Counts []byte `json:"counts"`
}

func (r *rates) MarshalJSON() ([]byte, error) {
	x := rateJSON{RateOrder: r.order}
	for i, key := range r.keys {
		x.Counts = appendTallies(x.Counts, key, &r.counts[i])
	}
	return json.Marshal(x)
}

func (r *rates) UnmarshalJSON(b []byte) error {
	var x rateJSON
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	if r.order = x.RateOrder; r.order.Rows < 0 {
		return fmt.Errorf("rates of %d records", r.order.Rows)
	}
	for in := (&wire.Reader{B: x.Counts}); len(in.B) > 0 || in.Err != nil; {
		key, c := talliesFrom(in)
		if n := len(r.keys); in.Err == nil && (n >= maxRated || n > 0 && key <= r.keys[n-1]) {
			in.Fail("value %d is not in order, or one of too many", n)
		}
		if in.Err != nil {
			return fmt.Errorf("rates: %w", in.Err)
		}
		if r.total.all > mostCounted {
			return fmt.Errorf("rates: counts of more than %d records", int64(mostCounted))
		}
		r.keys, r.counts, r.total = append(r.keys, key), append(r.counts, c), r.total.plus(sumOf(&c))
	}
	return nil
}
