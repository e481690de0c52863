package encode

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// Warnings returns warnings about features that learn little or nothing from the training
// data as configured, and how to fix them. e is the encoder made from f, or nil if that
// failed.
func (f *Fit) Warnings(e *Encoder) (lines []string) {
	for _, d := range f.Undated() {
		lines = append(lines, d.Warning())
	}
	for i, ft := range f.schema.Features {
		if e == nil {
			break
		}
		if why := f.warning(&ft, &e.stats[i]); why != "" {
			lines = append(lines, fmt.Sprintf("features[%d] (%s): %s", i, ft.Name, why))
		}
	}
	return lines
}

// Warning returns the warning about values that are not dates in the format of their column.
func (d *Dates) Warning() string {
	advice := "features[].format names another"
	switch {
	case d.Format == "":
		return fmt.Sprintf("field %s: none of %d values, such as %q, is a date in a format that is recognised, and all count as missing; %s, or remove the features", d.Field, d.Values, d.Example, advice)
	case d.Mixed:
		return fmt.Sprintf("the field %s mixes date formats: %d of %d values, such as %q (%s), are not dates in the format %s and count as missing; write all values in one format", d.Field, d.Unread, d.Values, d.Example, d.Other, d.Format)
	case d.Other != "":
		advice = fmt.Sprintf("features[].format: %q reads them", d.Other)
	}
	return fmt.Sprintf("field %s: %d of %d values, such as %q, are not dates in the format %s and count as missing; %s", d.Field, d.Unread, d.Values, d.Example, d.Format, advice)
}

// warning returns the warning about one feature, or "". Fewer intervals than requested give
// no warning: a column of few distinct values has no more.
func (f *Fit) warning(ft *schema.Feature, s *statistics) string {
	const leave = "so the feature carries no information; remove it"
	if comparesAll(ft) {
		if value, ok := f.constantOf(ft.Field).value(); ok {
			return fmt.Sprintf("all values of field %s are %s, %s", ft.Field, value, leave)
		}
	}
	switch e, _ := schema.EncodingOf(ft.Encode); e {
	case schema.Standardise, schema.Quantile:
		n := f.numbersOf(ft.Field)
		distinct := n.counts.n
		switch {
		case distinct == 1 && (e == schema.Standardise || n.missing == 0):
			return fmt.Sprintf("all values of field %s are %s, %s", ft.Field, strconv.FormatFloat(n.sorted()[0].value, 'g', -1, 64), leave)
		case e == schema.Standardise && s.Deviation == 0 && distinct > 1:
			return fmt.Sprintf("the values of field %s differ by too little for standardise: use quantile", ft.Field)
		}
	case schema.Age:
		if s.Date != "" && s.Deviation == 0 {
			return fmt.Sprintf("all dates of field %s are the same, %s", ft.Field, leave)
		}
	case schema.Hash:
		return f.formsOf(ft).warning()
	case schema.Vocabulary:
		v := f.wordsOf(ft)
		if len(s.Vocabulary) == 0 && len(v.counts) > 0 {
			return fmt.Sprintf("none of the %d distinct values of field %s occurs %d times, so all share one key; lower min_count", len(v.counts), ft.Field, ft.MinCount)
		}
		if i := slices.IndexFunc(s.Vocabulary, func(word string) bool { return !utf8.ValidString(word) }); i >= 0 {
			return fmt.Sprintf("field %s has values such as %q, which are not UTF-8 but probably Latin-1, so they differ from the same words in other files; convert the files (iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW)", ft.Field, s.Vocabulary[i])
		}
		if padded, bare := v.padded(); padded != "" {
			return fmt.Sprintf("field %s has values such as %q and %q, which encode: vocabulary treats as different; write them without blanks at their ends", ft.Field, padded, bare)
		}
	}
	return ""
}
