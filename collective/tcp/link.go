package tcp

import (
	"bufio"
	"fmt"
	"net"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

const (
	readAhead  = 4 << 10 // a small frame needs one read
	smallFrame = 4 << 10 // largest payload that is copied behind its header and sent with it

	landBytes    = 256 << 10 // piece of a payload that is joined at once: smaller than a core's cache
	elementBytes = 8         // size of the largest element
)

func newLink(p *peer, conn net.Conn) (*link, error) {
	l := &link{peer: p, out: make([]byte, 0, frameSize+smallFrame)}
	bare := conn
	sealed, ok := conn.(*secured)
	if ok {
		bare = sealed.under.TCPConn
	}
	var err error
	if l.sock, err = takeSocket(bare); err != nil {
		return nil, fmt.Errorf("link with rank %d: %w", p.rank, err)
	}
	switch {
	case l.sock != nil && ok:
		l.conn, l.under = sealed.Conn, sealed.under
		l.under.sock = l.sock
		return l, nil
	case l.sock != nil:
		return l, nil
	}
	l.conn = conn
	l.jobs, l.done, l.stopped = make(chan struct{}), make(chan error, 1), make(chan struct{})
	l.r = bufio.NewReaderSize(conn, readAhead)
	return l, nil
}

// interrupt ends every wait for the link, current and future.
func (l *link) interrupt() {
	if l.sock != nil {
		l.sock.interrupt()
	} else {
		l.conn.SetDeadline(time.Unix(1, 0))
	}
}

func (l *link) close() {
	if l.sock != nil {
		l.sock.close()
	} else {
		l.conn.Close()
	}
}

// open makes part of a message the current frame to send.
func (l *link) open(tag collective.Tag, length int, data []byte, core uint32) {
	l.out = appendFrame(l.out[:0], tag, length, core)
	if len(data) <= smallFrame {
		l.out, data = append(l.out, data...), nil
	}
	l.vec = [2][]byte{l.out, data}
}

// sent removes the first n bytes from the current frame.
func (l *link) sent(n int) {
	k := min(n, len(l.vec[0]))
	l.vec[0], l.vec[1] = l.vec[0][k:], l.vec[1][n-k:]
}

func (l *link) sending() bool {
	return l != nil && (len(l.vec[0])+len(l.vec[1]) > 0 || l.under != nil && l.under.pending())
}

// expect makes recv the destination of the payload of the next frame.
func (l *link) expect(length int, recv []byte, join bool) {
	l.length, l.recv, l.join, l.got, l.joined = length, recv, join, 0, 0
	if join && l.landed == nil {
		l.landed = make([]byte, landBytes)
	}
}

func (l *link) receiving() bool { return l != nil && l.got < frameSize+len(l.recv) }

// place returns the buffer for the next bytes of the payload, at most a segment.
func (l *link) place() []byte {
	at := max(l.got-frameSize, 0)
	if !l.join {
		return segment(l.recv, at)
	}
	kept := at - l.joined
	return l.landed[kept:min(len(l.landed), kept+len(l.recv)-at)]
}

// absorb joins the whole elements that have arrived, while they are still in the core's
// cache and the rest is in transit.
func (l *link) absorb(tag collective.Tag) {
	kept := l.got - frameSize - l.joined
	if !l.join || kept <= 0 {
		return
	}
	whole := kept
	if l.receiving() {
		whole &^= elementBytes - 1
	}
	collective.Join(tag, l.recv[l.joined:l.joined+whole], l.landed[:whole])
	copy(l.landed, l.landed[whole:kept])
	l.joined += whole
}

// release drops the references to the caller's slices.
func (l *link) release() {
	if l != nil {
		l.vec, l.recv = [2][]byte{}, nil
	}
}

// write sends the rest of the current frame, without a time limit.
func (l *link) write() error {
	if len(l.vec[0]) == 0 {
		l.vec[0], l.vec[1] = l.vec[1], nil
	}
	var err error
	if len(l.vec[1]) == 0 {
		_, err = l.conn.Write(l.vec[0])
	} else {
		l.bufs = l.vec[:]
		_, err = l.bufs.WriteTo(l.conn)
	}
	return err
}

// enqueue passes the current frame to the writer; settle waits for it.
func (l *link) enqueue() error {
	select {
	case l.jobs <- struct{}{}:
		return nil
	case <-l.stopped:
		return collective.ErrClosed
	}
}

// waitWriter returns when the writer no longer uses the current frame.
func (l *link) waitWriter(err error) error {
	if werr := <-l.done; err == nil {
		return werr
	}
	return err
}

// segment returns the segment of b that starts at at.
func segment(b []byte, at int) []byte { return b[at:min(len(b), at+segmentBytes)] }

func (p *pipe) pending() bool { return p.at < len(p.kept) }
