package tcp

import (
	"io"

	"github.com/wdlrun/wdlrun/collective"
)

// writer sends the frames of enqueue until quit is closed.
func (t *Transport) writer(l *link) {
	defer close(l.stopped)
	for {
		select {
		case <-l.jobs:
			err := l.write()
			if err != nil {
				err = t.judge(l.peer, err)
			}
			l.done <- err
		case <-t.quit:
			return
		}
	}
}

// relay exchanges frames over connections without a socket.
func (t *Transport) relay(s *slot, lanes []lane, tag collective.Tag) error {
	var err error
	handed := 0
	for ; handed < len(lanes) && err == nil; handed++ {
		if out := lanes[handed].out; out != nil {
			if err = out.enqueue(); err != nil {
				break
			}
		}
	}
	for k := range lanes {
		if n := &lanes[k]; n.in != nil && err == nil {
			s.block(lanes[k:k+1], false, true)
			err = t.receive(n.in, n.of(tag))
			s.block(lanes[k:k+1], false, false)
		}
	}
	for k := range handed { // also after an error: the writers must release the caller's slices
		if out := lanes[k].out; out != nil {
			err = out.waitWriter(err)
		}
	}
	return err
}

// receive reads the expected frame.
func (t *Transport) receive(l *link, tag collective.Tag) error {
	if _, err := io.ReadFull(l.r, l.head[:]); err != nil {
		return t.judge(l.peer, err)
	}
	if err := t.compare(l, tag); err != nil {
		return err
	}
	for l.got = frameSize; l.receiving(); l.absorb(tag) {
		n, err := io.ReadFull(l.r, l.place())
		if err != nil {
			return t.judge(l.peer, err)
		}
		l.got += n
	}
	return nil
}

// compare ends the group if the received header is not the expected one.
func (t *Transport) compare(l *link, tag collective.Tag) error {
	theirs, n, core, err := parseFrame(l.head[:])
	if err != nil {
		return t.end(&collective.LostError{Rank: l.peer.rank, By: t.rank, Cause: err})
	}
	l.theirs = core
	if theirs != tag || n != int64(l.length) {
		return t.end(&collective.MismatchError{
			Peer: collective.Side{Rank: l.peer.rank, Tag: theirs, Bytes: n},
			Own:  collective.Side{Rank: t.rank, Tag: tag, Bytes: int64(l.length)},
		})
	}
	return nil
}
