package step

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/synth"
)

// unboundedKeys is the number of keys of a field whose encoding does not bound them.
const unboundedKeys = 100_000

// shaped returns generated data with the shape of a configured training: its columns, one
// key in each, with as many distinct keys as the encoding allows. c has its defaults filled
// in. The contents of its files are not used.
func shaped(c *config.Config) (*Workload, []encode.SparseColumn, error) {
	w, dense := &Workload{Name: "configuration", Dim: c.Model.EmbeddingDim}, 0
	var columns []encode.SparseColumn
	var values []int
	add := func(x encode.SparseColumn, keys int) {
		columns, values = append(columns, x), append(values, keys)
	}
	for _, f := range c.Features {
		keys := unboundedKeys
		switch f.Encode {
		case "standardise", "log", "raw":
			dense++
			continue
		case "boundaries":
			keys = len(f.Boundaries) + 1
		case "hash", "quantile":
			if f.Buckets > 0 {
				keys = int(min(f.Buckets, synth.MaxValues))
			}
		}
		add(encode.SparseColumn{Name: f.Name, Table: f.Table, Wide: *f.Wide, Deep: *f.Deep}, keys)
	}
	for _, x := range c.Crosses {
		keys := unboundedKeys
		if x.Buckets > 0 {
			keys = int(min(x.Buckets, synth.MaxValues))
		}
		add(encode.SparseColumn{Name: x.Name, Table: x.Table, Wide: true, Cross: true}, keys)
	}
	if len(columns) > synth.MaxFields || dense > synth.MaxDense {
		return nil, nil, fmt.Errorf("step: options: the configuration has %d sparse and %d dense columns, rows are generated of up to %d and %d",
			len(columns), dense, synth.MaxFields, synth.MaxDense)
	}
	w.generate(synth.Shaped(values, dense))
	return w, columns, nil
}
