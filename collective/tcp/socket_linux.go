package tcp

import (
	"fmt"
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a connection that the caller of Exchange reads and writes. It is not registered
// with the runtime's poller, whose thread would wake at each message and take a core from a
// rank. One goroutine at a time uses it.
type socket struct {
	fd  int
	iov [2]unix.Iovec
	msg unix.Msghdr
}

// takeSocket turns a plain connection into a socket and closes the connection. Bytes in
// transit are kept. For any other kind of connection it returns nil and does nothing.
func takeSocket(conn net.Conn) (*socket, error) {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{}
	s.msg.Iov = &s.iov[0]
	var errno error
	err = raw.Control(func(fd uintptr) { s.fd, errno = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err == nil && errno != nil {
		err = fmt.Errorf("another descriptor: %w", errno)
	}
	if err != nil {
		return nil, err
	}
	return s, c.Close()
}

// send sends as much of a and then b as the system accepts at once.
func (s *socket) send(a, b []byte) (int, error) { return s.move(unix.SYS_SENDMSG, 0, a, b) }

// push sends as much of b as the system accepts at once. With more, the system may hold
// back a partial packet until the next call.
func (s *socket) push(b []byte, more bool) (int, error) {
	flags := 0
	if more {
		flags = unix.MSG_MORE
	}
	return s.move(unix.SYS_SENDMSG, flags, b, nil)
}

// receive receives into a and then b the bytes that have arrived.
func (s *socket) receive(a, b []byte) (int, error) {
	n, err := s.move(unix.SYS_RECVMSG, 0, a, b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

// move makes one system call. It never blocks, so the runtime is not informed.
func (s *socket) move(call uintptr, flags int, a, b []byte) (int, error) {
	parts := 1
	s.iov[0].Base = unsafe.SliceData(a)
	s.iov[0].SetLen(len(a))
	if len(b) > 0 {
		parts = 2
		s.iov[1].Base = unsafe.SliceData(b)
		s.iov[1].SetLen(len(b))
	}
	s.msg.SetIovlen(parts)
	n, _, errno := syscall.RawSyscall(call, uintptr(s.fd), uintptr(unsafe.Pointer(&s.msg)), uintptr(flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
	s.iov[0].Base, s.iov[1].Base = nil, nil // release the caller's slices
	switch errno {
	case 0:
		return int(n), nil
	case unix.EAGAIN, unix.EINTR:
		return nothing, nil
	}
	return 0, errno
}

// ready reports whether a wait for the socket would end at once. It only uses the
// descriptor, so another goroutine may call it. A nil socket is not ready.
func (s *socket) ready(out bool) bool {
	if s == nil {
		return false
	}
	fds := [1]unix.PollFd{{Fd: int32(s.fd), Events: events(out)}}
	n, err := unix.Poll(fds[:], 0)
	return err == nil && n > 0
}

// packets returns how many packets were sent, and sent again, in this socket's life, modulo 2^32.
func (s *socket) packets() (sent, again uint32) {
	info, err := unix.GetsockoptTCPInfo(s.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, 0
	}
	return info.Data_segs_out, info.Total_retrans
}

// events returns the poll events that end a wait.
func events(out bool) int16 {
	if out {
		return unix.POLLOUT | unix.POLLRDHUP
	}
	return unix.POLLIN
}

// interrupt ends every wait for the socket, current and future. The peer is not affected.
func (s *socket) interrupt() { unix.Shutdown(s.fd, unix.SHUT_RD) }

// close closes the socket, once.
func (s *socket) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

// waiter holds the state of a wait for several sockets, so that waits allocate nothing.
type waiter struct {
	fds   []unix.PollFd
	socks []*socket
}

func (w *waiter) reset() { w.fds, w.socks = w.fds[:0], w.socks[:0] }

// add makes the next wait end when s accepts bytes, if out is set, or has bytes to read.
func (w *waiter) add(s *socket, out bool) {
	w.fds, w.socks = append(w.fds, unix.PollFd{Fd: int32(s.fd), Events: events(out)}), append(w.socks, s)
}

// await waits. It returns a socket that waits to send although the peer has closed its
// connection, or nil.
func (w *waiter) await() (closed *socket) {
	unix.Ppoll(w.fds, nil, nil) // if interrupted, the caller tries again
	for i, fd := range w.fds {
		if fd.Events != unix.POLLIN && fd.Revents&(unix.POLLOUT|unix.POLLRDHUP) == unix.POLLRDHUP {
			return w.socks[i]
		}
	}
	return nil
}

// yield lets another process run on this core.
func yield() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
