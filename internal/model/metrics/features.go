package metrics

// Feature is the report of an evaluation about a sparse feature or a cross, and its table.
type Feature struct {
	Feature  string    `json:"feature"`
	Table    string    `json:"table"`
	Coverage *float64  `json:"coverage"` // share of samples with a value; null for a cross
	Values   int64     `json:"values"`   // values looked up, including those for missing values
	Unknown  int64     `json:"unknown"`  // values without a row or outside the vocabulary
	Rows     int64     `json:"rows"`     // rows of the table
	Norms    []float64 `json:"norms"`    // 10 %, 50 % and 90 % quantile of the norms of the table's embeddings; null without rows
}

// DenseInput is the report of an evaluation about a dense input.
type DenseInput struct {
	Input    string   `json:"input"`
	Field    string   `json:"field"`
	Coverage *float64 `json:"coverage"` // share of samples with a value; null for a date
	Values   int64    `json:"values"`
	Outside  *int64   `json:"outside"` // values outside the range of training; null if it is unknown
	Min      *float64 `json:"min"`     // of that range
	Max      *float64 `json:"max"`
}

// Histogram holds the bins of NormCounts from the first to the last that is not empty.
type Histogram struct {
	First  int     `json:"first"` // number of the first bin
	Counts []int64 `json:"counts"`
}

// HistogramOf returns the bins of counts.
func HistogramOf(c *NormCounts) (h Histogram) {
	h.Counts = []int64{}
	for bin, n := range c {
		switch {
		case n == 0:
		case len(h.Counts) == 0:
			h = Histogram{bin, []int64{n}}
		default:
			h.Counts = append(append(h.Counts, make([]int64, bin-h.First-len(h.Counts))...), n)
		}
	}
	return h
}

// Quantile returns the middle of the bin with the quantile q. It panics if all bins are
// empty.
func (h Histogram) Quantile(q float64) float64 {
	total, below := int64(0), int64(0)
	for _, n := range h.Counts {
		total += n
	}
	i := 0
	for ; i < len(h.Counts)-1; i++ {
		if below += h.Counts[i]; float64(below) >= q*float64(total) {
			break
		}
	}
	low, high := NormBin(h.First + i)
	return (low + high) / 2
}
