package shm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
)

// headBytes is the length of the header of a message in a ring: its tag and length.
const headBytes = collective.TagSize + 8

// flow is one direction of an exchange: a message of head and body that moves through a
// ring.
type flow struct {
	ring *ring
	peer *peer // nil: nothing to move
	far  *desk // desk of the peer
	at   uint64
	head [headBytes]byte
	body []byte
	done int // bytes of head and body moved
}

func (f *flow) over() bool { return f.peer == nil || f.done == headBytes+len(f.body) }

// peerLeft reports whether the peer has left before all bytes have moved.
func (f *flow) peerLeft() bool { return !f.over() && f.peer.hasLeft() }

// Exchange implements [collective.Transport].
func (t *Transport) Exchange(tag collective.Tag, to int, send []byte, from int, recv []byte) error {
	if int(tag.Channel) >= t.channels || to >= t.size || from >= t.size || to == t.rank || from == t.rank {
		panic(fmt.Sprintf("shm: exchange on channel %d of rank %d with ranks %d and %d, of %d", tag.Channel, t.rank, to, from, t.size))
	}
	s, err := t.enter(tag)
	if err != nil {
		return err
	}
	defer s.in.Store(false)
	var out, in flow
	if to >= 0 {
		if err := t.allocateRing(s, int(tag.Channel), to); err != nil {
			return t.end(collective.Cause(t.rank, err))
		}
		out = flow{ring: t.page.ring(int(tag.Channel), to), peer: t.peers[to], far: s.desks[to], body: send}
		out.at = out.ring.sent.Load()
		binary.LittleEndian.PutUint64(tag.Append(out.head[:0])[:headBytes][collective.TagSize:], uint64(len(send)))
	}
	if from >= 0 {
		in = flow{ring: t.peers[from].page.ring(int(tag.Channel), t.rank), peer: t.peers[from], far: s.desks[from], body: recv}
		in.at = in.ring.taken.Load()
	}
	for idle := 0; !out.over() || !in.over(); {
		moved, err := t.move(tag, &out, &in)
		switch {
		case err != nil:
			return err
		case moved:
			idle = 0
		default:
			idle++
			if err := t.idle(s, &out, &in, idle); err != nil {
				return err
			}
		}
	}
	return nil
}

// allocateRing allocates the pages of a ring before its first use. P ranks have
// P·(P−1) rings per channel, and most are never used.
func (t *Transport) allocateRing(s *slot, channel, to int) error {
	if s.rings[to] {
		return nil
	}
	begin := t.page.ringStart(channel, to)
	if err := t.page.populate(begin, begin+ringSize); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: all of the page is allocated
		return fmt.Errorf("shm: memory of %d bytes for messages to rank %d: %w", ringSize, to, err)
	}
	s.rings[to] = true
	return nil
}

// move moves the bytes that can move without waiting.
func (t *Transport) move(tag collective.Tag, out, in *flow) (moved bool, err error) {
	if !out.over() {
		if out.push() {
			moved = true
		}
	}
	if !in.over() {
		before := in.done
		if in.receive() {
			moved = true
		}
		if before < headBytes && in.done >= headBytes {
			err = t.compare(tag, in)
		}
	}
	return moved, err
}

// compare ends the group if the arriving message is not the expected one.
func (t *Transport) compare(tag collective.Tag, in *flow) error {
	theirs, err := collective.ParseTag(in.head[:collective.TagSize])
	if err != nil {
		return t.end(&collective.LostError{Rank: in.peer.rank, By: t.rank, Cause: err})
	}
	n := binary.LittleEndian.Uint64(in.head[collective.TagSize:])
	if theirs == tag && n == uint64(len(in.body)) {
		return nil
	}
	return t.end(&collective.MismatchError{
		Peer: collective.Side{Rank: in.peer.rank, Tag: theirs, Bytes: int64(n)},
		Own:  collective.Side{Rank: t.rank, Tag: tag, Bytes: int64(len(in.body))},
	})
}

// push writes as many bytes as the ring can hold.
func (f *flow) push() bool {
	room := ringBytes - int(f.at-f.ring.taken.Load())
	start := f.at
	for room > 0 && !f.over() {
		src := f.remaining()
		i := int(f.at % ringBytes)
		n := copy(f.ring.data[i:min(ringBytes, i+room)], src)
		f.at, f.done, room = f.at+uint64(n), f.done+n, room-n
	}
	if f.at == start {
		return false
	}
	f.ring.sent.Store(f.at)
	f.ringBell()
	return true
}

// receive reads the bytes of the message that are in the ring. It reads the head separately,
// so that the body is only read if it is the expected one.
func (f *flow) receive() bool {
	have := min(int(f.ring.sent.Load()-f.at), ringBytes)
	start, head := f.at, f.done < headBytes
	for have > 0 && !f.over() && head == (f.done < headBytes) {
		dst := f.remaining()
		i := int(f.at % ringBytes)
		n := copy(dst, f.ring.data[i:min(ringBytes, i+have)])
		f.at, f.done, have = f.at+uint64(n), f.done+n, have-n
	}
	if f.at == start {
		return false
	}
	f.ring.taken.Store(f.at)
	f.ringBell()
	return true
}

// remaining returns the bytes of the head that have not moved yet, then the bytes of the body.
func (f *flow) remaining() []byte {
	if f.done < headBytes {
		return f.head[f.done:]
	}
	return f.body[f.done-headBytes:]
}

// ringBell wakes the peer if it sleeps.
func (f *flow) ringBell() {
	if f.far.asleep.Load() != 0 {
		f.far.bell.Add(1)
		wakeAll(&f.far.bell)
	}
}

// idle waits for a moment until either flow can move. It yields first, then sleeps.
func (t *Transport) idle(s *slot, out, in *flow, turn int) error {
	if turn < yields && !t.over.Load() {
		t.yield(turn)
		return nil
	}
	if err := t.standing(); err != nil {
		return err
	}
	lost := in
	if out.peerLeft() {
		lost = out
	}
	if lost.peerLeft() && !t.canMove(out, in) {
		return t.end(&collective.LostError{Rank: lost.peer.rank, By: t.rank, Cause: collective.ErrLeft})
	}
	bell := s.mine.bell.Load()
	s.sleeping.Store(&s.mine.bell)
	s.mine.asleep.Store(1)
	if !t.canMove(out, in) && !t.over.Load() {
		sleep(&s.mine.bell, bell)
	}
	s.mine.asleep.Store(0)
	s.sleeping.Store(nil)
	return t.standing()
}

// canMove reports whether either flow can move bytes now.
func (t *Transport) canMove(out, in *flow) bool {
	return !out.over() && out.at-out.ring.taken.Load() < ringBytes || !in.over() && in.ring.sent.Load() != in.at
}
