package inspect

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Values that mean 1 where the others do not.
var positiveWords = []string{"1", "1.0", "true", "t", "yes", "y", "pos", "positive", "click", "clicked"}

// guessLabel finds the label, and what the other columns show about it. It takes the
// column that has the name of a label, best one of two values; else the first or the last
// if it has two values, best 0 and 1; else any that has; else one named like a rating;
// else the last. Neither identifiers nor times are labels if there is anything else, nor
// is a column of which all records have one value. Without a name the guess is not sure.
func (in *Inspection) guessLabel(s *record.Sample) {
	in.All = !s.Part
	best, score := len(in.Columns)-1, -1
	for i, c := range slices.Backward(in.Columns) {
		if !IsIDName(c.Name) && !IsTimeName(c.Name) && c.Distinct > 1 {
			best = i
			break
		}
	}
	for i, c := range in.Columns {
		if n := c.likely(i == 0 || i == len(in.Columns)-1, in.All); n > score {
			best, score = i, n
		}
	}
	c := &in.Columns[best]
	in.Label, in.Sure = c.Name, IsLabelName(c.Name)
	in.guessRule(c)
	in.measure()
}

// likely says how much like a label a column is, of which all records were looked at or
// some. Of equals the first wins.
func (c *Column) likely(outer, all bool) int {
	binary := c.Distinct == 2 && c.Missing == 0 && c.Separator == "" && !c.Many
	flag := binary && c.Min == 0 && c.Max == 1 && c.Kind == "int"
	switch named := IsLabelName(c.Name); {
	case c.Distinct < 2 && (all || c.Distinct == 0):
		return -1 // of one class
	case named && binary:
		return 8
	case named:
		return 7
	case IsIDName(c.Name) || IsTimeName(c.Name):
		return -1
	case flag && outer:
		return 6
	case binary && outer:
		return 5
	case flag:
		return 4
	case binary:
		return 3
	case IsRatingName(c.Name) && c.Kind != "string":
		return 2
	}
	return -1
}

// guessRule decides which values of the label mean 1, so that there are some of both
// classes among the records.
func (in *Inspection) guessRule(c *Column) {
	if c.Kind != "string" && c.Distinct > 2 && !c.Many {
		x := c.threshold()
		in.Threshold = &x
		return
	}
	byName := slices.Sorted(slices.Values(c.Examples))
	for _, s := range byName {
		if slices.Contains(positiveWords, strings.ToLower(strings.TrimSpace(s))) {
			in.Positive, in.Certain = []string{s}, c.Distinct == 2 && !c.counted()
			return
		}
	}
	switch n := len(c.Examples); {
	case c.Distinct == 2 && n == 2 && utf8.ValidString(c.Examples[1]):
		in.Positive = c.Examples[1:] // the rarer: clicks are
	case c.Distinct > 2 && utf8.ValidString(byName[n-1]) && c.Separator == "":
		in.Positive = byName[n-1:]
	default:
		in.Positive = []string{"1"}
	}
}

// counted tells of numbers of classes, such as 1 and 2, of which 1 need not mean yes.
func (c *Column) counted() bool { return c.Kind != "string" && c.Min > 0 }

// threshold is the number from which on a label is 1: four fifths of the largest rating,
// such as 4 stars of 5; the least number but one where a fifth of the records or more
// have the least, such as any tip at all; else the median. Some records are below it and
// some are not.
func (c *Column) threshold() float64 {
	numbers := make([]float64, 0, len(c.cells.values))
	for _, s := range c.cells.values {
		if x, why := value.ParseNumber([]byte(s)); why == "" {
			numbers = append(numbers, x)
		}
	}
	slices.Sort(numbers)
	n := len(numbers)
	second, _ := slices.BinarySearch(numbers, math.Nextafter(numbers[0], math.Inf(1)))
	if IsRatingName(c.Name) {
		if x := math.Round(80*c.Max) / 100; c.Min >= 0 && x > c.Min && x <= c.Max {
			return x
		}
	}
	if 5*second >= n {
		return numbers[second]
	}
	return max(numbers[n/2], numbers[second])
}
