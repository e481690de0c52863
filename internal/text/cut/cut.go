// Package cut shortens strings for messages.
package cut

import "strings"

// To returns s if it has at most n bytes, otherwise its first n bytes, without a part of a
// character at their end, and an ellipsis.
func To(n int, s string) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
