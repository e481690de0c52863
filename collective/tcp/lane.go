package tcp

import "github.com/wdlrun/wdlrun/collective"

// A message of stripeBytes a stream or more is cut into as many parts as there are
// streams, each of which moves as a frame of its own on its stream, by a goroutine
// of its own. Shorter ones take fewer streams, the least the first alone. Both ends
// know the length, and cut alike.

// stripeBytes is the least that is worth waking a goroutine for: at 5 GB/s, 50 µs.
const stripeBytes = 256 << 10

// lane is what one stream carries of the exchange in progress on a channel.
type lane struct {
	out, in *link // nil: nothing
	waiter  waiter

	// The lane sleeps until one of them moves; mu of the slot guards them.
	blockedOut, blockedIn bool

	jobs chan collective.Tag // of an exchange, for lanes that a goroutine serves
	done chan error          // its outcome; holds one
}

// stripes returns how many streams a message of n bytes takes.
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

// serve moves what a lane carries until no exchange can begin any more.
func (t *Transport) serve(s *slot, n *lane) {
	for tag := range n.jobs {
		n.done <- t.transfer(s, n, tag)
	}
}

// open gives the lanes their parts of an exchange, and returns how many have one.
func (t *Transport) open(s *slot, tag collective.Tag, to *peer, send []byte, from *peer, recv []byte, join bool) int {
	outs, ins, first := 0, 0, int(tag.Channel)*t.streams
	if to != nil {
		outs = t.stripes(len(send))
	}
	if from != nil {
		ins = t.stripes(len(recv))
	}
	lanes := max(outs, ins)
	for k := range lanes {
		n := &s.lanes[k]
		n.out, n.in = nil, nil
		if k < outs {
			n.out = to.data[first+k]
			n.out.open(tag, len(send), stripe(send, k, outs))
		}
		if k < ins {
			n.in = from.data[first+k]
			n.in.expect(len(recv), stripe(recv, k, ins), join)
		}
	}
	return lanes
}

// carry moves what all lanes carry: the first by the caller, the others by theirs.
// All have let go of the caller's slices when it returns.
func (t *Transport) carry(s *slot, tag collective.Tag, lanes int) error {
	for k := 1; k < lanes; k++ {
		s.lanes[k].jobs <- tag
	}
	err := t.transfer(s, &s.lanes[0], tag)
	for k := 1; k < lanes; k++ {
		if other := <-s.lanes[k].done; err == nil {
			err = other
		}
	}
	for k := range lanes {
		s.lanes[k].out.release()
		s.lanes[k].in.release()
	}
	return err
}
