package tcp

import (
	"io"
	"runtime"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/cores"
)

const (
	// polls is how often an exchange polls, yielding in between, before it sleeps. This
	// takes some hundred microseconds on an idle machine, ten times the cost of a sleep and
	// a wake-up. If ranks outnumber cores, yielding passes the core to the rank waited for.
	polls = 200
	// spinsMost is how often an exchange polls first, without yielding, if each rank of the
	// host has a core. This takes about thirty microseconds. A yield would pass the core to
	// another program, for much longer.
	spinsMost = 100
	// apartBytes is the largest message for which ranks move to different cores. For larger
	// messages they stay where the scheduler has placed them: on one core they share its
	// caches. On one host, cores passed cache lines so slowly that 1.4 MB took two to three
	// times as long between cores.
	apartBytes = 64 << 10
	// turnTime is longer than a rank of this group keeps a core before it waits itself. If
	// a yield takes longer, another program has the core. The scheduler then prefers a
	// thread that wakes from a sleep to one that polls.
	turnTime = 500 * time.Microsecond
)

// flow exchanges frames on the caller's goroutine. It alternates between sending and
// receiving a segment on each lane while any bytes move. It then polls, and then sleeps.
func (t *Transport) flow(s *slot, lanes []lane, tag collective.Tag) error {
	spins := 0
	for idle := 0; ; {
		moved, busy, err := t.step(lanes, tag)
		switch {
		case err != nil:
			return err
		case !busy:
			return nil
		case moved:
			idle = 0
		case t.over.Load():
			return t.standing()
		case idle == 0:
			spins = t.apart(lanes)
			idle++
		case idle <= spins:
			idle++
		case idle <= spins+polls:
			begin := time.Now()
			t.pause()
			if idle++; time.Since(begin) > turnTime {
				idle += polls
			}
		default:
			if gone := s.sleep(lanes); gone != nil {
				return t.judge(gone, io.EOF)
			}
		}
	}
}

// step moves a segment each way on every lane; all lanes send before any receives. It
// reports whether anything moved, and whether anything is left to move.
func (t *Transport) step(lanes []lane, tag collective.Tag) (moved, busy bool, err error) {
	for k := range lanes {
		if out := lanes[k].out; out.sending() {
			some, err := out.push()
			if err != nil {
				return false, false, t.judge(out.peer, err)
			}
			moved, busy = moved || some, busy || out.sending()
		}
	}
	for k := range lanes {
		n := &lanes[k]
		if !n.in.receiving() {
			continue
		}
		some, err := t.receiveSegment(n.in, n.of(tag))
		if err != nil {
			return false, false, err
		}
		moved, busy = moved || some, busy || n.in.receiving()
	}
	return moved, busy, nil
}

// receiveSegment receives a segment of the frame of tag and reports whether any bytes arrived.
func (t *Transport) receiveSegment(in *link, tag collective.Tag) (moved bool, err error) {
	before := in.got
	n, err := in.pull()
	if err != nil {
		return false, t.judge(in.peer, err)
	}
	if before < frameSize && in.got >= frameSize {
		if err := t.compare(in, tag); err != nil {
			return false, err
		}
	}
	in.absorb(tag)
	return n > 0, nil
}

// core returns the number of this thread's core, or 0 if the ranks share cores.
func (t *Transport) core() uint32 {
	if !t.roomy.Load() {
		return 0
	}
	return cores.Own()
}

// apart returns how often an exchange on these lanes polls before it yields. It returns 0
// if another rank may need this core or if messages are large. If a rank shares its core
// with the rank that it waits for, the higher of the two moves to another core.
func (t *Transport) apart(lanes []lane) (spins int) {
	own := t.core()
	if own == 0 {
		return 0
	}
	for k := range lanes {
		in := lanes[k].in
		switch {
		case !in.receiving():
		case !in.peer.near || in.length > apartBytes:
			return 0
		case in.theirs == own:
			if t.rank > in.peer.rank {
				lanes[0].mover.Leave(own)
			}
			return 0
		}
	}
	return spinsMost
}

// push sends more of the current frame and reports whether any bytes moved.
func (l *link) push() (moved bool, err error) {
	if l.under != nil {
		return l.seal()
	}
	n, err := l.sock.send(l.vec[0], segment(l.vec[1], 0))
	if err != nil || n == nothing {
		return false, err
	}
	l.sent(n)
	return true, nil
}

// pull receives more of the current frame and returns the number of bytes.
func (l *link) pull() (n int, err error) {
	switch {
	case l.under != nil:
		n, err = l.unseal()
	case l.got < frameSize:
		n, err = l.sock.receive(l.head[l.got:], l.place())
	default:
		n, err = l.sock.receive(l.place(), nil)
	}
	if err == io.EOF && l.got > 0 {
		err = io.ErrUnexpectedEOF
	}
	n = max(n, 0)
	l.got += n
	return n, err
}

// pause yields once.
func (t *Transport) pause() {
	if t.together.Load() {
		runtime.Gosched()
	} else {
		yield()
	}
}

// sleep waits until bytes can move on a lane or a socket is roused. It returns a peer that
// has closed its side while this rank sends to it, or nil.
func (s *slot) sleep(lanes []lane) (gone *peer) {
	w := &lanes[0].waiter
	w.reset()
	for k := range lanes {
		if out := lanes[k].out; out.sending() {
			w.add(out.sock, true)
		}
		if in := lanes[k].in; in.receiving() {
			w.add(in.sock, false)
		}
	}
	s.block(lanes, true, true)
	closed := w.await()
	s.block(lanes, false, false)
	if closed == nil {
		return nil
	}
	for k := range lanes {
		if out := lanes[k].out; out.sending() && out.sock == closed {
			gone = out.peer
		}
	}
	return gone
}
