package tcp

import (
	"io"
	"runtime"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/cores"
)

const (
	// segmentBytes is moved at once: large, since a call that finds all its bytes
	// there costs less than several that find some, and yet so small that sending and
	// receiving alternate and what moves stays in a core's cache.
	segmentBytes = 1 << 20
	// polls is how often an exchange looks for progress, giving way to others in
	// between, before it sleeps: some hundred microseconds on an idle machine, ten
	// times what falling asleep and waking up cost. Where ranks outnumber cores,
	// giving way hands the core to the rank that is waited for.
	polls = 200
	// spinsMost is how often it looks before, without giving way, where each rank of the
	// host has a core: some thirty microseconds. Who gives way there gives it to another
	// program, for far longer.
	spinsMost = 100
	// apartBytes is up to where a message is worth a core of its own. Larger ones leave
	// ranks where the scheduler has them: on one core they share its caches, and a host
	// was seen whose cores passed lines to each other so slowly that 1.4 MB took twice
	// to three times as long from core to core.
	apartBytes = 64 << 10
	// turnTime is longer than a rank of this group keeps the core that it was given
	// before it waits itself. Then another program has it, which gives it back to who
	// wakes from a sleep, and not to who looks for it now and then.
	turnTime = 500 * time.Microsecond
	// nothing is what a socket has moved if it would have had to wait.
	nothing = -1
)

// flow exchanges frames on the caller's goroutine: a segment out, a segment in, on
// each lane, as long as any moves. It polls while nothing does, and then sleeps.
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

// step moves a segment each way on every lane, all that leave first. It reports
// whether anything moved, and whether anything is to move yet.
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
		some, err := t.take(n.in, n.of(tag))
		if err != nil {
			return false, false, err
		}
		moved, busy = moved || some, busy || n.in.receiving()
	}
	return moved, busy, nil
}

// take receives a segment of the frame of tag, and reports whether there was any.
func (t *Transport) take(in *link, tag collective.Tag) (moved bool, err error) {
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

// core returns the core that this thread runs on, where it may matter.
func (t *Transport) core() uint32 {
	if !t.roomy.Load() {
		return 0
	}
	return cores.Own()
}

// apart returns how often an exchange that waits on these lanes looks before it gives
// way: never where another rank may need this core, or messages are large. A rank that
// waits on the core of one that it waits for moves away, if it has the greater number.
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

// push sends some more of the frame in hand, and reports whether anything moved.
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

// pull receives some more of the frame.
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

// pause lets others run for a moment.
func (t *Transport) pause() {
	if t.together.Load() {
		runtime.Gosched()
	} else {
		yield()
	}
}

// sleep waits until something can move on a lane, or somebody rouses a socket. It
// returns a peer that has closed its side though this rank sends to it, or nil.
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

// segment returns the next bytes from at on.
func segment(b []byte, at int) []byte { return b[at:min(len(b), at+segmentBytes)] }
