// Package calls finds out ranks that made different collective calls even where
// no message between them is compared: two ranks that both send, or that wait for
// each other in a circle. Waits watches all ranks at once and misses none; Ledger
// is for ranks that hear of each other's calls only when those have long waited.
package calls

import (
	"sync"

	"github.com/wdlrun/wdlrun/collective"
)

// kept is how many calls of a channel a Ledger remembers. Ranks drift apart by a
// few calls at most, because almost every call needs all ranks.
const kept = 64

// Ledger remembers the last calls of one channel. The zero value is empty. Any
// goroutine may use it; nothing here allocates unless calls differ.
type Ledger struct {
	mu   sync.Mutex
	last [kept]entry
}

type entry struct {
	rank int
	tag  collective.Tag
}

// Note records that rank makes the call of tag. It returns a mismatch if another
// rank noted a different call of the same number.
func (l *Ledger) Note(rank int, tag collective.Tag) *collective.MismatchError {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.last[tag.Seq%kept]
	if e.tag.Seq == tag.Seq {
		return differ(rank, tag, *e)
	}
	if e.tag.Seq < tag.Seq { // else tag is of long ago
		*e = entry{rank, tag}
	}
	return nil
}

// Compare returns a mismatch if the call of tag, which rank makes, differs from
// the one noted under its number.
func (l *Ledger) Compare(rank int, tag collective.Tag) *collective.MismatchError {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.last[tag.Seq%kept]
	if e.tag.Seq != tag.Seq {
		return nil
	}
	return differ(rank, tag, e)
}

func differ(rank int, tag collective.Tag, e entry) *collective.MismatchError {
	if tag.Group != e.tag.Group || tag.SameCall(e.tag) { // other subsets make other calls
		return nil
	}
	return &collective.MismatchError{
		Peer: collective.Side{Rank: rank, Tag: tag, Bytes: -1},
		Own:  collective.Side{Rank: e.rank, Tag: e.tag, Bytes: -1},
	}
}
