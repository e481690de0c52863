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
		e.known++
		e.sum.Add(x)
		e.squares.Add(x * x)
	}
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
		e.known += r.Count()
		for _, s := range []*exact.Sum{&e.sum, &e.squares} {
			for k := range s.Limb {
				s.Limb[k] += r.Varint()
			}
			s.Carry()
		}
	}
}
