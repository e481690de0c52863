// Package pattern compiles regular expressions when they are first used. A program that
// compiles its patterns when it starts pays for them in every rank.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns a function that compiles text once. It panics if text is invalid.
func Lazy(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
