package inspect

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/signal"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

// Column describes the values of one column.
type Column struct {
	Name     string
	Kind     string   // int, float or string
	Distinct int      // different values, without missing ones; after splitting at Separator
	Single   float64  // share of the values that occur once, the chance that a new record has a new value (Good 1953)
	Missing  float64  // share of the records
	Min, Max float64  // for numbers
	Examples []string // the most frequent values, at most five
	// Separator is the mark between several values of one field: "|", "^", ";", ",", " " or
	// "\x02", or "" if there is none.
	Separator string
	Pairs     string        `json:",omitempty"` // mark between the values and their weights, if there is a separator; "": none
	Parts     string        // kind of the values between separators: int, float or string
	Many      bool          // records hold lists of values
	Marks     string        // of formatted numbers: "$", "%", "," or several of these
	Integers  bool          // all numbers are integers
	LongTail  bool          `json:",omitempty"` // some numbers are far from the others
	Grows     bool          // the numbers grow from record to record, as times in a log do
	Shape     Shape         // for integers
	Likeness  float64       // of the labels of equal integers, if their shape is unclear: see likenessOf
	Dates     Dates         // if it contains dates
	Signal    signal.Signal // how well it predicts the label

	Folder bool `json:",omitempty"` // folders NAME=VALUE contain its values, not the records
	Dated  bool `json:",omitempty"` // these folders, with those above them, are dates, by which train -by can divide the files

	cells cells
}

// lookAt describes a column by its values, from lines with that delimiter.
func lookAt(name string, all cells, delimiter string) Column {
	c := Column{Name: name, Kind: kindOf(all.values), cells: all}
	missing := 0
	for i := range all.ends {
		n := len(all.of(i))
		if c.Many = c.Many || n > 1; n == 0 {
			missing++
		}
	}
	c.Missing = float64(missing) / float64(len(all.ends))
	counts := map[string]int{}
	for _, s := range all.values {
		counts[s]++
	}
	c.Distinct, c.Examples = len(counts), frequent(counts)
	c.Single = float64(once(counts)) / float64(max(1, len(all.values)))
	if !c.Many {
		c.Dates = datesOf(name, all)
	}
	if c.Kind == "string" {
		c.Marks = marksOf(all.values)
		c.split(all.values, delimiter)
	} else {
		c.numbers(counts)
		c.Grows = grows(all.values)
	}
	return c
}

// numbers computes the range and the shape of numbers.
func (c *Column) numbers(counts map[string]int) {
	c.Min, c.Max = math.Inf(1), math.Inf(-1)
	integers, all := map[float64]int{}, make([]weighted, 0, len(counts))
	for s, n := range counts {
		x, _ := value.ParseNumber([]byte(s))
		all = append(all, weighted{x, n})
		c.Min, c.Max = min(c.Min, x), max(c.Max, x)
		if x == math.Trunc(x) {
			integers[x] += n
		}
	}
	c.LongTail = hasLongTail(all)
	if c.Integers = len(integers) == len(counts); c.Integers && !c.Many {
		c.Shape = shapeOf(integers)
	}
}

// weighted is a number and how often it occurs.
type weighted struct {
	x float64
	n int
}

// hasLongTail reports whether the number farthest from the median is more than ten times as far as the
// middle 80 % of the numbers. Of a normal distribution it is 3 times as far in 10,000 rows, of an
// exponential one 5 times, of a log-normal one 15 times.
func hasLongTail(all []weighted) bool {
	const far = 10
	slices.SortFunc(all, func(a, b weighted) int { return cmp.Compare(a.x, b.x) })
	total := 0
	for _, w := range all {
		total += w.n
	}
	at := func(q float64) float64 {
		seen := 0
		for _, w := range all {
			if seen += w.n; float64(seen) >= q*float64(total) {
				return w.x
			}
		}
		return 0
	}
	if total == 0 {
		return false
	}
	low, middle, high := at(0.1), at(0.5), at(0.9)
	return max(middle-all[0].x, all[len(all)-1].x-middle) > far*max(middle-low, high-middle)
}

// grows reports whether numbers that differ from the previous one are nearly always larger, and
// do not return to the beginning.
func grows(values []string) bool {
	const minRises = 100
	rises, falls, fallen := 0, 0, 0.0
	low, high, last := math.Inf(1), math.Inf(-1), math.Inf(1)
	for _, s := range values {
		x, _ := value.ParseNumber([]byte(s))
		if x > last {
			rises++
		} else if x < last && !math.IsInf(last, 0) {
			falls, fallen = falls+1, fallen+last-x
		}
		low, high, last = min(low, x), max(high, x), x
	}
	return rises >= minRises && 100*rises >= maxDates*(rises+falls) && fallen < high-low
}

// split finds the mark between several values of a string, in lines with that delimiter,
// and counts the values between.
func (c *Column) split(values []string, delimiter string) {
	if c.Many {
		return
	}
	if c.Marks != "" || c.Dates.Format != "" || c.Dates.Mixed != "" {
		return
	}
	if c.Separator = guessSeparator(values, delimiter); c.Separator == "" {
		return
	}
	counts := map[string]int{}
	for _, s := range values {
		for piece := range strings.SplitSeq(s, c.Separator) {
			if piece = strings.TrimSpace(piece); piece != "" {
				counts[piece]++
			}
		}
	}
	if c.Pairs = pairsOf(counts); c.Pairs != "" {
		named := map[string]int{}
		for piece, n := range counts {
			named[piece[:strings.LastIndex(piece, c.Pairs)]] += n
		}
		counts = named
	}
	c.Distinct, c.Examples, c.Parts = len(counts), frequent(counts), kindOf(slices.Collect(maps.Keys(counts)))
}

// pairsOf returns the mark between names and numbers if every piece is such a pair, as in t1:1.5,
// "" otherwise. Times such as 12:30 are no pairs. The first mark is Hive's.
func pairsOf(pieces map[string]int) string {
	for _, mark := range []string{"\x03", ":", "="} {
		all, times := len(pieces) > 0, true
		for piece := range pieces {
			at := strings.LastIndex(piece, mark)
			if at <= 0 {
				all = false
				break
			}
			_, why := value.ParseNumber([]byte(piece[at+len(mark):]))
			all = all && why == ""
			times = times && clock().MatchString(piece)
		}
		if all && !times {
			return mark
		}
	}
	return ""
}

var clock = pattern.Lazy(`^\d{1,2}:\d\d(:\d\d)?$`)

// Numbers reports whether the records hold lists of numbers that are not integers, such as
// weights.
func (c *Column) Numbers() bool {
	return c.Many && c.Kind == "float" || c.Separator != "" && c.Parts == "float"
}

// Vector returns the number of places that every list of the column has, 0 if lists differ.
// Records without a list do not count.
func (c *Column) Vector() (size int) {
	for i := range c.cells.ends {
		n := c.length(i)
		if n > 0 && size > 0 && n != size {
			return 0
		}
		size = max(size, n)
	}
	return size
}

// LengthsEqual reports whether each record has as many values of a column as of another.
func (c *Column) LengthsEqual(o *Column) bool {
	for i := range c.cells.ends {
		if c.length(i) != o.length(i) {
			return false
		}
	}
	return len(c.cells.ends) > 0
}

// Longest returns the number of places of the longest list.
func (c *Column) Longest() (n int) {
	for i := range c.cells.ends {
		n = max(n, c.length(i))
	}
	return n
}

// length returns the number of places in the list of a record: values, nulls, and empty values
// between separators.
func (c *Column) length(record int) int {
	own := c.cells.of(record)
	if c.Separator == "" && c.cells.places != nil {
		return c.cells.places[record]
	}
	if c.Separator == "" {
		return len(own)
	}
	n, blank := 0, strings.TrimSpace(c.Separator) == ""
	for _, s := range own {
		for piece := range strings.SplitSeq(s, c.Separator) {
			if !blank || strings.TrimSpace(piece) != "" {
				n++
			}
		}
	}
	return n
}

// word returns the word of package signal for the value of a record.
func (c *Column) word(record int) uint64 {
	own := c.cells.of(record)
	switch {
	case len(own) == 0:
		return signal.Missing
	case c.Kind == "string" || c.Many:
		return xxh3.HashString(strings.Join(own, "\x00"))
	}
	x, _ := value.ParseNumber([]byte(own[0]))
	return signal.Word(x)
}
