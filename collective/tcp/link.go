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
	readAhead  = 4 << 10 // a small frame comes in one read
	smallFrame = 4 << 10 // a payload up to here is copied behind its header to leave in one piece

	landBytes    = 256 << 10 // lands at once of a payload that is joined: less than a core's cache
	elementBytes = 8         // the largest element
)

// link is one stream for the data of one channel with one peer: either sock, on
// which the caller of Exchange sends and receives, or conn, on which it only
// receives, and the writer, a goroutine, sends. A secured link that has sock also
// has conn and under, through which its bytes pass.
type link struct {
	peer  *peer
	sock  *socket
	conn  net.Conn
	under *pipe

	jobs    chan struct{} // the writer is to send vec
	done    chan error    // with what outcome; holds one
	stopped chan struct{} // closed when the writer has ended

	out  []byte    // header, or small frame
	vec  [2][]byte // what of the frame in hand is to be sent yet
	bufs net.Buffers

	head   [frameSize]byte // of the frame being received
	theirs uint32          // core that the peer ran on when it sent the last frame; 0: not told
	length int             // of the message, of which it has a part
	recv   []byte          // where its payload goes
	got    int             // bytes of the frame so far
	join   bool            // the payload is joined with recv instead of overwriting it
	landed []byte          // where a payload arrives that is to be joined
	joined int             // bytes of the payload that have been
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

// rouse ends every wait for the link, now and from now on.
func (l *link) rouse() {
	if l.sock != nil {
		l.sock.rouse()
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

// open makes a part of a message the frame to send.
func (l *link) open(tag collective.Tag, length int, data []byte, core uint32) {
	l.out = appendFrame(l.out[:0], tag, length, core)
	if len(data) <= smallFrame {
		l.out, data = append(l.out, data...), nil
	}
	l.vec = [2][]byte{l.out, data}
}

// sent takes n bytes off the frame in hand.
func (l *link) sent(n int) {
	k := min(n, len(l.vec[0]))
	l.vec[0], l.vec[1] = l.vec[0][k:], l.vec[1][n-k:]
}

func (l *link) sending() bool {
	return l != nil && (len(l.vec[0])+len(l.vec[1]) > 0 || l.under != nil && l.under.pending())
}

// expect makes recv, a part of a message, the payload of the frame to receive.
func (l *link) expect(length int, recv []byte, join bool) {
	l.length, l.recv, l.join, l.got, l.joined = length, recv, join, 0, 0
	if join && l.landed == nil {
		l.landed = make([]byte, landBytes)
	}
}

func (l *link) receiving() bool { return l != nil && l.got < frameSize+len(l.recv) }

// place returns where the next bytes of the payload go, a segment at most.
func (l *link) place() []byte {
	at := max(l.got-frameSize, 0)
	if !l.join {
		return segment(l.recv, at)
	}
	kept := at - l.joined
	return l.landed[kept:min(len(l.landed), kept+len(l.recv)-at)]
}

// absorb joins what has landed of the payload, whole elements, while the rest is
// on its way. They are still in the core's cache.
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

// release lets go of the caller's slices.
func (l *link) release() {
	if l != nil {
		l.vec, l.recv = [2][]byte{}, nil
	}
}

// write sends the rest of the frame in hand, waiting as long as it takes.
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

// writer sends what is handed over until quit.
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

// handOver lets the writer send the frame in hand; settle waits for it.
func (l *link) handOver() error {
	select {
	case l.jobs <- struct{}{}:
		return nil
	case <-l.stopped:
		return collective.ErrClosed
	}
}

// settle returns when the writer has let go of the frame in hand.
func (l *link) settle(err error) error {
	if werr := <-l.done; err == nil {
		return werr
	}
	return err
}

// relay exchanges frames over connections that can only wait.
func (t *Transport) relay(s *slot, lanes []lane, tag collective.Tag) error {
	var err error
	handed := 0
	for ; handed < len(lanes) && err == nil; handed++ {
		if out := lanes[handed].out; out != nil {
			if err = out.handOver(); err != nil {
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
	for k := range handed { // also after an error: the writers must have let go of the caller's slices
		if out := lanes[k].out; out != nil {
			err = out.settle(err)
		}
	}
	return err
}

// receive reads the frame that is expected.
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
