package tcp

import (
	"io"
	"runtime"

	"github.com/wdlrun/wdlrun/collective"
)

const (
	// segmentBytes is moved at once, so that sending and receiving alternate and
	// what moves stays in a core's cache.
	segmentBytes = 256 << 10
	// polls is how often an exchange looks for progress before it sleeps: some
	// hundred microseconds on an idle machine, ten times what falling asleep and waking
	// up cost, because ranks that sleep are put on one core by the system.
	polls = 200
)

// flow exchanges frames on the caller's goroutine: a segment out, a segment in,
// as long as either moves. Only when nothing has moved for a while it sleeps.
func (t *Transport) flow(out, in *link, tag collective.Tag, recv []byte) error {
	if in != nil {
		in.got = 0
	}
	handed := false
	for idle := 0; ; {
		sending := out != nil && !handed && out.unsent()
		receiving := in != nil && in.got < frameSize+len(recv)
		if !sending && !receiving {
			break
		}
		wait := idle >= polls && sending != receiving
		n, err := t.step(out, in, sending, receiving, wait, tag, recv)
		if err != nil {
			if handed {
				return out.settle(err)
			}
			if out != nil {
				out.vec = [2][]byte{}
			}
			return err
		}
		if n > 0 {
			idle = 0
			continue
		}
		if idle++; idle < polls {
			if idle%16 == 0 {
				runtime.Gosched() // wakes another thread: dear, but others of this process must run too
			}
			yield()
		} else if sending && receiving {
			if err := out.handOver(); err != nil {
				return err
			}
			handed = true
		}
	}
	if handed {
		return out.settle(nil)
	}
	return nil
}

// step moves a segment each way and returns how many bytes that were.
func (t *Transport) step(out, in *link, sending, receiving, wait bool, tag collective.Tag, recv []byte) (int, error) {
	moved := 0
	if sending {
		n, err := out.sock.send(out.vec[0], segment(out.vec[1], 0), wait)
		if err != nil {
			return 0, t.judge(out.peer, err)
		}
		out.sent(n)
		moved += n
	}
	if !receiving {
		return moved, nil
	}
	before := in.got
	n, err := in.pull(recv, wait)
	if err != nil {
		return 0, t.judge(in.peer, err)
	}
	if before < frameSize && in.got >= frameSize {
		if err := t.compare(in, tag, len(recv)); err != nil {
			return 0, err
		}
	}
	return moved + n, nil
}

// pull receives some more of a frame with the payload recv.
func (l *link) pull(recv []byte, wait bool) (n int, err error) {
	if l.got < frameSize {
		n, err = l.sock.receive(l.head[l.got:], segment(recv, 0), wait)
	} else {
		n, err = l.sock.receive(segment(recv, l.got-frameSize), nil, wait)
	}
	if err == io.EOF && l.got > 0 {
		err = io.ErrUnexpectedEOF
	}
	l.got += n
	return n, err
}

// segment returns the next bytes from at on.
func segment(b []byte, at int) []byte { return b[at:min(len(b), at+segmentBytes)] }
