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
// will be for ever. On secured links only waits for a frame to come are followed:
// who writes to one cannot tell when the system has taken the last byte.

// probe is a question on its way.
type probe struct {
	origin int            // the rank that began it
	number uint64         // of the probes of origin on the channel
	tag    collective.Tag // of the exchange that its sender sleeps in
	frame  uint64         // that its sender waits for, counted by link and direction
	taken  bool           // it waits for the frame to be taken; else, to come

	// Two ranks that it has passed one after the other in different calls.
	differ      bool
	first, then waitingRank
}

type waitingRank struct {
	rank int
	tag  collective.Tag
}

// probeSize is the length of an encoded probe.
const probeSize = 4 + 8 + 8 + 4 + 3*collective.TagSize + 2*4

// Bits of an encoded probe.
const (
	probeTaken = 1 << iota
	probeDiffer
)

func (f probe) append(b []byte) []byte {
	flags := uint32(0)
	if f.taken {
		flags |= probeTaken
	}
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
	if flags&^(probeTaken|probeDiffer) != 0 {
		return f, fmt.Errorf("probe frame with flags %#x", flags)
	}
	f.origin, f.number = int(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint64(b[4:])
	f.frame, f.taken, f.differ = binary.LittleEndian.Uint64(b[12:]), flags&probeTaken != 0, flags&probeDiffer != 0
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
	out, in := s.pass(&f)
	s.mu.Unlock()
	t.send(f, out, in)
}

// edge is a rank that an exchange waits for, and the frame.
type edge struct {
	peer  *peer
	frame uint64
}

// pass makes f the question of the exchange, and returns whom to ask. The caller
// holds mu.
func (s *slot) pass(f *probe) (out, in edge) {
	if !s.waiting || !s.blocked {
		return out, in
	}
	f.tag = s.tag
	if s.out != nil {
		out = edge{s.out.peer, s.out.sends}
	}
	if s.in != nil {
		in = edge{s.in.peer, s.in.awaits}
	}
	return out, in
}

func (t *Transport) send(f probe, out, in edge) {
	for i, e := range [2]edge{out, in} {
		if e.peer == nil {
			continue
		}
		f.frame, f.taken = e.frame, i == 0
		e.peer.control.write(appendControl(nil, kindProbe, f.append(nil)))
	}
}

// chase handles a probe of rank p: it ends the group if the probe has come round,
// and passes it on if this rank is on its way.
func (t *Transport) chase(p *peer, f probe) {
	if int(f.tag.Channel) >= len(t.slots) || f.origin >= t.size {
		return
	}
	s, l := &t.slots[f.tag.Channel], p.data[f.tag.Channel]
	s.mu.Lock()
	begun := l.sends
	if f.taken {
		begun = l.awaits
	}
	if !s.waiting || !s.blocked || begun >= f.frame {
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
	var out, in edge
	if !back && !known {
		s.chased[f.origin] = f.number
		out, in = s.pass(&f)
	}
	s.mu.Unlock()
	if back && f.differ { // else all are in one call, whose schedule has no circle
		t.end(&collective.MismatchError{
			Peer: collective.Side{Rank: f.then.rank, Tag: f.then.tag, Bytes: -1},
			Own:  collective.Side{Rank: f.first.rank, Tag: f.first.tag, Bytes: -1},
		})
	}
	t.send(f, out, in)
}
