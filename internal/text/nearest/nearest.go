// Package nearest finds the word that a misspelt word probably means.
package nearest

import "strings"

// Of returns the candidate with the fewest edits from word (one letter inserted, removed
// or replaced, or two neighbours swapped), or "" if none is close enough. If several
// are equally close, the first is returned.
func Of(word string, candidates []string) string {
	const longest = 64 // no key is longer; limits the work for a hostile file
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
		// Words without a common letter are not similar, and as many edits as a word has letters make any word of it.
		most := min(len(word), len(other))
		if strings.HasPrefix(other, word) || strings.HasPrefix(word, other) {
			most = max(len(word), len(other))
		}
		if d < bestDistance && d < most {
			best, bestDistance = c, d
		}
	}
	return best
}

// plain maps the variants of a key to one: batchSize, batch-size, Batch_Size.
func plain(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
}

// distance returns the optimal string alignment distance over bytes.
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

// Instead returns the end of a message about an unknown word: the nearest candidate, and
// the list of all if it is short enough.
func Instead(word string, candidates []string) string {
	const listed = 40
	var b strings.Builder
	if n := Of(word, candidates); n != "" {
		b.WriteString("; did you mean " + n + "?")
	}
	if len(candidates) <= listed {
		b.WriteString(" (valid: " + strings.Join(candidates, ", ") + ")")
	}
	return b.String()
}
