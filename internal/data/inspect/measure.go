package inspect

import (
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/signal"
)

// measure computes how well each column predicts the label, if there is one.
func (in *Inspection) measure() {
	label := in.column(in.Label)
	if label == nil {
		return
	}
	in.measureLikeness(label)
	s := signal.New(len(in.Columns), in.Rows)
	words := make([]uint64, len(in.Columns))
	for i := range in.Rows {
		own := label.cells.of(i)
		if len(own) != 1 {
			continue
		}
		for j := range in.Columns {
			words[j] = in.Columns[j].word(i)
		}
		if key, one := xxh3.HashString(strconv.Itoa(i)), in.isOne(own[0]); s.Wants(key, one) {
			s.Add(key, one, words)
		}
	}
	for j := range in.Columns {
		if c := &in.Columns[j]; c != label {
			c.Signal = s.Of(j, c.Kind != "string" && !c.Many)
		}
	}
}
