// Package plural writes numbers of things in messages.
package plural

import (
	"fmt"
	"strconv"
)

// Of returns n with a regular noun, such as "1 rank" or "2 ranks".
func Of(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Are returns what n of a regular noun are, such as "1 rank is ready" or "2 ranks are ready".
func Are(n int, noun, what string) string {
	if n == 1 {
		return "1 " + noun + " is " + what
	}
	return fmt.Sprintf("%d %ss are %s", n, noun, what)
}

// Grouped returns n with a comma between groups of three digits, such as 1,234,567.
func Grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	first := 0 // a sign
	if n < 0 {
		first = 1
	}
	for i := len(text) - 3; i > first; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
