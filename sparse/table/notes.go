package table

import "errors"

// notes holds the data of rows outside their records.
type notes struct {
	stamps slabs // by row: step of its last gradient, truncated; 0: unknown
	scores slabs // by row, with a HalfLife: score at its stamp
	until  slabs // by row, if steps are deferred: the last step that it has taken, truncated
}

// newNotes returns notes for rows with the given records.
func newNotes(records *slabs) notes {
	return notes{records.parallel(4), records.parallel(4), records.parallel(4)}
}

// empty returns empty notes with as many rows in each slab.
func (n *notes) empty() notes { return newNotes(&n.stamps) }

func (n *notes) reserve(last uint32, scores, until bool) {
	n.stamps.reserve(last)
	if scores {
		n.scores.reserve(last)
	}
	if until {
		n.until.reserve(last)
	}
}

func (n *notes) free() error {
	return errors.Join(n.stamps.free(), n.scores.free(), n.until.free())
}
