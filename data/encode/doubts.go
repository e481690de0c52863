package encode

import "fmt"

// Doubts are lines about columns that features make less of than one would expect.
func (f *Fit) Doubts() (lines []string) {
	for _, d := range f.Dates() {
		if d.Unread > 0 {
			lines = append(lines, fmt.Sprintf("field %s: %d of %d values, such as %q, are not dates in the format %s and count as missing; another format: features[].format", d.Field, d.Unread, d.Values, d.Example, d.Format))
		}
	}
	return lines
}
