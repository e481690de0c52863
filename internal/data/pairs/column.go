package pairs

import (
	"cmp"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/signal"
)

const (
	rare   = 5  // rows: values of fewer are one value
	ranges = 33 // of numbers
)

// Values returns the column of categories with these words, one for each row.
func Values(words []uint64) Column {
	counts := map[uint64]int{}
	for _, w := range words {
		counts[w]++
	}
	c, codes := Column{Codes: make([]int32, len(words)), Size: 1}, map[uint64]int32{} // code 0: rare values
	for i, w := range words {
		if counts[w] < rare {
			continue
		}
		v, ok := codes[w]
		if !ok {
			v = int32(c.Size)
			codes[w] = v
			c.Size++
		}
		c.Codes[i] = v
	}
	return c
}

// Ranges returns the column of numbers, divided into ranges of about as many rows. A frequent
// number has a range of its own. A missing number is code 0.
func Ranges(words []uint64) Column {
	counts, left := map[float64]int{}, 0
	for _, w := range words {
		if w != signal.Missing {
			counts[math.Float64frombits(w)]++
			left++
		}
	}
	numbers := make([]float64, 0, len(counts))
	frequent := max(left/ranges, rare)
	for x, n := range counts {
		numbers = append(numbers, x)
		if n >= frequent {
			left -= n
		}
	}
	slices.SortFunc(numbers, cmp.Compare)
	c, codes, in := Column{Codes: make([]int32, len(words)), Size: 1}, make(map[float64]int32, len(numbers)), 0
	for _, x := range numbers {
		n := counts[x]
		if in == 0 || in >= max(left/ranges, rare) || n >= frequent {
			c.Size++
			in = 0
		}
		codes[x] = int32(c.Size - 1)
		in += n
	}
	for i, w := range words {
		if w != signal.Missing {
			c.Codes[i] = codes[math.Float64frombits(w)]
		}
	}
	return c
}
