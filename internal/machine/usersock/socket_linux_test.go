package usersock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestOtherUser rejects another user, as listener and as caller. The other user is a thread
// of this process.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can act as another user")
	}
	name := fmt.Sprintf("test-user-%d", os.Getpid())
	own, err := Listen("", name)
	fatal.If(t, err)
	defer own.Close()
	type end struct {
		ln   *net.UnixListener
		conn *net.UnixConn
		err  error
	}
	ends := make(chan end)
	go func() {
		runtime.LockOSThread() // without unlocking: the thread ends with the goroutine
		const keep = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, 12345, keep); errno != 0 {
			ends <- end{err: errno}
			return
		}
		var e end
		if e.ln, e.err = Listen("", name+"-other"); e.err == nil {
			e.conn, e.err = net.DialUnix("unix", nil, own.Addr().(*net.UnixAddr))
		}
		ends <- e
	}()
	e := <-ends
	if e.err != nil {
		t.Fatal(e.err)
	}
	defer e.ln.Close()
	defer e.conn.Close()
	if _, err := Dial("", name+"-other"); !errors.Is(err, ErrOtherUser) {
		t.Errorf("a listener of another user: %v", err)
	}
	e.conn.Write([]byte("o"))
	mine, err := Dial("", name)
	fatal.If(t, err)
	defer mine.Close()
	mine.Write([]byte("m"))
	accepted, err := Accept(own) // the connection of the other user came first
	fatal.If(t, err)
	defer accepted.Close()
	b := make([]byte, 1)
	if n, err := accepted.Read(b); n != 1 || b[0] != 'm' {
		t.Errorf("%q, %v: the connection of the other user is accepted", b[:n], err)
	}
}
