package data

import (
	"encoding/binary"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/wire"
	"github.com/wdlrun/wdlrun/internal/kernel/exact"
)

// labelSums are the sums of the numeric labels, in the order of schema.Targets. They are
// exact, so means do not depend on the parts of a scan.
type labelSums []exact.Sum

// add adds the labels of one record.
func (s *labelSums) add(values []float32) {
	for len(*s) < len(values) {
		*s = append(*s, exact.Sum{})
	}
	for i, v := range values {
		(*s)[i].Add(float64(v))
	}
}

func (s *labelSums) merge(o labelSums) {
	for len(*s) < len(o) {
		*s = append(*s, exact.Sum{})
	}
	for i := range o {
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
		for _, limb := range s[i].Limb {
			b = binary.AppendVarint(b, limb)
		}
	}
	return b
}

func labelSumsFrom(r *wire.Reader) (s labelSums) {
	for range r.Length(schema.MaxLabels, exact.Limbs) {
		var sum exact.Sum
		for k := range sum.Limb {
			sum.Limb[k] = r.Varint()
		}
		s = append(s, sum)
	}
	return s
}

// LabelMeans returns the mean of each label over all records, 0 before Use.
func (d *Dataset) LabelMeans() (means []float64) {
	rows := float64(max(d.rows, 1))
	sums := d.sums
	if !d.schema.Label.IsNumber() {
		means = append(means, float64(d.positives)/rows)
	}
	for i := range sums {
		means = append(means, sums[i].Float64()/rows)
	}
	for len(means) < 1+len(d.schema.Labels) {
		means = append(means, 0)
	}
	return means
}
