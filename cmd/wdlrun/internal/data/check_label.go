package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/value"
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
func (t *table) labelValues(ctx context.Context, by *command.Progress) ([]labelValue, error) {
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
	}, by.Read("label values", f.Bytes()))
	var all []labelValue
	for v, n := range counts {
		all = append(all, labelValue{v, n})
	}
	slices.SortFunc(all, func(a, b labelValue) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), cmp.Compare(a.Value, b.Value))
	})
	return all[:min(len(all), shown)], err
}
