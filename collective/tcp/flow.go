package tcp

import (
	"io"
	"runtime"

	"github.com/wdlrun/wdlrun/collective"
)

const (
	// segmentBytes is moved at once, so that sending, receiving and joining
	// alternate and what moves stays in a core's cache.
	segmentBytes = 256 << 10
	// polls is how often an exchange looks for progress, giving way to others in
	// between, before it sleeps: some hundred microseconds on an idle machine, ten
	// times what falling asleep and waking up cost. Where ranks outnumber cores,
	// giving way hands the core to the rank that is waited for.
	polls = 200
	// nothing is what a socket has moved if it would have had to wait.
	nothing = -1
)

// flow exchanges frames on the caller's goroutine: a segment out, a segment in,
// as long as either moves. It polls while nothing does, and then sleeps.
func (t *Transport) flow(s *slot, out, in *link, tag collective.Tag) error {
	for idle := 0; ; {
		if !out.sending() && !in.receiving() {
			return nil
		}
		moved, err := t.step(out, in, tag)
		switch {
		case err != nil:
			return err
		case moved:
			idle = 0
		case t.over.Load():
			return t.standing()
		case idle < polls:
			t.pause()
			idle++
		case !s.sleep(out, in):
			return t.judge(out.peer, io.EOF)
		}
	}
}

// step moves a segment each way and reports whether anything moved.
func (t *Transport) step(out, in *link, tag collective.Tag) (moved bool, err error) {
	if out.sending() {
		n, err := out.sock.send(out.vec[0], segment(out.vec[1], 0))
		if err != nil {
			return false, t.judge(out.peer, err)
		}
		if n != nothing {
			out.sent(n)
			moved = true
		}
	}
	if !in.receiving() {
		return moved, nil
	}
	before := in.got
	n, err := in.pull()
	if err != nil {
		return false, t.judge(in.peer, err)
	}
	if before < frameSize && in.got >= frameSize {
		if err := t.compare(in, tag, len(in.recv)); err != nil {
			return false, err
		}
	}
	in.absorb(tag)
	return moved || n > 0, nil
}

// pull receives some more of the frame.
func (l *link) pull() (n int, err error) {
	if l.got < frameSize {
		n, err = l.sock.receive(l.head[l.got:], l.place())
	} else {
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

// sleep waits until something can move, or somebody rouses a socket. It reports
// false if the peer of out has closed its side.
func (s *slot) sleep(out, in *link) bool {
	var o, i *socket
	if !out.sending() {
		out = nil
	} else {
		o = out.sock
	}
	if !in.receiving() {
		in = nil
	} else {
		i = in.sock
	}
	s.block(out, in)
	defer s.unblock()
	return s.waiter.await(o, i)
}

// segment returns the next bytes from at on.
func segment(b []byte, at int) []byte { return b[at:min(len(b), at+segmentBytes)] }
