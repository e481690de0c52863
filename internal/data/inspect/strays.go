package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

const (
	minNumbers = 50 // minimum of numbers in a numeric column
	perStray   = 50 // and for each value that is not a number
	maxStrays  = 5  // different strays
)

// straysOf returns the values of a numeric column that are not numbers, nil if the column
// is not numeric. A few strings are most likely words for a missing value; infinities
// always are.
func straysOf(name string, values []string) (strays []string) {
	counts := map[float64]int{}
	texts, numbers := 0, 0
	for _, s := range values {
		x, why := value.ParseNumber([]byte(s))
		if why == "" {
			counts[x]++
			numbers++
			continue
		}
		if !infinity().MatchString(s) {
			texts++
		}
		if !slices.Contains(strays, s) {
			if strays = append(strays, s); len(strays) > maxStrays {
				return nil
			}
		}
	}
	if numbers < minNumbers || numbers < perStray*texts || len(strays) > numbers || IsIDName(name) {
		return nil
	}
	for x := range counts {
		if float64(int64(x)) != x {
			return strays
		}
	}
	if texts > 0 && shapeOf(counts) == Identifier {
		return nil // some of them are words
	}
	return strays
}

// dropMissingWords makes words for a missing value, such as the text "nan" that pandas
// writes, missing values of a column of other strings, if they are frequent. It notes them.
func (in *Inspection) dropMissingWords(name string, all *cells) {
	const inHundred = 1
	counts := map[string]int{}
	for _, s := range all.values {
		if slices.Contains(missingWords, s) {
			counts[s]++
		}
	}
	kept, n := cells{places: all.places}, len(all.values)
	for _, s := range missingWords {
		if counts[s] == 0 || 100*counts[s] < inHundred*n || counts[s] == n {
			delete(counts, s)
			continue
		}
		if !slices.Contains(in.Missing, s) {
			in.Missing = append(in.Missing, s)
		}
		in.noteWord(name, s, counts[s], n)
	}
	if len(counts) == 0 {
		return
	}
	for i := range all.ends {
		kept.add(slices.DeleteFunc(slices.Clone(all.of(i)), func(s string) bool { return counts[s] > 0 })...)
	}
	*all = kept
}

// noteWords adds the words of a column of lines to the missing ones. It notes those among other
// strings, as they may be values. Marks such as ? or \N never are.
func (in *Inspection) noteWords(c *Column, counts map[string]int) {
	n := len(c.cells.values)
	for _, count := range counts {
		n += count
	}
	for _, s := range missingWords {
		if counts[s] == 0 {
			continue
		}
		if !slices.Contains(in.Missing, s) {
			in.Missing = append(in.Missing, s)
		}
		marks := len(c.cells.values) == 0 || c.Kind != "string" || c.Marks != "" || c.Dates.Format != ""
		if !marks && !slices.Contains([]string{"?", "\\N", "#N/A"}, s) {
			in.noteWord(c.Name, s, counts[s], n)
		}
	}
}

// noteWord notes that a word of a column of strings means missing.
func (in *Inspection) noteWord(column, word string, count, all int) {
	in.Notes = append(in.Notes, fmt.Sprintf("column %s holds %q in %d of %d values; data.missing lists it, so that it means a missing value; remove it there if it is a value of its own", column, word, count, all))
}

var infinity = pattern.Lazy(`^[+-]?([iI]nf|INF|[iI]nfinity)$`)

// without returns the cells without some values.
func (c *cells) without(strays []string) cells {
	if len(strays) == 0 {
		return *c
	}
	kept := cells{places: c.places}
	for i := range c.ends {
		kept.add(slices.DeleteFunc(slices.Clone(c.of(i)), func(s string) bool { return slices.Contains(strays, s) })...)
	}
	return kept
}

// noteStrays notes the strays of a column of numbers, if there are any.
func (in *Inspection) noteStrays(name string, strays []string, numbers int, place func(stray string) string) {
	if len(strays) == 0 {
		return
	}
	shown := make([]string, len(strays))
	for i, s := range strays {
		shown[i] = fmt.Sprintf("%q", record.CutLong([]byte(s)))
		if !slices.Contains(in.Missing, s) {
			in.Missing = append(in.Missing, s)
		}
	}
	in.Notes = append(in.Notes, fmt.Sprintf("%s: column %s holds %s among %d numbers; data.missing lists it, so that it means a missing value",
		place(strays[0]), name, strings.Join(shown, ", "), numbers))
}

// placeOf returns a function that finds the line of a value in the lines read.
func (in *Inspection) placeOf(s *record.Sample, all []sampled, column, width int) func(string) string {
	form := record.NewDelimited(schema.Source{Format: in.Format, Delimiter: in.Delimiter, Escape: in.Escape})
	return func(stray string) string {
		for file := range all {
			for i, line := range all[file].lines {
				fields, fl := form.Split([]byte(line), nil)
				if fl != nil || len(fields) != width || string(fields[column]) != stray {
					continue
				}
				if at, err := form.Place(&s.Files[file], all[file].offsets[i]); err == nil {
					return at.Place()
				}
			}
		}
		return s.Files[0].Name
	}
}
