// Package plural writes numbers of things in messages.
package plural

import "fmt"

// Of returns n with a regular noun, such as "1 rank" or "2 ranks".
func Of(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
