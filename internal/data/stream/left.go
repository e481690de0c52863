package stream

import (
	"fmt"
	"slices"
)

// Left returns the part that a topic still has of a range of a span that was decided earlier, and the
// number of offsets outside it. report, if not empty, names them. If the topic has no marks, all of
// the range is left.
func Left(r Range, marks []Mark) (left Range, lost int64, report string) {
	same := func(m Mark) bool { return m.Topic == r.Topic }
	if !slices.ContainsFunc(marks, same) {
		return r, 0, ""
	}
	left = r
	i := slices.IndexFunc(marks, func(m Mark) bool { return same(m) && m.Number == r.Number })
	var why string
	switch {
	case i < 0:
		left.Lo, why = r.Hi, "the partition is gone"
	case r.ID != "" && marks[i].ID != "" && r.ID != marks[i].ID:
		left.Lo, why = r.Hi, fmt.Sprintf("the topic was deleted and created again: its id was %s, and is %s now", r.ID, marks[i].ID)
	default:
		m := marks[i]
		left.Lo, left.Hi = min(max(r.Lo, m.Low), r.Hi), max(min(r.Hi, m.High), r.Lo)
		left.Lo = min(left.Lo, left.Hi)
		why = fmt.Sprintf("the log begins at offset %d and ends at %d", m.Low, m.High)
	}
	if lost = r.Hi - r.Lo - (left.Hi - left.Lo); lost > 0 {
		report = fmt.Sprintf("partition %d of topic %s: %d of the records %d to %d, which were to be read, no longer exist: %s", r.Number, r.Topic, lost, r.Lo, r.Hi-1, why)
	}
	return left, lost, report
}
