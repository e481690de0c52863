package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/input"
)

// labelValue is a value of the label field.
type labelValue struct {
	Value   string `json:"value"`
	Records int64  `json:"records"`
}

// untrainable returns why training would fail although all records can be used, or "". Labels
// of a single class are accepted in files that the configuration does not name: such files
// may be used for evaluation only.
func (t *table) untrainable(d *data.Dataset, n *data.Counts) string {
	if t.config.Data.Follow.On {
		return ""
	}
	if err := d.Use(n); errors.Is(err, data.ErrNoRecords) {
		return err.Error()
	}
	if l := &t.label; !t.other && !l.IsNumber() && !l.IsNone() {
		switch rows, ones := n.Records(), n.Positives(); ones {
		case 0:
			return fmt.Sprintf("none of the %d rows has the label 1, %s", rows, input.LabelRule(l))
		case rows:
			return fmt.Sprintf("all %d rows have the label 1, %s", rows, input.LabelRule(l))
		}
	}
	return ""
}

// labelValues counts the values of the label field and returns the most frequent ones.
func (t *table) labelValues(ctx context.Context, by *progress) ([]labelValue, error) {
	const shown, maxCounted = 5, 1 << 16
	f, err := t.open()
	if err != nil || !slices.Contains(f.Fields(), t.label.Field) {
		return nil, err // a derived label is not in the files
	}
	counts := map[string]int64{}
	_, _, err = f.Survey(ctx, []string{t.label.Field}, 1, func(lists []value.List) error {
		text := []byte{}
		if lists[0].Len() > 0 {
			text = record.CutLong(lists[0].Append(nil, 0))
		}
		if _, known := counts[string(text)]; known || len(counts) < maxCounted {
			counts[string(text)]++
		}
		return nil
	}, by.read("label values", f.Bytes()))
	var all []labelValue
	for v, n := range counts {
		all = append(all, labelValue{v, n})
	}
	slices.SortFunc(all, func(a, b labelValue) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), cmp.Compare(a.Value, b.Value))
	})
	return all[:min(len(all), shown)], err
}

// printLabel prints the share of ones, and the values if all labels are the same.
func (r *checked) printLabel(w io.Writer, field string) {
	if r.Ones != nil && r.Records > 0 {
		fmt.Fprintf(w, "the label is 1 in %d of the good ones, %.3g %%\n", *r.Ones, 100*float64(*r.Ones)/float64(r.Records))
	}
	if len(r.Labels) == 0 {
		return
	}
	var all []string
	hint := ""
	for _, v := range r.Labels {
		if v.Value == "" {
			hint = fmt.Sprintf(`; if a missing value means 0, add data.derive: {label: "if(missing(%s), 0, 1)"} and label.field: label`, field)
		}
		all = append(all, strconv.Quote(v.Value)+" in "+plural.Of(int(v.Records), "record"))
	}
	fmt.Fprintf(w, "the most frequent values of field %s: %s; see label.positive, label.negative and label.threshold%s\n", field, strings.Join(all, ", "), hint)
}
