package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
)

// Evaluated is the result of evaluating some rows.
type Evaluated struct {
	metrics.Metrics
	Unknown map[string]int64           // by feature or cross: values outside the vocabulary or without a row for their key
	Why     map[string]metrics.Unknown // Unknown by reason
	Outside []Outside
	Absent  []string // fields of which no record has a value
	Held    bool     // the rows are a random part of the training data
}

// Outside counts the numbers of a field that are outside the range of the training data.
type Outside struct {
	Field   string  `json:"field"`
	Values  int64   `json:"values"`
	Outside int64   `json:"outside"`
	Min     float64 `json:"min"` // minimum of the training data
	Max     float64 `json:"max"`
}

// A warning about numbers outside the range needs at least this count and this share. Of N
// training values, data of the same distribution exceeds the share with probability (1 +
// N/20)·e^(−N/20): 0.0005 for N = 200.
const (
	outsideLeast = 10
	outsideShare = 0.05
)

// warning returns a warning about the field, or "" if few values are outside. what names the
// data.
func (o *Outside) warning(what string) string {
	if o.Outside < outsideLeast || float64(o.Outside) < outsideShare*float64(o.Values) {
		return ""
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	return fmt.Sprintf("%s: %d of %d values of %s are outside %s … %s, the range of training: is it the same unit? If the values are right, train on data that covers them",
		o.Field, o.Outside, o.Values, what, number(o.Min), number(o.Max))
}

// A warning about values of a feature that training has not seen needs at least this count
// and this share of the samples. A random part of the training data has only values that are
// rare, so the feature is an identifier if most are.
const (
	unseenLeast = 10
	unseenShare = 0.2
	uniqueShare = 0.8
)

// unseen returns warnings about features with many values that training has not seen. It
// leaves out fields that are missing in the data, which warnOfAbsent reports; lists, whose
// values are not a share of the samples; and crosses, which combine known values.
func (m *Evaluated) unseen(features []schema.Feature, columns []encode.SparseColumn, what string) (lines []string) {
	multi := map[string]bool{}
	for _, c := range columns {
		multi[c.Name] = c.Multi
	}
	for _, f := range features {
		name := cmp.Or(f.Name, f.Field)
		n := m.Unknown[name]
		share := unseenShare
		if m.Held {
			share = uniqueShare
		}
		switch {
		case multi[name] || slices.Contains(m.Absent, f.Field) || n < unseenLeast || float64(n) < share*float64(m.Samples):
		case m.Held:
			lines = append(lines, fmt.Sprintf("%s: %d of %d values of %s do not occur in the rest of the training data: almost every value is unique, so the model cannot learn from it; remove the feature",
				name, n, m.Samples, what))
		default:
			lines = append(lines, fmt.Sprintf("%s: training has not seen %d of %d values of %s: are they missing, or spelled differently than in training? If they are new, train on more recent data",
				name, n, m.Samples, what))
		}
	}
	return lines
}

// Warnings returns warnings about results that no sound training has, and about data that
// differs from the training data. columns are the encoded features; what names the data.
func (m *Evaluated) Warnings(features []schema.Feature, columns []encode.SparseColumn, what string) []string {
	lines := m.unseen(features, columns, what)
	for i := range m.Outside {
		lines = append(lines, m.Outside[i].warning(what))
	}
	lines = append(lines, m.Warning(what))
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}
