package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/signal"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// Values that usually mean 1.
var positiveWords = []string{"1", "1.0", "true", "t", "yes", "y", "pos", "positive", "click", "clicked"}

// Values that usually mean 0, if the other value is one of positiveWords.
var negativeWords = []string{"0", "0.0", "false", "f", "no", "n", "neg", "negative", "not clicked"}

// guessLabel finds the label, and what the other columns reveal about it. The candidates,
// in order: a column with the name of a label, preferably with two values; one of two values
// named like an action; ratings; the first or the last column if it has two values, preferably 0
// and 1; any column with two; a column named like a rating; the last column. Identifiers, times,
// columns with only one value and those that an identifier determines, such as the sex of users,
// are chosen only if there is nothing else. Without a name the guess is not sure.
func (in *Inspection) guessLabel(s *record.Sample) {
	in.All = !s.Part
	columns := slices.DeleteFunc(slices.Clone(in.Columns), func(c Column) bool { return c.Folder }) // these come last
	last := len(columns) - 1
	best, score := last, -1
	for i, c := range slices.Backward(columns) {
		if !IsIDName(c.Name) && !IsTimeName(c.Name) && c.Distinct > 1 {
			best = i
			break
		}
	}
	for i, c := range columns {
		n := c.likely(i == 0 || i == last, in.All)
		if n > score && n <= unnamed && slices.ContainsFunc(columns, func(id Column) bool { return id.determines(&c) }) {
			n = -1
		}
		if n > score {
			best, score = i, n
		}
	}
	c := &in.Columns[best]
	in.Label, in.Sure = c.Name, score >= flagged
	for i := range columns {
		x := &in.Columns[i]
		if why := x.unsuitable(i == 0 || i == last); why != "" && x != c && !in.Sure {
			in.Rejected = append(in.Rejected, x.Name+" ("+why+")")
		}
	}
	in.guessRule(c)
	in.measure()
}

// OneClass returns an error if a column with the name of a label has only one value, and no other name
// indicates the label: another column would be a wrong guess.
func (in *Inspection) OneClass() error {
	if in.Sure {
		return nil
	}
	for i := range in.Columns {
		c := &in.Columns[i]
		if c.Folder || !IsLabelName(c.Name) || c.Distinct != 1 || len(c.Examples) == 0 || c.Many || c.Separator != "" {
			continue
		}
		which, missing := "all rows have the value", ""
		if c.Missing > 0 {
			which, missing = "all rows with a value have", fmt.Sprintf(", or with -label %s if a missing value means another class", c.Name)
		}
		return fmt.Errorf("%s: the field %s is the label by its name, but %s %q, and training needs both classes: name files that have both%s; or name another label with -label FIELD", in.Names[0], c.Name, which, c.Examples[0], missing)
	}
	return nil
}

// SetLabel makes a field the label, instead of the guessed one.
func (in *Inspection) SetLabel(field string) error {
	c := in.column(field)
	if c == nil {
		names := make([]string, len(in.Columns))
		for i := range in.Columns {
			names[i] = in.Columns[i].Name
		}
		return fmt.Errorf("%s: there is no field %q%s", in.Names[0], field, nearest.Instead(field, names))
	}
	if c.Distinct == 0 {
		return fmt.Errorf("%s: the field %s has no values in these rows, so it cannot be the label", in.Names[0], field)
	}
	for i := range in.Columns {
		in.Columns[i].Signal, in.Columns[i].Likeness = signal.Signal{}, 0
	}
	in.Label, in.Sure, in.Rejected, in.Positive, in.Negative, in.Threshold, in.Certain = field, true, nil, nil, nil, nil, false
	in.guessRule(c)
	in.measure()
	return nil
}

// unsuitable returns why a column that would be the label by its name or place is not suitable: it
// has only one value, or a few rows have a third value or none. It returns "" for other columns.
func (c *Column) unsuitable(outer bool) string {
	const inHundred = 5 // rows with another value than the two most frequent ones
	counts := map[string]int{}
	for _, s := range c.cells.values {
		counts[s]++
	}
	named, rows := IsLabelName(c.Name), len(c.cells.ends)
	others, third := len(c.cells.values), ""
	for i, s := range c.Examples {
		if i < 2 {
			others -= counts[s]
		} else if third == "" {
			third = s
		}
	}
	empty := int(math.Round(c.Missing * float64(rows)))
	switch {
	case !named && !outer || c.Many || c.Separator != "" || !named && (IsIDName(c.Name) || IsTimeName(c.Name)):
		return ""
	case named && c.Distinct == 1:
		return fmt.Sprintf("all rows have the value %q", c.Examples[0])
	case c.Distinct < 2 || 100*(others+empty) > inHundred*rows || counts[c.Examples[1]] <= others:
		return ""
	case others > 0:
		return fmt.Sprintf("%d values, the third (%q) in %d of %d rows", c.Distinct, third, counts[third], rows)
	case empty > 0:
		return fmt.Sprintf("no value in %d of %d rows", empty, rows)
	}
	return ""
}

// Scores of likely: from flagged on, the name of the column is one of a label; up to unnamed, only
// its values and place count.
const (
	flagged = 8
	unnamed = 6
)

// likely scores a column as the label. all reports that all records were read. If scores
// are equal, the first column wins.
func (c *Column) likely(outer, all bool) int {
	one, _ := c.writtenTwice()
	binary := (c.Distinct == 2 || one != nil) && c.Missing == 0 && c.Separator == "" && !c.Many
	flag := binary && c.Min == 0 && c.Max == 1 && c.Kind == "int"
	switch named := IsLabelName(c.Name); {
	case c.Distinct < 2 && (all || c.Distinct == 0):
		return -1 // of one class
	case named && binary:
		return 10
	case named:
		return 9
	case binary && isFlagName(c.Name):
		return flagged
	case isRatings(c.Name) && c.Kind != "string" && c.Distinct > 2:
		return 7
	case IsIDName(c.Name) || IsTimeName(c.Name):
		return -1
	case flag && outer:
		return unnamed
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

// determines reports whether each value of a column of many values has one value of another
// column of two: then the other is a property of what the column identifies.
func (c *Column) determines(two *Column) bool {
	const many, enough = 50, 20 // values; repeated records of each value of the other column
	if c.Distinct <= many || c.Many || two.Many || len(c.cells.ends) != len(two.cells.ends) {
		return false
	}
	of, repeated := map[string]string{}, map[string]int{}
	for i := range c.cells.ends {
		id, value := c.cells.of(i), two.cells.of(i)
		if len(id) != 1 || len(value) != 1 {
			continue
		}
		was, again := of[id[0]]
		if again && was != value[0] {
			return false
		}
		of[id[0]] = value[0]
		if again {
			repeated[value[0]]++
		}
	}
	for _, n := range repeated {
		if n < enough {
			return false
		}
	}
	return len(repeated) == 2
}

// guessRule decides which values of the label mean 1, so that the records have both
// classes.
func (in *Inspection) guessRule(c *Column) {
	defer in.asInTest(c)
	if c.Kind != "string" && c.Distinct > 2 && !c.Many {
		x := c.threshold()
		in.Threshold = &x
		return
	}
	if in.Positive, in.Negative = c.formatsOfTwo(); in.Positive != nil {
		return
	}
	if in.Positive, in.Negative = c.writtenTwice(); in.Positive != nil {
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
	case n >= 2 && (c.Distinct == 2 || c.unsuitable(true) != "") && utf8.ValidString(c.Examples[1]):
		in.Positive = c.Examples[1:2] // the rarer value, as clicks are
	case c.Distinct > 2 && utf8.ValidString(byName[n-1]) && c.Separator == "":
		in.Positive = byName[n-1:]
	default:
		in.Positive = []string{"1"}
	}
}

// adultComment begins the first line of the built-in file adult.test; adult.data has no comments.
const adultComment = "|"

// asInTest adds the values of the label as the built-in file adult.test writes them: with a full stop at
// the end.
func (in *Inspection) asInTest(c *Column) {
	if in.Comment == adultComment && c.Distinct == 2 && len(in.Positive) == 1 && slices.Contains(c.Examples, ">50K") {
		in.Positive, in.Negative = []string{">50K", ">50K."}, []string{"<=50K", "<=50K."}
	}
}

// writtenTwice returns the values of a column of two strings that are written in several ways: they
// differ in case, or in points or blanks at the end, such as ">50K" and ">50K." of two files. The
// rarer string comes first. It returns nil for other columns.
func (c *Column) writtenTwice() (rarer, other []string) {
	const most = 8 // ways
	if c.Kind != "string" || c.Distinct < 3 || c.Distinct > most || c.Many || c.Separator != "" {
		return nil, nil
	}
	counts, ways := map[string]int{}, map[string][]string{}
	for _, s := range c.cells.values {
		bare := strings.ToLower(strings.TrimRight(strings.TrimSpace(s), ". "))
		if counts[bare]++; !slices.Contains(ways[bare], s) {
			ways[bare] = append(ways[bare], s)
		}
	}
	if len(ways) != 2 {
		return nil, nil
	}
	bare := slices.SortedFunc(maps.Keys(ways), func(a, b string) int { return cmp.Or(cmp.Compare(counts[a], counts[b]), cmp.Compare(b, a)) })
	slices.Sort(ways[bare[0]])
	slices.Sort(ways[bare[1]])
	return ways[bare[0]], ways[bare[1]]
}

// formatsOfTwo returns the values of a label whose two classes have several formats, such as
// 1, true, yes and 0, false, no. It returns nil for other labels.
func (c *Column) formatsOfTwo() (positive, negative []string) {
	if c.Kind != "string" || c.Distinct < 3 || c.Many || c.Separator != "" {
		return nil, nil
	}
	seen := map[string]bool{}
	for _, s := range c.cells.values {
		if seen[s] {
			continue
		}
		seen[s] = true
		switch word := strings.ToLower(strings.TrimSpace(s)); {
		case slices.Contains(positiveWords, word):
			positive = append(positive, s)
		case slices.Contains(negativeWords, word):
			negative = append(negative, s)
		default:
			return nil, nil
		}
	}
	if len(positive) == 0 || len(negative) == 0 {
		return nil, nil
	}
	slices.Sort(positive)
	slices.Sort(negative)
	return positive, negative
}

// counted reports whether the values are numbers of classes, such as 1 and 2, of which 1
// need not mean yes.
func (c *Column) counted() bool { return c.Kind != "string" && c.Min > 0 }

// threshold returns the number from which a label is 1. For ratings it is four fifths of
// the largest, such as 4 stars of 5. If at least a fifth of the records have the least
// value, it is the next one, such as any tip at all. Otherwise it is the median. Records
// are on both sides of it.
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
	second = min(second, n-1) // 0, 00 and 000 are one number
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
