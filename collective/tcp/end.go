package tcp

import (
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

// standing returns the error that ended the group or this rank, or nil.
func (t *Transport) standing() error {
	if t.closed.Load() {
		return collective.ErrClosed
	}
	select {
	case <-t.ended:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.cause
	default:
		return nil
	}
}

// end ends the group with cause unless it has ended. It sends the cause to every peer and
// wakes every exchange of this rank. It returns the first cause after all peers have been
// informed, so that the caller may exit at once.
func (t *Transport) end(cause error) error {
	t.mu.Lock()
	if t.cause != nil {
		defer t.mu.Unlock()
		return t.cause
	}
	t.cause = cause
	t.sendAll(kindAbort, collective.AppendCause(nil, cause))
	close(t.ended)
	t.mu.Unlock()
	t.interrupt()
	return cause
}

// interrupt ends the wait of every exchange so that it returns the end of the group or of this rank.
func (t *Transport) interrupt() {
	t.over.Store(true)
	t.linksMu.Lock()
	defer t.linksMu.Unlock()
	if t.gone {
		return
	}
	for _, p := range t.peers {
		if p == nil {
			continue
		}
		for _, l := range p.data {
			l.interrupt()
		}
	}
}

// judge determines why the data connection with p broke with err, and ends the group for
// that reason.
func (t *Transport) judge(p *peer, err error) error {
	if t.closed.Load() {
		return collective.ErrClosed
	}
	for range judgeLooks {
		select {
		case <-t.quit:
			return collective.ErrClosed
		case <-t.ended:
			return t.standing()
		case <-p.left:
			return t.end(&collective.LostError{Rank: p.rank, By: t.rank, Cause: collective.ErrLeft})
		case <-time.After(judgePause):
		}
	}
	return t.end(&collective.LostError{Rank: p.rank, By: t.rank, Cause: err})
}

// sendAll sends a control frame to every peer.
func (t *Transport) sendAll(k kind, payload []byte) {
	frame := controlOf(k, payload)
	for _, p := range t.peers {
		if p != nil && !p.hasLeft() {
			p.control.write(frame)
		}
	}
}

// write sends a whole frame. If it fails, the connection is broken as well, and its reader
// reports that.
func (c *control) write(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return
	}
	c.conn.SetWriteDeadline(time.Now().Add(controlTime))
	if _, err := c.conn.Write(frame); err != nil {
		c.broken = true
	}
}

// controlTime bounds the write of one control frame. Control frames are few and fit into
// the system's buffers, unless the peer has not read for a long time.
const controlTime = time.Second

// A broken data connection waits half a second for the control connection to report the
// cause. It checks often, so that a process that was stopped meanwhile still reads the
// messages that have arrived.
const (
	judgePause = 50 * time.Millisecond
	judgeLooks = 10
)
