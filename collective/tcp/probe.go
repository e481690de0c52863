package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/calls"
)

// Ranks that are in different calls may wait for each other in a circle without
// one of them ever seeing a message of the other call. Probes find the circle
// (Chandy, Misra and Haas, "Distributed deadlock detection", 1983, the AND
// model): a rank that sleeps in an exchange asks those that it waits for, and one
// that sleeps too passes the question on to those that it waits for itself. A
// probe that comes back has gone round a circle.
//
// A probe counts only if the frame that its sender waits for has not even been
// begun by who gets it. So whoever passes it on still keeps its sender waiting,
// and when it is back all of the circle have been asleep since it passed them, and
// will be for ever. A rank that meets others elsewhere (Elsewhere) waits for those who
// have not begun that meeting; meetings are counted alike by all who come to them.
//
// Where a writer sends (link.go), only waits for a frame to come are
// followed: the caller cannot tell when the system has taken the last byte.

// probe is a question on its way.
type probe struct {
	origin int            // the rank that began it
	number uint64         // of the probes of origin on the channel
	tag    collective.Tag // of the exchange that its sender sleeps in
	frame  uint64         // that its sender waits for, counted by link and direction; or meeting
	what   await          // it waits for that

	// Two ranks that it has passed one after the other in different calls.
	differ      bool
	first, then waitingRank
}

// await is what a rank waits for another to do.
type await uint8

const (
	toSend await = iota // the frame
	toTake              // the frame
	toMeet              // elsewhere
	awaits
)

type waitingRank struct {
	rank int
	tag  collective.Tag
}

// probeSize is the length of an encoded probe.
const probeSize = 4 + 8 + 8 + 4 + 3*collective.TagSize + 2*4

// Of the flags of an encoded probe, the first two bits are what it waits for.
const (
	probeAwait  = 3
	probeDiffer = 4
)

func (f probe) append(b []byte) []byte {
	flags := uint32(f.what)
	if f.differ {
		flags |= probeDiffer
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(f.origin))
	b = binary.LittleEndian.AppendUint64(b, f.number)
	b = binary.LittleEndian.AppendUint64(b, f.frame)
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = f.tag.Append(b)
	for _, w := range []waitingRank{f.first, f.then} {
		b = binary.LittleEndian.AppendUint32(b, uint32(w.rank))
		b = w.tag.Append(b)
	}
	return b
}

func parseProbe(b []byte) (f probe, err error) {
	if len(b) != probeSize {
		return f, fmt.Errorf("probe frame of %d bytes", len(b))
	}
	flags := binary.LittleEndian.Uint32(b[20:])
	if flags&^(probeAwait|probeDiffer) != 0 || flags&probeAwait >= uint32(awaits) {
		return f, fmt.Errorf("probe frame with flags %#x", flags)
	}
	f.origin, f.number = int(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint64(b[4:])
	f.frame, f.what, f.differ = binary.LittleEndian.Uint64(b[12:]), await(flags&probeAwait), flags&probeDiffer != 0
	if f.tag, err = collective.ParseTag(b[24 : 24+collective.TagSize]); err != nil {
		return f, err
	}
	rest := b[24+collective.TagSize:]
	for _, w := range []*waitingRank{&f.first, &f.then} {
		w.rank = int(binary.LittleEndian.Uint32(rest))
		if w.tag, err = collective.ParseTag(rest[4 : 4+collective.TagSize]); err != nil {
			return f, err
		}
		rest = rest[4+collective.TagSize:]
	}
	return f, nil
}

// probe asks those that the exchange of s waits for whether they wait themselves.
func (t *Transport) probe(s *slot) {
	s.mu.Lock()
	s.probes++
	f := probe{origin: t.rank, number: s.probes}
	edges := t.pass(s, &f)
	s.mu.Unlock()
	t.send(f, edges)
}

// edge is a rank that this one waits for, what to do, and for which frame.
type edge struct {
	peer  *peer
	what  await
	frame uint64
}

// pass makes f the question of what this rank waits for, and returns whom to ask.
// The caller holds mu of s.
func (t *Transport) pass(s *slot, f *probe) (edges []edge) {
	f.tag = s.tag
	for _, lanes := range [2][]lane{s.lanes, s.posts} {
		for k := range lanes {
			n := &lanes[k]
			if s.waiting && n.blockedOut {
				edges = append(edges, edge{n.out.peer, toTake, n.out.peer.begun[s.tag.Channel].sends})
			}
			if s.waiting && n.blockedIn {
				edges = append(edges, edge{n.in.peer, toSend, n.in.peer.begun[s.tag.Channel].awaits})
			}
		}
	}
	for _, r := range s.mates {
		if r != t.rank {
			edges = append(edges, edge{t.peers[r], toMeet, s.meetings})
		}
	}
	return edges
}

func (t *Transport) send(f probe, edges []edge) {
	for _, e := range edges {
		f.what, f.frame = e.what, e.frame
		e.peer.control.write(appendControl(nil, kindProbe, f.append(nil)))
	}
}

// chase handles a probe of rank p: it ends the group if the probe has come round,
// and passes it on if this rank is on its way.
func (t *Transport) chase(p *peer, f probe) {
	if int(f.tag.Channel) >= len(t.slots) || f.origin >= t.size {
		return
	}
	s := &t.slots[f.tag.Channel]
	s.mu.Lock()
	begun := [awaits]uint64{p.begun[f.tag.Channel].sends, p.begun[f.tag.Channel].awaits, s.meetings}[f.what]
	if !s.blocked() && s.mates == nil || begun >= f.frame {
		s.mu.Unlock()
		return
	}
	if !f.differ && !calls.Alike(f.tag, s.tag) {
		f.differ, f.first, f.then = true, waitingRank{p.rank, f.tag}, waitingRank{t.rank, s.tag}
	}
	if s.chased == nil {
		s.chased = make([]uint64, t.size)
	}
	back, known := f.origin == t.rank, s.chased[f.origin] >= f.number
	var edges []edge
	if !back && !known {
		s.chased[f.origin] = f.number
		edges = t.pass(s, &f)
	}
	s.mu.Unlock()
	if back && f.differ { // else all are in one call, whose schedule has no circle
		t.end(&collective.MismatchError{
			Peer: collective.Side{Rank: f.then.rank, Tag: f.then.tag, Bytes: -1},
			Own:  collective.Side{Rank: f.first.rank, Tag: f.first.tag, Bytes: -1},
		})
	}
	t.send(f, edges)
}
