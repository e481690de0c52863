package data

import (
	"strconv"
	"strings"
)

// advise is the end of a message about a name that does not exist: the nearest
// one, and all of them if they are few.
func advise(name string, names []string) string {
	const listed, longest = 40, 64
	var b strings.Builder
	best, least := "", max(2, len(name)/3)+1
	for _, n := range names {
		if len(n) > longest || len(name) > longest {
			continue
		}
		if d := edits(strings.ToLower(name), strings.ToLower(n)); d < least && d < min(len(name), len(n)) {
			best, least = n, d
		}
	}
	if best != "" {
		b.WriteString("; did you mean " + strconv.Quote(best) + "?")
	}
	if len(names) > 0 && len(names) <= listed {
		b.WriteString(" (there are: " + strings.Join(names, ", ") + ")")
	}
	return b.String()
}

// edits is the Levenshtein distance over bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
