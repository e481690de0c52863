package tcp

import (
	"github.com/wdlrun/wdlrun/collective"
)

// A message is cut into one part per stream if each part has at least stripeBytes. Each
// part is a frame that a goroutine moves on its stream. Shorter messages use fewer streams,
// the shortest only the first. Both ends know the length and cut alike.

// stripeBytes is the least that is worth waking a goroutine for: 50 µs at 5 GB/s.
const stripeBytes = 256 << 10

// stripes returns the number of streams for a message of n bytes.
func (t *Transport) stripes(n int) int { return max(1, min(t.streams, n/t.stripe)) }

// stripe returns the k-th of n parts of b. Parts are whole elements.
func stripe(b []byte, k, n int) []byte {
	cut := func(k int) int {
		if k == n {
			return len(b)
		}
		return len(b) / n * k &^ (elementBytes - 1)
	}
	return b[cut(k):cut(k+1)]
}

// serve moves the parts of lane k until no more exchanges can begin.
func (t *Transport) serve(s *slot, k int) {
	n := &s.lanes[k]
	for tag := range n.jobs {
		n.done <- t.transfer(s, s.lanes[k:k+1], tag)
	}
}

// open assigns the parts of an exchange to lanes and returns the number of lanes used.
func (t *Transport) open(s *slot, tag collective.Tag, p *collective.Post, join bool) int {
	outs, ins, first, core := 0, 0, int(tag.Channel)*t.streams, t.core()
	if p.To >= 0 {
		outs = t.stripes(len(p.Send))
	}
	if p.From >= 0 {
		ins = t.stripes(len(p.Recv))
	}
	lanes := max(outs, ins)
	for k := range lanes {
		n := &s.lanes[k]
		n.out, n.in = nil, nil
		if k < outs {
			n.out = t.peers[p.To].data[first+k]
			n.out.open(tag, len(p.Send), stripe(p.Send, k, outs), core)
		}
		if k < ins {
			n.in = t.peers[p.From].data[first+k]
			n.in.expect(len(p.Recv), stripe(p.Recv, k, ins), join)
		}
	}
	return lanes
}

// moveLanes moves the parts of all lanes: the first in the caller, the others in their
// goroutines. When it returns, no lane uses the caller's slices.
func (t *Transport) moveLanes(s *slot, tag collective.Tag, lanes int) error {
	for k := 1; k < lanes; k++ {
		s.lanes[k].jobs <- tag
	}
	err := t.transfer(s, s.lanes[:1], tag)
	for k := 1; k < lanes; k++ {
		if other := <-s.lanes[k].done; err == nil {
			err = other
		}
	}
	release(s.lanes[:lanes])
	return err
}

// moveEach moves several exchanges at once, each on its own lane.
func (t *Transport) moveEach(s *slot, tag collective.Tag, posts []collective.Post) error {
	s.reserve(len(posts))
	first, core := int(tag.Channel)*t.streams, t.core()
	for k, p := range posts {
		n, tag := &s.posts[k], tag
		n.out, n.in, n.step = nil, nil, uint32(k)
		tag.Step += n.step
		if p.To >= 0 {
			n.out = t.peers[p.To].data[first]
			n.out.open(tag, len(p.Send), p.Send, core)
		}
		if p.From >= 0 {
			n.in = t.peers[p.From].data[first]
			n.in.expect(len(p.Recv), p.Recv, false)
		}
	}
	err := t.transfer(s, s.posts[:len(posts)], tag)
	release(s.posts[:len(posts)])
	return err
}

// release drops the references to the caller's slices.
func release(lanes []lane) {
	for k := range lanes {
		lanes[k].out.release()
		lanes[k].in.release()
	}
}

// transfer moves the parts of the given lanes.
func (t *Transport) transfer(s *slot, lanes []lane, tag collective.Tag) error {
	if t.direct {
		return t.flow(s, lanes, tag)
	}
	return t.relay(s, lanes, tag)
}
