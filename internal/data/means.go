package data

import (
	"encoding/binary"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/wire"
	"github.com/wdlrun/wdlrun/internal/kernel/exact"
)

// labelSums are the sums of the numeric labels, in the order of schema.Targets. They are
// exact, so means do not depend on the parts of a scan.
type labelSums []labelSum

type labelSum struct {
	exact.Sum
	known int64 // records with the label
}

// add adds the labels of one record.
func (s *labelSums) add(values []float32) {
	for len(*s) < len(values) {
		*s = append(*s, labelSum{})
	}
	for i, v := range values {
		if v == v { // not missing
			(*s)[i].Add(float64(v))
			(*s)[i].known++
		}
	}
}

func (s *labelSums) merge(o labelSums) {
	for len(*s) < len(o) {
		*s = append(*s, labelSum{})
	}
	for i := range o {
		(*s)[i].known += o[i].known
		for k, limb := range o[i].Limb {
			(*s)[i].Limb[k] += limb
		}
		(*s)[i].Carry()
	}
}

func (s labelSums) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	for i := range s {
		s[i].Carry()
		b = binary.AppendUvarint(b, uint64(s[i].known))
		for _, limb := range s[i].Limb {
			b = binary.AppendVarint(b, limb)
		}
	}
	return b
}

func labelSumsFrom(r *wire.Reader) (s labelSums) {
	for range r.Length(schema.MaxLabels, exact.Limbs) {
		sum := labelSum{known: r.Count()}
		for k := range sum.Limb {
			sum.Limb[k] = r.Varint()
		}
		s = append(s, sum)
	}
	return s
}

// LabelMeans returns the mean of each label over the records that have it, and their number; 0
// before Use.
func (d *Dataset) LabelMeans() (means []float64, known []int64) {
	if !d.schema.Label.IsNumber() {
		means, known = append(means, float64(d.positives)/float64(max(d.rows, 1))), append(known, d.rows)
	}
	for i := range d.sums {
		n := d.sums[i].known
		means, known = append(means, d.sums[i].Float64()/float64(max(n, 1))), append(known, n)
	}
	for len(means) < 1+len(d.schema.Labels) {
		means, known = append(means, 0), append(known, 0)
	}
	return means, known
}
