package input

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// whereKeys returns the keys of the conditions of a dataset's records.
func whereKeys(in *Input, d *data.Dataset) string {
	more, key := in.Config.Data.TrainWhere, "data.train_where"
	if d != in.Train {
		more, key = in.Config.Data.ValidWhere, "data.valid_where"
	}
	switch {
	case more == "" || in.Use.Evaluates || d != in.Train && d != in.Valid:
		return "data.where"
	case in.Config.Data.Where == "":
		return key
	}
	return "data.where with " + key
}

// warnOfBad warns of faulty records that are left out of a dataset.
func (in *Input) warnOfBad(d *data.Dataset) {
	bad, first := d.Bad()
	excluded, unread := d.Excluded()
	if n := excluded; n > 0 {
		in.Warn(fmt.Sprintf("%s leaves out %d of %d records of %s", whereKeys(in, d), n, n+d.Rows(data.All)+bad, FirstFew(d.Names())))
	}
	if n := unread; n > 0 {
		in.Warn(fmt.Sprintf("%s excludes %d of %d files by the values of their folders; they are not read", whereKeys(in, d), n, n+len(d.Names())))
	}
	_, known := d.LabelMeans()
	for i, n := range known {
		if all := d.Rows(data.All); i > 0 && n < all && !in.Use.Predicts {
			in.Warn(fmt.Sprintf("label %s is missing in %d of %d records of %s: they have no loss for it, and its metrics leave them out", in.Config.Labels[i-1].Field, all-n, all, FirstFew(d.Names())))
		}
	}
	if bad == 0 {
		return
	}
	line := fmt.Sprintf("records left out because they cannot be used: %d", bad)
	if in.Use.Predicts {
		line = fmt.Sprintf("records without a prediction because they cannot be used: %d", bad)
	}
	if len(first) > 0 {
		line += fmt.Sprintf("; the first: %v", record.Together(first, bad))
	}
	in.Warn(line)
}

// sharedFile returns the first file that both datasets have; "" if there is none.
func sharedFile(a, b *data.Dataset) string {
	if a == nil || b == nil {
		return ""
	}
	known := map[string]bool{}
	for _, file := range a.Names() {
		known[file] = true
	}
	for _, file := range b.Names() {
		if known[file] {
			return file
		}
	}
	return ""
}

// oneClass returns a warning if all labels of an evaluation dataset are the same, otherwise "".
func oneClass(d *data.Dataset, label *schema.Label) string {
	which, n := "none", d.Rows(data.All)
	switch ones := d.Positives(); {
	case n == 0 || label.IsNumber() || ones > 0 && ones < n:
		return ""
	case ones > 0:
		which = "each"
	}
	return fmt.Sprintf("%s of the %d records of %s has the label 1, %s; so there is no AUC; to list the values of the field: wdlrun data check -config FILE", which, n, FirstFew(d.Names()), LabelRule(label))
}

// LabelRule describes which labels are 1.
func LabelRule(l *schema.Label) string {
	if l.Threshold != nil {
		return fmt.Sprintf("by field %s: label.threshold is %v", l.Field, *l.Threshold)
	}
	return fmt.Sprintf("by field %s: label.positive is %s", l.Field, quoted(l.Positive))
}

// quoted lists values.
func quoted(all []string) string {
	text := make([]string, len(all))
	for i, v := range all {
		text[i] = strconv.Quote(v)
	}
	return "[" + strings.Join(text, ", ") + "]"
}

// warnOfAbsent warns of fields that features need and that have no value in any record of a
// dataset.
func (in *Input) warnOfAbsent(d *data.Dataset) {
	known := map[string]bool{}
	for _, name := range in.Lacks { // train -by has named them
		known[name] = true
	}
	if keys := absentKeys(in.Config, d, known); keys != "" {
		in.Warn(fmt.Sprintf("these fields are empty in every record of %s, so their features have no effect: %s", FirstFew(d.Names()), keys))
	}
}

// absentKeys returns these fields by their keys in the configuration, or "". It leaves out
// fields in known and adds the others to it.
func absentKeys(c *config.Config, d *data.Dataset, known map[string]bool) string {
	const most, maxListed = 8, 40 // limits of a readable list
	absent := d.Absent()
	var names, keys []string
	for i, f := range c.Features {
		for _, x := range [][2]string{{"field", f.Field}, {"weights", f.Weights}} {
			if name := x[1]; name != "" && !known[name] {
				if known[name] = true; slices.Contains(absent, name) {
					names, keys = append(names, name), append(keys, fmt.Sprintf("features[%d].%s %q", i, x[0], name))
				}
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	has, strange := d.First(), false
	for i, name := range names[:min(len(names), most)] {
		near := nearest.Of(name, has)
		switch {
		case slices.Contains(has, name):
			keys[i] += " (always missing)"
			continue
		case near != "":
			keys[i] += fmt.Sprintf(" (did you mean %q?)", near)
		}
		strange = true
	}
	if more := len(keys) - most; more > 0 {
		keys = append(keys[:most], fmt.Sprintf("and %d more", more))
	}
	list := strings.Join(keys, ", ")
	if strange && len(has) <= maxListed {
		list += "; there are: " + strings.Join(has, ", ")
	}
	return list
}

// fewNames is the number of file names that messages contain.
const fewNames = 3

// FirstFew returns the first of many file names as text.
func FirstFew(names []string) string {
	if len(names) <= fewNames {
		return fmt.Sprint(names)
	}
	return fmt.Sprintf("%v and %d more", names[:fewNames], len(names)-fewNames)
}
