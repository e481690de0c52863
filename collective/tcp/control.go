package tcp

import (
	"os"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/cores"
)

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
				t.recordPeer(int(f.pid))
			}
		}
	}
}

// recordPeer records the process ID of a peer on this host.
func (t *Transport) recordPeer(pid int) {
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
