package tcp

import (
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket sends and receives on a connection without waiting. One goroutine uses
// it at a time.
type socket struct {
	conn syscall.RawConn
	iov  [2]unix.Iovec

	// Of the call in progress. The functions are made once, so that no call
	// allocates; the system's poller calls them again until they return true.
	n           uintptr
	errno       syscall.Errno
	wait        bool
	read, write func(fd uintptr) bool
}

// newSocket returns nil if conn is not a bare connection.
func newSocket(conn net.Conn) *socket {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{conn: raw}
	s.read = func(fd uintptr) bool { return s.move(syscall.SYS_READV, fd) }
	s.write = func(fd uintptr) bool { return s.move(syscall.SYS_WRITEV, fd) }
	return s
}

// send sends of a and then b what the system takes at once; with wait, at least
// one byte.
func (s *socket) send(a, b []byte, wait bool) (int, error) {
	s.load(a, b, wait)
	err := s.conn.Write(s.write)
	return s.outcome(err)
}

// receive receives into a and then b what is there; with wait, at least one byte.
func (s *socket) receive(a, b []byte, wait bool) (int, error) {
	s.load(a, b, wait)
	err := s.conn.Read(s.read)
	n, err := s.outcome(err)
	if n == 0 && err == nil && s.errno == 0 {
		return 0, io.EOF
	}
	return n, err
}

func (s *socket) load(a, b []byte, wait bool) {
	s.iov[0].Base, s.iov[1].Base = unsafe.SliceData(a), unsafe.SliceData(b)
	s.iov[0].SetLen(len(a))
	s.iov[1].SetLen(len(b))
	s.n, s.errno, s.wait = 0, 0, wait
}

// move makes one system call; it reports whether its outcome stands.
func (s *socket) move(call, fd uintptr) bool {
	for {
		s.n, _, s.errno = syscall.Syscall(call, fd, uintptr(unsafe.Pointer(&s.iov[0])), uintptr(len(s.iov)))
		if s.errno != syscall.EINTR {
			break
		}
	}
	if s.errno != 0 {
		s.n = 0
	}
	return !s.wait || s.errno != syscall.EAGAIN
}

func (s *socket) outcome(err error) (int, error) {
	s.iov[0].Base, s.iov[1].Base = nil, nil // the caller's slices are its own again
	if err == nil && s.errno != 0 && s.errno != syscall.EAGAIN {
		err = s.errno
	}
	return int(s.n), err
}

// yield lets another process run that waits for this core.
func yield() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
