package encode

import (
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// target is a number of a record that is not an input, see schema.Targets. In a row, and
// in a batch being made, targets follow the numbers; split moves them to Weight and
// Labels.
type target struct {
	schema.Target
	column  int  // in the parser
	further bool // a label after the first, which may be missing: it is then NaN
}

func newTargets(s schema.Schema, columns []schema.Column) (list []target) {
	for _, t := range s.Targets() {
		further := t.Label != nil && t.Field != s.Label.Field
		list = append(list, target{t, slices.IndexFunc(columns, func(c schema.Column) bool { return c.Name == t.Field }), further})
	}
	return list
}

// value returns the target for a number. why is the fault, "" for none.
func (t *target) value(x float64) (y float32, why string) {
	switch l := t.Label; {
	case l == nil && (x < 0 || x > schema.MaxWeight):
		return 0, fmt.Sprintf("is not a weight: it must be from 0 to %d", schema.MaxWeight)
	case l == nil:
		return float32(x), ""
	case l.Threshold != nil:
		if x >= *l.Threshold {
			return 1, ""
		}
		return 0, ""
	case !l.IsNumber() && x != 0 && x != 1:
		return 0, "is neither 0 nor 1; give labels[].threshold, or kind: number to predict the number itself"
	case l.IsPoisson() && x < 0:
		return 0, "is negative, and loss: poisson is for counts; use loss: squared"
	}
	return float32(x), ""
}

// checkTargets checks the targets of the parsed record.
func (p *parser) checkTargets() *record.Flaw {
	for i := range p.targets {
		t := &p.targets[i]
		switch {
		case p.absent[t.column] && t.further:
			continue
		case p.absent[t.column] && t.Label == nil:
			return p.flaw(t.column, p.whyMissing(t.column)+"; every record needs a weight")
		case p.absent[t.column]:
			return p.flaw(t.column, p.whyMissing(t.column)+"; every record needs a label")
		}
		if _, why := t.value(p.numbers[t.column]); why != "" {
			return p.flaw(t.column, why)
		}
	}
	return nil
}

// target returns target i of the parsed record.
func (p *parser) target(i int) float32 {
	if t := &p.targets[i]; t.further && p.absent[t.column] {
		return float32(math.NaN())
	}
	y, _ := p.targets[i].value(p.numbers[p.targets[i].column])
	return y
}

// split moves the targets out of the numbers of a complete batch.
func (s *shape) split(b *Batch) {
	if len(s.targets) == 0 {
		return
	}
	for len(b.targets) < len(s.targets) {
		b.targets = append(b.targets, nil)
	}
	dense := s.dense - len(s.targets)
	for k, t := range s.targets {
		to := slices.Grow(b.targets[k][:0], b.Rows)[:b.Rows]
		for r := range to {
			to[r] = b.Dense[r*s.dense+dense+k]
		}
		b.targets[k] = to
		switch {
		case t.Label == nil:
			b.Weight = to
		case k == 0 && s.number:
			copy(b.Label, to)
		default:
			b.Labels = append(b.Labels, to)
		}
	}
	for r := range b.Rows {
		copy(b.Dense[r*dense:(r+1)*dense], b.Dense[r*s.dense:])
	}
	b.Dense = b.Dense[:b.Rows*dense]
}
