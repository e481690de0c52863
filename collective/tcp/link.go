package tcp

import (
	"bufio"
	"fmt"
	"io"
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

// link is one stream for the data of one channel with one peer. It has either sock, on
// which the caller of Exchange sends and receives, or conn, on which the caller receives
// and a writer goroutine sends. A secured link with sock also has conn and under, through
// which its bytes pass.
type link struct {
	peer  *peer
	sock  *socket
	conn  net.Conn
	under *pipe

	packets, again uint32 // counters of sock at the last call of Resent

	jobs    chan struct{} // a value makes the writer send vec
	done    chan error    // result of the writer; holds one
	stopped chan struct{} // closed when the writer has ended

	out  []byte    // header, or a whole small frame
	vec  [2][]byte // unsent rest of the current frame
	bufs net.Buffers

	head   [frameSize]byte // of the frame being received
	theirs uint32          // core of the peer at its last frame; 0: unknown
	length int             // of the whole message, of which the payload is a part
	recv   []byte          // destination of the payload
	got    int             // bytes of the frame received so far
	join   bool            // the payload is joined with recv instead of overwriting it
	landed []byte          // buffer for a payload that is joined
	joined int             // bytes of the payload joined so far
	r      *bufio.Reader   // of conn
}

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

// enqueue passes the current frame to the writer; settle waits for it.
func (l *link) enqueue() error {
	select {
	case l.jobs <- struct{}{}:
		return nil
	case <-l.stopped:
		return collective.ErrClosed
	}
}

// settle returns when the writer no longer uses the current frame.
func (l *link) settle(err error) error {
	if werr := <-l.done; err == nil {
		return werr
	}
	return err
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
			err = out.settle(err)
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
