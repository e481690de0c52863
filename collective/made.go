package collective

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"sync/atomic"
)

// Made is a call that this rank has begun on a Comm and may have completed.
type Made struct {
	Tag  Tag    // without Step and Algorithm; Seq is 0 if no call was made yet
	Last bool   // no later call was begun on the channel
	what uint64 // the call, and the costs that choose its algorithm
}

// Hash returns a hash of the call without its number. Two calls with the same Seq, Group
// and Channel must have the same Hash on every rank. Calls whose algorithms are chosen by
// different costs differ in Hash.
func (m Made) Hash() uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, m.what), m.Tag.Count))
	return h.Sum64()
}

const (
	// madeKept calls are recorded and madeShown of them are read, because a call that
	// begins during a read overwrites an entry.
	madeKept  = 8
	madeShown = 4
	// madeParts bounds the parts of a channel that are read.
	madeParts = 32
)

// line records the calls of one channel, for the whole group and for each subset that Split
// made. The calling goroutine writes it; any goroutine may read it.
type line struct {
	last  atomic.Pointer[ledger] // ledger of the last call
	parts atomic.Pointer[[]*ledger]
}

// ledger records the calls of one subset, or of the whole group.
type ledger struct {
	group uint32
	seq   atomic.Uint64 // number of the last call; stored after calls
	calls [madeKept]struct{ what, count atomic.Uint64 }
}

// part adds the ledger of a subset.
func (l *line) part(group uint32) *ledger {
	p := &ledger{group: group}
	var all []*ledger
	if old := l.parts.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = append(all, p)
	l.parts.Store(&all)
	return p
}

// record records that a call begins. weighed is the fingerprint of the costs that choose
// its algorithm.
func (l *line) record(p *ledger, tag Tag, weighed uint64) {
	e := &p.calls[tag.Seq%madeKept]
	e.what.Store(uint64(tag.Call) | uint64(tag.Op)<<8 | uint64(tag.Type)<<16 | uint64(tag.Root)<<24 | weighed<<40)
	e.count.Store(tag.Count)
	p.seq.Store(tag.Seq)
	if l.last.Load() != p {
		l.last.Store(p)
	}
}

// at returns a recorded call.
func (p *ledger) at(channel int, seq uint64) Made {
	m := Made{Tag: Tag{Channel: uint16(channel), Group: p.group, Seq: seq}}
	if seq == 0 {
		return m
	}
	e := &p.calls[seq%madeKept]
	w := e.what.Load()
	m.what, m.Tag.Count = w, e.count.Load()
	m.Tag.Call, m.Tag.Op, m.Tag.Type, m.Tag.Root = Call(w), Op(w>>8), Type(w>>16), uint16(w>>24)
	return m
}
