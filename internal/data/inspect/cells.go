package inspect

import (
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

const maxExamples = 5

// Words that programs write for a missing value.
var missingWords = []string{"?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "\\N", "#N/A"}

// cells are the values of a column. The cells of record i end at ends[i], where the next
// begin.
type cells struct {
	values []string
	ends   []int
	places []int // by record: values and nulls in its list; nil unless records hold lists
}

// add appends the values of one record.
func (c *cells) add(values ...string) {
	c.values = append(c.values, values...)
	c.ends = append(c.ends, len(c.values))
}

// of returns the values of a record.
func (c *cells) of(record int) []string {
	if record == 0 {
		return c.values[:c.ends[0]]
	}
	return c.values[c.ends[record-1]:c.ends[record]]
}

// frequent returns the five most frequent values; of two with one count the smaller is
// first.
func frequent(counts map[string]int) []string {
	values := make([]string, 0, len(counts))
	for s := range counts {
		values = append(values, s)
	}
	slices.SortFunc(values, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	return values[:min(len(values), maxExamples)]
}

// valuesOf returns the values of column i that are not missing.
func valuesOf(records [][]string, i int) []string {
	values := make([]string, 0, len(records))
	for _, r := range records {
		if r[i] != "" && !slices.Contains(missingWords, r[i]) {
			values = append(values, r[i])
		}
	}
	return values
}

// kindOf returns the narrowest type of all values.
func kindOf(values []string) string {
	if len(values) == 0 {
		return "string"
	}
	kind := "int"
	for _, s := range values {
		if _, ok := value.ParseID([]byte(s)); ok {
			continue
		}
		if _, why := value.ParseNumber([]byte(s)); why != "" {
			return "string"
		}
		kind = "float"
	}
	return kind
}

// once returns the number of values that occur once.
func once(counts map[string]int) (n int) {
	for _, c := range counts {
		if c == 1 {
			n++
		}
	}
	return n
}

// mode returns the most frequent width; of two with one count, the larger.
func mode(widths map[int]int) (width, n int) {
	for w, c := range widths {
		if c > n || c == n && w > width {
			width, n = w, c
		}
	}
	return width, n
}
