package encode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Reserved keys. Interval numbers never reach them. A hash or an id equals one of them
// with the probability of any other 64-bit number.
const (
	KeyMissing uint64 = 0xFDB4_5E1C_8A07_93D2
	KeyUnknown uint64 = 0xFDB4_5E1C_8A07_93D3
)

// Keys of unknown values between the encoding of a row and Count, which replaces them by KeyUnknown.
const (
	keyRare        = KeyUnknown + Rare
	keyOtherFormat = KeyUnknown + OtherFormat
)

// plainKey returns KeyUnknown for the key of an unknown value, and other keys unchanged.
func plainKey(key uint64) uint64 {
	if key-KeyUnknown < Reasons {
		return KeyUnknown
	}
	return key
}

// keySeed seeds the hash of strings and crosses. Changing it invalidates every trained
// model.
const keySeed = 0x7764_6C72_756E_0001

// KeyOf returns the key of a word of a vocabulary, and of a value to be hashed before the
// modulus: the 64-bit XXH3 hash of its bytes with a fixed seed.
func KeyOf(b []byte) uint64 { return keyOf(b) }

func keyOf(b []byte) uint64 { return xxh3.HashSeed(b, keySeed) }

// shortFlip is the XXH3 constant derived from the seed for inputs of 8 bytes (package
// eight): bytes 8 to 23 of its secret, xored, minus the seed, whose low half is also
// byte-swapped into its high half.
const shortFlip = 0x1cad21f72c81017c ^ 0xdb979083e96dd4de - (keySeed ^ 0x01006E75<<32)

// nextPiece splits the next value off a field with several; nil after the last. Empty
// values are skipped. Without a separator the field is one value.
func nextPiece(text []byte, separator string) (piece, rest []byte) {
	if separator == "" {
		if len(text) == 0 {
			return nil, nil
		}
		return text, nil
	}
	for len(text) > 0 {
		piece, text, _ = bytes.Cut(text, []byte(separator))
		if piece = bytes.TrimSpace(piece); len(piece) > 0 {
			return piece, text
		}
	}
	return nil, nil
}

// featureCode is a feature with the data for its encoding.
type featureCode struct {
	schema.Feature
	encoding schema.Encoding
	column   int // in the parser
	weights  int // column of the weights, 0 for none
	words    *keySet
	limits   []float64 // ascending; interval i is [limits[i−1], limits[i])
	mean     float64
	inverse  float64   // of the standard deviation; 0 for a constant
	least    float64   // numbers are clipped to this
	most     float64   // and this
	element  int       // vector: of the list
	cut      []byte    // the separator
	logs     []float64 // table for small counts, if logarithms are taken
	forms    forms     // hash: forms of the values of the training data; 0: unknown
	others   forms     // hash: forms.others
	dates    *dateCode // nil for a coder that only checks, and for other features
}

// coder turns the values of a parser into keys and numbers. It belongs to one
// goroutine.
type coder struct {
	parser  *parser
	sparse  []featureCode
	dense   []featureCode
	crosses []crossCode
	keys    []Jagged
	shape   shape
	one     Batch // one row
	buf     []byte
	digits  []int
}

type crossCode struct {
	name    string
	of      []int // indices of sparse features
	buckets uint64
}

// newCoder compiles a filled schema. Without statistics the coder can only
// check records.
func newCoder(s schema.Schema, stats []statistics, p *parser) *coder {
	c := &coder{parser: p}
	place := map[string]int{}
	var keys []featureCode // of rates
	for i, f := range s.Features {
		e, _ := schema.EncodingOf(f.Encode)
		fc := featureCode{Feature: f, encoding: e, limits: f.Boundaries, words: noKeys, cut: []byte(f.Separator)}
		fc.column = p.columnOf(f.Field)
		if f.Log || e == schema.Log {
			fc.logs = logs()
		}
		if f.Weights != "" {
			fc.weights = p.columnOf(f.Weights)
		}
		if stats != nil {
			fc.take(&stats[i])
		}
		if e.Sparse() {
			place[f.Name] = len(c.sparse)
			c.sparse = append(c.sparse, fc)
		}
		if e == schema.Rate {
			r := rated{dense: len(c.dense)}
			if stats != nil {
				r.rates = stats[i].rates
			}
			key := fc
			key.encoding = schema.Hash
			c.shape.rated, keys = append(c.shape.rated, r), append(keys, key)
		}
		for fc.element = range f.Width() {
			if e == schema.Vector && stats != nil {
				fc.takeElement(&stats[i])
			}
			c.dense = append(c.dense, fc)
		}
	}
	c.shape.firstRated = len(c.sparse)
	c.sparse = append(c.sparse, keys...)
	for _, x := range s.Crosses {
		cc := crossCode{name: x.Name, buckets: x.Buckets}
		for _, name := range x.Of {
			cc.of = append(cc.of, place[name])
		}
		c.crosses = append(c.crosses, cc)
	}
	c.keys = make([]Jagged, len(c.sparse)+len(c.crosses))
	c.shape.dense, c.shape.sparse, c.shape.targets, c.shape.number = len(c.dense)+len(p.targets), len(c.keys), p.targets, s.Label.IsNumber()
	for i := range c.sparse {
		if c.sparse[i].encoding == schema.Vocabulary {
			c.shape.vocabs = append(c.shape.vocabs, i)
		}
	}
	c.buf, c.digits = make([]byte, 8*schema.MaxOf), make([]int, schema.MaxOf)
	return c
}

func (f *featureCode) take(s *statistics) {
	switch f.encoding {
	case schema.Vocabulary:
		f.words = s.set
	case schema.Hash, schema.Rate:
		if f.forms = s.Forms; f.forms != 0 {
			f.others = f.forms.others()
		}
	case schema.Quantile:
		f.limits = s.Limits
	case schema.Standardise, schema.Age:
		if f.mean = s.Mean; s.Deviation > 0 {
			f.inverse = 1 / s.Deviation
		}
	}
	f.dates = s.dates
	f.bound(s)
}

// bound takes the bounds of a number or an element.
func (f *featureCode) bound(s *statistics) {
	if f.least, f.most = math.Inf(-1), math.Inf(1); len(s.Least) > 0 {
		f.least, f.most = s.Least[f.element], s.Most[f.element]
	}
}

// takeElement takes the statistics of an element of a vector.
func (f *featureCode) takeElement(s *statistics) {
	if f.mean, f.inverse = 0, 0; f.Standardise {
		if f.mean = s.Means[f.element]; s.Deviations[f.element] > 0 {
			f.inverse = 1 / s.Deviations[f.element]
		}
	}
	f.bound(s)
}

// check returns faults of the parsed record other than faults of columns: ids that are not
// integers, weights that are not numbers, crosses with too many combinations.
func (c *coder) check() *record.Flaw {
	for i := range c.sparse {
		f := &c.sparse[i]
		c.keys[i].Values, c.keys[i].Weights = c.keys[i].Values[:0], c.keys[i].Weights[:0]
		if f.encoding != schema.ID && !f.isWeighted() && !c.hasMany(f) {
			continue
		}
		if fl := c.appendKeys(i, &c.keys[i]); fl != nil {
			return fl
		}
	}
	for i := range c.crosses {
		n := 1
		for _, f := range c.crosses[i].of {
			if n *= max(1, len(c.keys[f].Values)); n > schema.MaxCrossed {
				return c.tooMany(&c.crosses[i])
			}
		}
	}
	return nil
}

// hasMany reports whether the feature can have more than one key in this record.
func (c *coder) hasMany(f *featureCode) bool {
	return f.Separator != "" || c.parser.lists[f.column].Len() > 1
}

func (c *coder) tooMany(x *crossCode) *record.Flaw {
	return &record.Flaw{Field: -1, Want: fmt.Sprintf("cross %s has more than %d combinations in this record; cross features of fewer values", x.name, schema.MaxCrossed)}
}

// row appends the parsed record to a batch.
func (c *coder) row(b *Batch) *record.Flaw {
	for i := range c.sparse {
		if fl := c.appendKeys(i, &b.Sparse[i]); fl != nil {
			return fl
		}
	}
	for i := range c.crosses {
		if !c.appendCross(&c.crosses[i], b.Sparse, b.Rows, &b.Sparse[len(c.sparse)+i]) {
			return c.tooMany(&c.crosses[i])
		}
	}
	for i := range c.dense {
		b.Dense = append(b.Dense, c.dense[i].number(c.parser))
	}
	if fl := c.parser.takeNotDate(); fl != nil {
		return fl
	}
	for i := range c.parser.targets {
		b.Dense = append(b.Dense, c.parser.target(i))
	}
	for i := range b.Sparse {
		j := &b.Sparse[i]
		if len(j.Values) > math.MaxInt32 {
			return &record.Flaw{Field: -1, Want: "the batch holds more than 2^31 keys of one feature; use smaller batches"}
		}
		j.Offsets = append(j.Offsets, int32(len(j.Values)))
	}
	label := float32(0)
	if c.parser.one {
		label = 1
	}
	b.Label = append(b.Label, label)
	b.Rows++
	return nil
}

// appendKeys appends the keys of a sparse feature, at least one, and their weights if the
// feature has weights.
func (c *coder) appendKeys(i int, to *Jagged) *record.Flaw {
	f, before := &c.sparse[i], len(to.Values)
	var fl *record.Flaw
	switch {
	case c.parser.absent[f.column]:
	case f.Pairs != "":
		fl = c.appendMarked(f, to)
	case f.weights != 0:
		fl = c.appendPairs(f, to)
	default:
		fl = c.appendValues(f, to)
	}
	if fl != nil {
		return fl
	}
	if f.MaxLen != 0 {
		f.shorten(to, before)
	}
	if len(to.Values) == before {
		to.Values = append(to.Values, KeyMissing)
		if f.isWeighted() {
			to.Weights = append(to.Weights, 1)
		}
	}
	return nil
}

// appendValues appends the keys of the values that are not missing.
func (c *coder) appendValues(f *featureCode, to *Jagged) *record.Flaw {
	p := c.parser
	l := &p.lists[f.column]
	switch {
	case f.encoding.Number():
		to.Values = append(to.Values, uint64(interval(f.limits, p.numbers[f.column])))
		return nil
	case l.Kind == value.Int && f.encoding == schema.ID:
		for _, x := range l.Ints {
			if f.Padding == "" || f.Padding != strconv.FormatInt(x, 10) {
				to.Values = append(to.Values, uint64(x))
			}
		}
		return nil
	}
	many := c.hasMany(f)
	for k := range l.Len() {
		if p.isInvalid(f.column, l, k) {
			continue
		}
		text := p.textOf(l, k)
		for {
			var piece []byte
			if piece, text = nextPiece(text, f.Separator); piece == nil {
				break
			}
			if many && p.isMissingText(piece) || f.isPadding(piece) {
				continue
			}
			key, ok := f.key(piece)
			if !ok {
				return f.notAnID(piece)
			}
			if p.noteUndated(f, piece); p.notDate != nil {
				return p.takeNotDate()
			}
			to.Values = append(to.Values, key)
		}
	}
	return nil
}

// notAnID returns the flaw of a value that encode: id cannot use.
func (f *featureCode) notAnID(text []byte) *record.Flaw {
	return &record.Flaw{Column: f.Field, Value: string(record.CutLong(text)), Want: "is not a 64-bit integer, which encode: id needs; use encode: hash for other values"}
}

// key returns the key of one value. It returns false if an integer is required and the
// value is not one.
func (f *featureCode) key(piece []byte) (uint64, bool) {
	switch f.encoding {
	case schema.ID:
		return idOf(piece)
	case schema.Hash:
		k := f.hashOf(piece)
		if f.Buckets > 0 {
			k %= f.Buckets
		}
		return k, true
	case schema.Hour, schema.Weekday, schema.Month:
		return f.dateKey(piece), true
	}
	return f.words.find(keyOf(piece), piece), true
}

// interval returns the number of limits that are at most x.
func interval(limits []float64, x float64) int {
	lo, hi := 0, len(limits)
	for lo < hi {
		if mid := (lo + hi) / 2; limits[mid] <= x {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// appendCross appends one key per combination of a row's keys. It returns false if there
// are too many.
func (c *coder) appendCross(x *crossCode, sparse []Jagged, row int, to *Jagged) bool {
	total := 1
	for d, f := range x.of {
		c.digits[d] = int(sparse[f].Offsets[row])
		if total *= sparse[f].end(row) - c.digits[d]; total > schema.MaxCrossed {
			return false
		}
	}
	buf := c.buf[:8*len(x.of)]
	for {
		for d, f := range x.of {
			binary.LittleEndian.PutUint64(buf[8*d:], plainKey(sparse[f].Values[c.digits[d]]))
		}
		key := keyOf(buf)
		if x.buckets > 0 {
			key %= x.buckets
		}
		to.Values = append(to.Values, key)
		d := len(x.of) - 1
		for ; d >= 0; d-- {
			if c.digits[d]++; c.digits[d] < sparse[x.of[d]].end(row) {
				break
			}
			c.digits[d] = int(sparse[x.of[d]].Offsets[row])
		}
		if d < 0 {
			return true
		}
	}
}

// end returns the end of the keys of a row. The row being appended is the last.
func (j *Jagged) end(row int) int {
	if row+1 < len(j.Offsets) {
		return int(j.Offsets[row+1])
	}
	return len(j.Values)
}

// number returns a dense input. A missing value is 0, which is the mean of a standardised
// input.
func (f *featureCode) number(p *parser) float32 {
	l := &p.lists[f.column]
	switch {
	case p.absent[f.column], f.encoding == schema.Rate, f.encoding == schema.Age && l.Len() != 1:
		return 0
	case f.encoding == schema.Age:
		text := p.textOf(l, 0)
		p.noteUndated(f, text)
		return f.age(text)
	case f.encoding == schema.Vector:
		x := p.vectors[f.column][f.element]
		if x != x {
			return 0
		}
		return f.scaled(x)
	}
	return f.scaled(p.numbers[f.column])
}

func (f *featureCode) scaled(x float64) float32 {
	x = min(max(x, f.least), f.most)
	if f.Log || f.encoding == schema.Log {
		x = f.log(x)
	}
	if f.encoding == schema.Standardise || f.encoding == schema.Age || f.Standardise {
		x = (float64(x) - f.mean) * f.inverse
	}
	return float32(min(max(x, -math.MaxFloat32), math.MaxFloat32))
}

// logs holds the logarithms of small counts, the most frequent values.
var logs = sync.OnceValue(func() []float64 {
	t := make([]float64, 1<<10)
	for i := range t {
		t[i] = signedLog(float64(i))
	}
	return t
})

// log returns signedLog, from the table for small counts.
func (f *featureCode) log(x float64) float64 {
	if i := int(x); uint(i) < uint(len(f.logs)) && math.Float64bits(float64(i)) == math.Float64bits(x) {
		return f.logs[i]
	}
	return signedLog(x)
}

// signedLog returns sign(x)·ln(1 + |x|).
func signedLog(x float64) float64 {
	return math.Copysign(math.Log1p(math.Abs(x)), x)
}
