package tcp

import (
	"bufio"
	"io"
	"net"

	"github.com/wdlrun/wdlrun/collective"
)

const (
	readAhead  = 4 << 10 // a small frame comes in one read
	smallFrame = 4 << 10 // a payload up to here is copied behind its header to leave in one write
)

// link is the connection for the data of one channel with one peer. One
// goroutine, the writer, sends; the caller of Exchange receives.
type link struct {
	conn    *net.TCPConn
	jobs    chan job
	done    chan error    // the result of the job in hand; holds one
	stopped chan struct{} // closed when the writer has ended

	r    *bufio.Reader
	head [frameSize]byte // of the frame being received

	out  []byte // header, or small frame, being sent
	vec  [2][]byte
	bufs net.Buffers
}

type job struct {
	tag  collective.Tag
	data []byte
}

func newLink(conn *net.TCPConn) *link {
	return &link{
		conn: conn, jobs: make(chan job), done: make(chan error, 1), stopped: make(chan struct{}),
		r: bufio.NewReaderSize(conn, readAhead), out: make([]byte, 0, frameSize+smallFrame),
	}
}

// write sends one frame.
func (l *link) write(j job) error {
	l.out = appendFrame(l.out[:0], j.tag, len(j.data))
	if len(j.data) <= smallFrame {
		l.out = append(l.out, j.data...)
		_, err := l.conn.Write(l.out)
		return err
	}
	l.vec = [2][]byte{l.out, j.data}
	l.bufs = l.vec[:]
	_, err := l.bufs.WriteTo(l.conn)
	l.vec = [2][]byte{} // the caller's slice is its own again
	return err
}

// writer sends what is handed over until quit.
func (t *Transport) writer(p *peer, l *link) {
	defer close(l.stopped)
	for {
		select {
		case j := <-l.jobs:
			err := l.write(j)
			if err != nil {
				err = t.judge(p, err)
			}
			l.done <- err
		case <-t.quit:
			return
		}
	}
}

// receive reads the frame that tag and recv expect of peer p.
func (t *Transport) receive(p *peer, l *link, tag collective.Tag, recv []byte) error {
	if _, err := io.ReadFull(l.r, l.head[:]); err != nil {
		return t.judge(p, err)
	}
	theirs, n, err := parseFrame(l.head[:])
	if err != nil {
		return t.end(&collective.LostError{Rank: p.rank, By: t.rank, Cause: err})
	}
	if theirs != tag || n != int64(len(recv)) {
		return t.end(&collective.MismatchError{
			Peer: collective.Side{Rank: p.rank, Tag: theirs, Bytes: n},
			Own:  collective.Side{Rank: t.rank, Tag: tag, Bytes: int64(len(recv))},
		})
	}
	if _, err := io.ReadFull(l.r, recv); err != nil {
		return t.judge(p, err)
	}
	return nil
}
