package encode

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/wire"
	"github.com/wdlrun/wdlrun/internal/kernel/exact"
)

// parseVector parses the elements of a column that contains vectors.
func (p *parser) parseVector(column int) *record.Flaw {
	v, n := p.vectors[column], 0
	for w := newWalk(&p.lists[column], p.cuts[column]); ; n++ {
		i, text, more := w.step()
		if !more {
			break
		}
		if n >= len(v) {
			continue
		}
		x, ok, fl := p.element(column, i, text)
		if fl != nil {
			return fl
		}
		if v[n] = x; !ok {
			v[n] = math.NaN()
		}
	}
	if n != len(v) {
		return p.flaw(column, fmt.Sprintf("has %d elements; the size of the feature is %d", n, len(v)))
	}
	return nil
}

// fitVectors holds the statistics of the elements of a column. Sums are exact, so that they do
// not depend on the parts of a scan.
type fitVectors struct {
	column   int
	field    string
	elements []fitElement
}

type fitElement struct {
	known        int64 // values that are not missing
	sum, squares exact.Sum
	least, most  float64 // 0 if no value is known
}

// vectorsOf returns the statistics of a field, or nil.
func (f *Fit) vectorsOf(field string) *fitVectors {
	for i := range f.vectors {
		if f.vectors[i].field == field {
			return &f.vectors[i]
		}
	}
	return nil
}

// add adds the record parsed last.
func (v *fitVectors) add(p *parser) {
	for i, x := range p.vectors[v.column] {
		if x != x {
			continue
		}
		e := &v.elements[i]
		e.span(e.known == 0, x, x)
		e.known++
		e.sum.Add(x)
		e.squares.Add(x * x)
	}
}

// span extends the range of the values; first if it is still empty.
func (e *fitElement) span(first bool, least, most float64) {
	if first {
		e.least, e.most = least, most
	} else {
		e.least, e.most = min(e.least, least), max(e.most, most)
	}
}

// bounds returns the ranges of the elements.
func (v *fitVectors) bounds() (b bounds) {
	for i := range v.elements {
		b.Least, b.Most = append(b.Least, v.elements[i].least), append(b.Most, v.elements[i].most)
	}
	return b
}

// moments returns the means and standard deviations of the elements.
func (v *fitVectors) moments() (means, deviations []float64) {
	for i := range v.elements {
		e := &v.elements[i]
		n := float64(max(e.known, 1))
		mean := e.sum.Float64() / n
		variance := e.squares.Float64()/n - float64(mean*mean)
		const rounding = 1e-12 // of the squares
		if variance <= rounding*e.squares.Float64()/n {
			variance = 0 // a constant
		}
		means, deviations = append(means, mean), append(deviations, math.Sqrt(variance))
	}
	return means, deviations
}

func (v *fitVectors) append(b []byte) []byte {
	for i := range v.elements {
		e := &v.elements[i]
		b = binary.AppendUvarint(b, uint64(e.known))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.least))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.most))
		for _, s := range []*exact.Sum{&e.sum, &e.squares} {
			s.Carry()
			for _, limb := range s.Limb {
				b = binary.AppendVarint(b, limb)
			}
		}
	}
	return b
}

// merge adds the encoded result of another part.
func (v *fitVectors) merge(r *wire.Reader) {
	for i := range v.elements {
		e := &v.elements[i]
		known, least, most := r.Count(), math.Float64frombits(r.Uint64()), math.Float64frombits(r.Uint64())
		if !(least <= most && math.Abs(least) < 1e39 && math.Abs(most) < 1e39) {
			r.Fail("an element ranges from %v to %v", least, most)
		}
		if known > 0 {
			e.span(e.known == 0, least, most)
		}
		e.known += known
		for _, s := range []*exact.Sum{&e.sum, &e.squares} {
			for k := range s.Limb {
				s.Limb[k] += r.Varint()
			}
			s.Carry()
		}
	}
}
