package metrics

import (
	"errors"
	"fmt"
	"time"
)

// Distributions holds the distributions of an evaluation during a training: a line of
// distributions.jsonl.
type Distributions struct {
	Step   int64        `json:"step"`
	Time   time.Time    `json:"time"`
	Tables []TableNorms `json:"tables"`
	PR     []Thresholds `json:"pr_curves"`
}

// TableNorms holds the norms of a table's embeddings, and of their gradients since the
// previous evaluation.
type TableNorms struct {
	Table      string    `json:"table"`
	Embeddings Histogram `json:"embeddings"`
	Gradients  Histogram `json:"gradients"`
}

// Thresholds holds, for thresholds from 0 to 1 in equal steps, the weights of the samples of
// a label whose prediction is at least the threshold.
type Thresholds struct {
	Label    string    `json:"label,omitempty"` // "" for the first
	Positive []float64 `json:"true_positives"`
	Negative []float64 `json:"false_positives"`
}

const thresholds = 101

// Thresholds computes the weights from the counts summed by Reduce.
func (t *Tally) Thresholds() Thresholds {
	x := Thresholds{Positive: make([]float64, thresholds), Negative: make([]float64, thresholds)}
	var units [2][thresholds]int64
	for _, b := range t.bins() {
		at := int(b.prediction * (thresholds - 1))
		units[0][at] += b.class[0]
		units[1][at] += b.class[1]
	}
	var above [2]int64
	for i := thresholds - 1; i >= 0; i-- {
		above[0], above[1] = above[0]+units[0][i], above[1]+units[1][i]
		x.Negative[i], x.Positive[i] = float64(above[0])/One, float64(above[1])/One
	}
	return x
}

// maxDistributions limits the tables and labels of a line, and the thresholds of a curve.
const maxDistributions = 1 << 12

// Validate returns an error if d cannot be the result of an evaluation.
func (d *Distributions) Validate() error {
	if len(d.Tables) > maxDistributions || len(d.PR) > maxDistributions {
		return fmt.Errorf("%d tables and %d curves, at most %d of each are possible", len(d.Tables), len(d.PR), maxDistributions)
	}
	for _, t := range d.Tables {
		for _, h := range []Histogram{t.Embeddings, t.Gradients} {
			if h.First < 0 || h.First > NormBins || len(h.Counts) > NormBins-h.First {
				return fmt.Errorf("a histogram of %d bins from bin %d; there are %d", len(h.Counts), h.First, NormBins)
			}
		}
	}
	for _, x := range d.PR {
		if n := len(x.Positive); n < 2 || n > maxDistributions || n != len(x.Negative) {
			return errors.New("a curve needs as many true positives as false positives, 2 to 4096")
		}
	}
	return nil
}
