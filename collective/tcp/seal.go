package tcp

import (
	"net"
)

// sealBytes of a frame are sealed and then sent by one system call. They are four TLS
// records of the largest size, and their copies stay in a core's caches.
const sealBytes = 64 << 10

// aheadBytes is the most that one system call receives. crypto/tls by itself makes three
// calls per record.
const aheadBytes = 128 << 10

// secured is the connection that Config.Secure returned.
type secured struct {
	net.Conn
	under *pipe
}

func (p *pipe) Read(b []byte) (int, error) {
	if p.sock == nil {
		return p.TCPConn.Read(b)
	}
	if len(p.ahead) == 0 {
		if p.buf == nil {
			p.buf = make([]byte, aheadBytes)
		}
		n, err := p.sock.receive(p.buf, nil)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, again{}
		}
		p.ahead = p.buf[:n]
	}
	n := copy(b, p.ahead)
	p.ahead = p.ahead[n:]
	return n, nil
}

func (p *pipe) Write(b []byte) (int, error) {
	if p.sock == nil {
		return p.TCPConn.Write(b)
	}
	p.kept = append(p.kept, b...)
	return len(b), nil
}

// flush sends as much of kept as the system accepts and reports whether any bytes moved.
func (p *pipe) flush() (moved bool, err error) {
	n, err := p.sock.push(p.kept[p.at:], p.more)
	p.at += max(n, 0)
	if !p.pending() {
		p.kept, p.at = p.kept[:0], 0
	}
	return n > 0, err
}

// again is the error of a socket with nothing to read. It is temporary, so that crypto/tls
// keeps a partial record and continues with the next Read.
type again struct{}

func (again) Error() string   { return "nothing to read yet" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// seal seals some records of the current frame and sends them by one system call, or sends
// the rest of earlier records.
func (l *link) seal() (moved bool, err error) {
	if l.under.pending() {
		return l.under.flush()
	}
	for budget := sealBytes; budget > 0 && l.left() > 0; {
		b := l.vec[0]
		if len(b) == 0 {
			b = l.vec[1]
		}
		b = b[:min(len(b), budget)]
		if _, err := l.conn.Write(b); err != nil {
			return false, err
		}
		l.sent(len(b))
		budget -= len(b)
	}
	l.under.more = l.left() > 0
	_, err = l.under.flush()
	return true, err
}

// left returns the number of unsent bytes of the current frame.
func (l *link) left() int { return len(l.vec[0]) + len(l.vec[1]) }

// unseal receives more of a frame and returns the number of bytes.
func (l *link) unseal() (n int, err error) {
	b := l.place()
	if l.got < frameSize {
		b = l.head[l.got:]
	}
	n, err = l.conn.Read(b)
	if err == (again{}) {
		err = nil
	}
	return n, err
}

var _ net.Error = again{}
