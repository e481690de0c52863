// Package nearest finds what somebody who wrote an unknown word likely meant.
package nearest

import "strings"

// Of returns the candidate that takes the fewest edits (one letter
// inserted, removed, replaced, or two neighbours swapped) to reach from word,
// or "" if none is likely to be meant. Equal distances go to the first.
func Of(word string, candidates []string) string {
	const longest = 64 // no key is longer; bounds the work for a hostile file
	if len(word) > longest || word == "" {
		return ""
	}
	word = plain(word)
	best, bestDistance := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		if len(c) > longest {
			continue
		}
		other := plain(c)
		d := distance(word, other)
		if d > 0 && other != "" && (strings.HasPrefix(other, word) || strings.HasPrefix(word, other)) {
			d = min(d, 2) // epoch_count, embedding
		}
		// Words of which nothing is left are no neighbours.
		if d < bestDistance && d < max(len(word), len(other)) {
			best, bestDistance = c, d
		}
	}
	return best
}

// plain folds spellings of one key: batchSize, batch-size, Batch_Size.
func plain(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
}

// distance is the optimal string alignment distance over bytes.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Instead is the end of a message about an unknown word: the nearest one and
// the list of all, if it is short enough to help.
func Instead(word string, candidates []string) string {
	const listed = 40
	var b strings.Builder
	if n := Of(word, candidates); n != "" {
		b.WriteString("; did you mean " + n + "?")
	}
	if len(candidates) <= listed {
		b.WriteString(" (there are: " + strings.Join(candidates, ", ") + ")")
	}
	return b.String()
}
