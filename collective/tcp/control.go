package tcp

import (
	"net"
	"os"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/cores"
)

// controlTime bounds the write of one control frame. Control frames are few and fit into
// the system's buffers, unless the peer has not read for a long time.
const controlTime = time.Second

// control is the control connection to one peer.
type control struct {
	conn   net.Conn
	mu     sync.Mutex
	broken bool // a write failed; the reader returns the error
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

// readPeer reads the control frames of a peer until the connection ends.
func (t *Transport) readPeer(p *peer) {
	for {
		f, err := readControl(p.control.conn)
		if err != nil {
			if !t.closed.Load() && !p.hasLeft() {
				t.end(&collective.LostError{Rank: p.rank, By: t.rank, Cause: err})
			}
			return
		}
		p.lastControl.Store(time.Now().UnixNano())
		switch f.kind {
		case kindAbort:
			t.end(f.cause)
		case kindGoodbye:
			if !p.hasLeft() {
				close(p.left)
			}
		case kindProcess:
			if p.near {
				t.meetMate(int(f.pid))
			}
		}
	}
}

// meetMate records the process ID of a peer on this host.
func (t *Transport) meetMate(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pid == os.Getpid() {
		t.together.Store(true)
	}
	if len(t.mates) == t.near {
		return
	}
	if t.mates = append(t.mates, pid); len(t.mates) == t.near {
		t.roomy.Store(!t.together.Load() && cores.Count(t.mates) > t.near)
	}
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
