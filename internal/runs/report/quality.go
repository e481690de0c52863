package report

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Evaluation is the data of a page about the quality of a model.
type Evaluation struct {
	Model, Data string
	Metrics     metrics.Metrics
	Groups      *metrics.GroupMetrics // may be nil
	Quality     *metrics.Quality
	Importance  []Importance
	Warnings    []string
}

// Importance is the loss of quality without a field.
type Importance struct {
	Field             string
	Features          []string
	Coverage          float64
	AUC, AUCDeviation *float64 // nil if there is no AUC
	LogLoss           float64
	LogLossDeviation  float64
}

// qualityView is the data of the page for the template.
type qualityView struct {
	Title, Made, Data string
	Samples           int64
	Verdict           []string
	Rows              []metricRow
	Charts            []template.HTML
	Bins              []binRow
	Slices            []sliceView
	Features          [][]string
	Dense             [][]string
	Importance        [][]string
}

type metricRow struct{ Name, Value, Interval, Meaning string }

type binRow struct {
	Number                          int
	Weight, Prediction, Rate, Ratio string
}

type sliceView struct {
	Field, Note string
	Rows        [][]string
}

// listed replaces the gaps between the metrics of a line, which a page does not show.
func listed(line string) string { return strings.ReplaceAll(strings.TrimSpace(line), "   ", ", ") }

// WriteQuality writes the page about an evaluation. now is the date on the page.
func WriteQuality(w io.Writer, e Evaluation, now time.Time) error {
	q, m := e.Quality, &e.Metrics
	v := qualityView{
		Title: titleStart + "quality of " + e.Model, Made: now.Format("2006-01-02 15:04"), Data: e.Data, Samples: m.Samples,
		Verdict: []string{listed(m.String())}, Rows: metricRows(e), Bins: binRows(q.Bins),
	}
	if base := m.Base(); base != "" {
		v.Verdict = append(v.Verdict, listed(base))
	}
	if e.Groups != nil {
		v.Verdict = append(v.Verdict, e.Groups.String())
	}
	v.Verdict = append(v.Verdict, e.Warnings...)
	diagonal := curve{Name: "chance", X: []float64{0, 1}, Y: []float64{0, 1}, Faint: true}
	roc, pr, bins := xy("model", q.ROC), xy("model", q.PR), curve{Name: "bins", Dots: true}
	for _, b := range q.Bins {
		bins.X, bins.Y = append(bins.X, b.Prediction), append(bins.Y, b.Rate)
	}
	perfect := curve{Name: "calibrated", X: bins.X, Y: bins.X, Faint: true}
	v.Charts = append(v.Charts, chart("ROC", "false positive rate", "true positive rate", []curve{diagonal, roc}),
		chart("Precision and recall", "recall", "precision", []curve{pr}),
		chart("Calibration", "mean prediction", "share of positives", []curve{perfect, bins}))
	for i := range q.Slices {
		v.Slices = append(v.Slices, viewSlices(&q.Slices[i]))
	}
	for _, f := range q.Features {
		v.Features = append(v.Features, featureRow(&f))
	}
	for _, d := range q.DenseInputs {
		v.Dense = append(v.Dense, denseRow(&d))
	}
	for _, i := range e.Importance {
		v.Importance = append(v.Importance, []string{
			shortened(i.Field), clipped(strings.Join(i.Features, ", "), 120), fmt.Sprintf("%.1f %%", 100*i.Coverage),
			signed(i.AUC), signed(i.AUCDeviation), signed(&i.LogLoss), signed(&i.LogLossDeviation),
		})
	}
	return pages().ExecuteTemplate(w, "quality.html", v)
}

func xy(name string, points []metrics.Point) curve {
	c := curve{Name: name}
	for _, p := range points {
		c.X, c.Y = append(c.X, p.X), append(c.Y, p.Y)
	}
	return c
}

func metricRows(e Evaluation) (rows []metricRow) {
	q, m := e.Quality, &e.Metrics
	add := func(key, name string, x *float64, meaning string) {
		r := metricRow{name, decimals(x), "", meaning}
		for _, i := range q.Intervals {
			if i.Metric == key {
				r.Interval = fmt.Sprintf("%.4f … %.4f", i.Low, i.High)
			}
		}
		rows = append(rows, r)
	}
	add("auc", "AUC", m.AUC, "probability that a positive sample is ranked above a negative one")
	add("pr_auc", "PR-AUC", m.PRAUC, "average precision")
	add("", "log-loss", &m.LogLoss, "mean of −ln of the probability predicted for the true class")
	add("", "normalised entropy", m.NormalisedEntropy, "log-loss divided by the log-loss of predicting the base rate; below 1 is better")
	add("calibration", "calibration", m.Calibration, "mean prediction divided by the share of positives")
	add("", "ECE", q.ECE, "mean distance of prediction and share of positives over the bins below")
	add("", "accuracy", &m.Accuracy, "share of samples on the right side of 1/2")
	if g := e.Groups; g != nil {
		add("", "GAUC by "+g.Field, g.GAUC, fmt.Sprintf("AUC within each value, weighted, without %s of one class", plural.Of(int(g.OneClassGroups), "value")))
	}
	return rows
}

func binRows(bins []metrics.Bin) (rows []binRow) {
	for i, b := range bins {
		ratio := math.NaN()
		if b.Rate > 0 {
			ratio = b.Prediction / b.Rate
		}
		rows = append(rows, binRow{i + 1, strconv.FormatFloat(b.Weight, 'f', 0, 64), decimals(&b.Prediction), decimals(&b.Rate), decimals(&ratio)})
	}
	return rows
}

func featureRow(f *metrics.Feature) []string {
	name := shortened(f.Feature)
	if f.Table != f.Feature {
		name += ", table " + shortened(f.Table)
	}
	row := []string{name, "–", strconv.FormatInt(f.Values, 10), strconv.FormatInt(f.Unknown, 10), "–", strconv.FormatInt(f.Rows, 10), "–", "–", "–"}
	if f.Coverage != nil {
		row[1] = fmt.Sprintf("%.1f %%", 100**f.Coverage)
	}
	if f.Values > 0 {
		row[4] = fmt.Sprintf("%.1f %%", 100*float64(f.Unknown)/float64(f.Values))
	}
	for i, x := range f.Norms[:min(3, len(f.Norms))] {
		row[6+i] = strconv.FormatFloat(x, 'g', 3, 64)
	}
	return row
}

func denseRow(d *metrics.DenseInput) []string {
	name := shortened(d.Input)
	if d.Field != d.Input {
		name += ", field " + shortened(d.Field)
	}
	row := []string{name, "–", "–", "–", "–", "–"}
	if d.Coverage != nil {
		row[1], row[2] = fmt.Sprintf("%.1f %%", 100**d.Coverage), strconv.FormatInt(d.Values, 10)
	}
	if d.Outside != nil && d.Min != nil && d.Max != nil {
		row[3], row[5] = strconv.FormatInt(*d.Outside, 10), fmt.Sprintf("%.10g … %.10g", *d.Min, *d.Max)
		if d.Values > 0 {
			row[4] = fmt.Sprintf("%.1f %%", 100*float64(*d.Outside)/float64(d.Values))
		}
	}
	return row
}

func viewSlices(l *metrics.SliceList) sliceView {
	v := sliceView{Field: l.Field, Note: fmt.Sprintf("%d values; the %d with the most samples are listed; %d samples have none.", l.Values, len(l.Top), l.Missing)}
	if l.Intervals {
		v.Note = fmt.Sprintf("Intervals of the values, in order; %d samples have no value.", l.Missing)
	}
	if l.Share < 1 {
		v.Note += fmt.Sprintf(" A random %.2g %% of the values was evaluated, for memory.", 100*l.Share)
	}
	row := func(s *metrics.Slice, value string) {
		v.Rows = append(v.Rows, []string{shortened(value), strconv.FormatInt(s.Samples, 10), strconv.FormatInt(s.Positives, 10), decimals(s.AUC), decimals(&s.LogLoss), decimals(&s.BaseRate), decimals(s.Calibration)})
	}
	for i := range l.Top {
		row(&l.Top[i], l.Top[i].Value)
	}
	if l.Rest.Samples > 0 {
		row(&l.Rest, "all others")
	}
	return v
}

// signed formats a small difference, or a dash.
func signed(x *float64) string {
	if x == nil || !finite(*x) {
		return "–"
	}
	return strconv.FormatFloat(*x, 'f', 5, 64)
}
