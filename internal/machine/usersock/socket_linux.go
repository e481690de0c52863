package usersock

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// address returns a name in the abstract namespace.
func address(_, name string, _ bool) string { return "@wdlrun-" + name }

// checkUser rejects a connection with a process of another user. Any process may listen on
// an abstract name, and connect to it.
func checkUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if cerr != nil {
		return cerr
	}
	if int(cred.Uid) != os.Getuid() {
		return fmt.Errorf("process %d at the socket: %w, %d; run both as one user", cred.Pid, ErrOtherUser, cred.Uid)
	}
	return nil
}
