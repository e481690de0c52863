package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// introduce is the dialing side of a handshake. After a fatal error a retry would fail in
// the same way.
func (f *forming) introduce(conn *net.TCPConn, id linkID) (fatal bool, err error) {
	h := f.want
	h.link, h.from, h.to, h.nonce = id.link, uint32(f.cfg.Rank), uint32(id.peer), newNonce()
	if _, err := conn.Write(h.append(nil)); err != nil {
		return false, err
	}
	if fatal, err := readVerdict(conn); err != nil {
		return fatal, err
	}
	var buf [answerSize - verdictSize]byte
	if _, err := io.ReadFull(conn, buf[:]); err != nil {
		return false, fmt.Errorf("its answer was cut off: %w", err)
	}
	a := parseAnswer(buf)
	if !sameProof(a.proof, prove(f.cfg.Key, roleAccepts, h, a.nonce)) {
		return true, errors.New("it has not proved the job key: does a rank of another job listen there?")
	}
	proof := prove(f.cfg.Key, roleDials, h, a.nonce)
	if _, err := conn.Write(proof[:]); err != nil {
		return false, err
	}
	return readVerdict(conn)
}

// readVerdict reads a verdict, or the start of an answer, which has the same form.
func readVerdict(conn *net.TCPConn) (fatal bool, err error) {
	var buf [verdictSize]byte
	if _, err := io.ReadFull(conn, buf[:]); err != nil {
		return false, fmt.Errorf("no answer: %w", err)
	}
	v, s, err := parseOpening(buf)
	switch {
	case err != nil:
		return true, err
	case status(s) != statusOK:
		return true, fmt.Errorf("refused: %v", status(s))
	case v != version:
		return true, fmt.Errorf("refused: %v", statusVersion)
	}
	return false, nil
}

// accept accepts connections until the listener is closed.
func (f *forming) accept(ln *net.TCPListener, wg *sync.WaitGroup) {
	for {
		conn, err := ln.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example, no free file descriptor
			f.refuse("a peer", err)
			time.Sleep(acceptPause)
			continue
		}
		f.mu.Lock()
		f.unproven = append(f.unproven, conn)
		f.mu.Unlock()
		f.dropUnproven()
		wg.Go(func() { f.greet(conn) })
	}
}

// dropUnproven closes the oldest connections that have not proved the key, if there are
// too many of them.
func (f *forming) dropUnproven() {
	f.mu.Lock()
	defer f.mu.Unlock()
	keep := len(f.missing) + unprovenMax
	if f.over {
		keep = 0
	}
	for len(f.unproven) > keep {
		f.unproven[0].Close()
		f.unproven = f.unproven[1:]
	}
}

// forget removes conn from the connections that have not proved the key. It returns false if
// conn has been dropped.
func (f *forming) forget(conn *net.TCPConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.unproven, conn)
	if i < 0 {
		return false
	}
	f.unproven = slices.Delete(f.unproven, i, i+1)
	return true
}

var errDropped = errors.New("it had not proved the job key when the group was complete or others came")

// greet handles one accepted connection from hello to verdict.
func (f *forming) greet(conn *net.TCPConn) {
	conn.SetDeadline(time.Now().Add(f.patience))
	h, s, err := f.examine(conn)
	if err == nil {
		// The peer has proved the key, so it is not dropped any more.
		if !f.forget(conn) {
			f.refuse(conn.RemoteAddr().String(), errDropped)
			return
		}
		if _, err = conn.Write(appendOpening(nil, uint16(statusOK))); err == nil {
			var secured net.Conn
			if secured, err = f.secure(conn, linkID{int(h.from), h.link}, true); err == nil {
				f.addLink(linkID{int(h.from), h.link}, secured)
				return
			}
		}
	}
	f.part(conn, s)
	if !f.forget(conn) && errors.Is(err, net.ErrClosed) {
		err = errDropped
	}
	f.refuse(conn.RemoteAddr().String(), err)
}

// part sends the reason why a link is rejected, if there is one, and closes it. It gives
// the peer time to read the reason: closing a connection with unread bytes discards what
// was sent.
func (f *forming) part(conn *net.TCPConn, s status) {
	defer conn.Close()
	if s == statusOK {
		return
	}
	conn.SetDeadline(time.Now().Add(partTime))
	conn.Write(appendOpening(nil, uint16(s)))
	conn.CloseWrite()
	io.CopyN(io.Discard, conn, 1<<10)
}

// examine is the accepting side of a handshake, up to the verdict. With an error it returns
// the status to send, or statusOK if no answer is due.
func (f *forming) examine(conn *net.TCPConn) (h hello, s status, err error) {
	var buf [helloSize]byte
	if n, err := io.ReadFull(conn, buf[:verdictSize]); err != nil {
		return h, statusOK, fmt.Errorf("it sent %d of the %d bytes of a hello: %w", n, helloSize, err)
	}
	v, _, err := parseOpening([verdictSize]byte(buf[:verdictSize]))
	if err != nil {
		return h, statusOK, err
	}
	if v != version {
		return h, statusVersion, fmt.Errorf("it speaks version %d of the protocol, this rank version %d", v, version)
	}
	if n, err := io.ReadFull(conn, buf[verdictSize:]); err != nil {
		return h, statusOK, fmt.Errorf("it sent %d of the %d bytes of a hello: %w", verdictSize+n, helloSize, err)
	}
	if h, err = parseHello(buf); err != nil {
		return h, statusOK, err
	}
	if s, err = h.judge(f.want, uint32(f.cfg.Rank)); err != nil {
		return h, s, err
	}
	nonce := newNonce()
	a := answer{nonce: nonce, proof: prove(f.cfg.Key, roleAccepts, h, nonce)}
	if _, err := conn.Write(a.append(nil)); err != nil {
		return h, statusOK, err
	}
	var proof [proofSize]byte
	if _, err := io.ReadFull(conn, proof[:]); err != nil {
		return h, statusOK, fmt.Errorf("it claims to be rank %d but did not prove the job key: %w", h.from, err)
	}
	if !sameProof(proof, prove(f.cfg.Key, roleDials, h, nonce)) {
		return h, statusKey, fmt.Errorf("it claims to be rank %d but has another job key", h.from)
	}
	return h, statusOK, nil
}

// refuse reports a rejected connection.
func (f *forming) refuse(addr string, err error) {
	if f.cfg.Refused == nil {
		return
	}
	f.telling.Lock()
	defer f.telling.Unlock()
	f.cfg.Refused(fmt.Errorf("tcp: accept: rank %d: connection from %s rejected: %w", f.cfg.Rank, addr, err))
}
