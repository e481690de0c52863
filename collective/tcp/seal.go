package tcp

import (
	"net"
)

// sealBytes of a frame are sealed before they are sent by one system call: four TLS
// records of the greatest size, and their copies stay in a core's caches.
const sealBytes = 64 << 10

// aheadBytes are received by one system call, where they are there: crypto/tls alone
// takes three a record.
const aheadBytes = 128 << 10

// secured is what Config.Secure made of a connection.
type secured struct {
	net.Conn
	under *pipe
}

// pipe is the bare connection under a secured one. At first it waits, as any
// connection; with sock it does not: Read fails with again where nothing is
// there, and what is written is kept for flush.
type pipe struct {
	*net.TCPConn
	sock *socket
	more bool   // more follows: the system may send it together with that
	kept []byte // written, and not all taken by the system yet
	at   int    // of kept, taken since

	room  []byte // aheadBytes, once something was read
	ahead []byte // of it, received and not read yet
}

func (p *pipe) Read(b []byte) (int, error) {
	if p.sock == nil {
		return p.TCPConn.Read(b)
	}
	if len(p.ahead) == 0 {
		if p.room == nil {
			p.room = make([]byte, aheadBytes)
		}
		n, err := p.sock.receive(p.room, nil)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, again{}
		}
		p.ahead = p.room[:n]
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

func (p *pipe) pending() bool { return p.at < len(p.kept) }

// flush sends of what is kept as much as the system takes, and reports whether
// that was anything.
func (p *pipe) flush() (moved bool, err error) {
	n, err := p.sock.push(p.kept[p.at:], p.more)
	p.at += max(n, 0)
	if !p.pending() {
		p.kept, p.at = p.kept[:0], 0
	}
	return n > 0, err
}

// again says that a socket has nothing to read yet. It is temporary, so that
// crypto/tls keeps a partial record and continues with the next Read.
type again struct{}

func (again) Error() string   { return "nothing to read yet" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// seal seals some records of the frame in hand and sends them by one system call, or
// what is left of those before.
func (l *link) seal() (moved bool, err error) {
	if l.under.pending() {
		return l.under.flush()
	}
	for room := sealBytes; room > 0 && l.left() > 0; {
		b := l.vec[0]
		if len(b) == 0 {
			b = l.vec[1]
		}
		b = b[:min(len(b), room)]
		if _, err := l.conn.Write(b); err != nil {
			return false, err
		}
		l.sent(len(b))
		room -= len(b)
	}
	l.under.more = l.left() > 0
	_, err = l.under.flush()
	return true, err
}

// left returns how many bytes of the frame in hand are to be sent yet.
func (l *link) left() int { return len(l.vec[0]) + len(l.vec[1]) }

// unseal receives some more of a frame.
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
