package hosts

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openUnnamed makes a file without a name in a folder, so that nothing is left if this process
// is killed. It returns nil on a file system without such files, such as NFS.
func openUnnamed(folder string) *os.File {
	fd, err := unix.Open(folder, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o700)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), folder)
}

// linkUnnamed closes a file without a name and puts it at path.
func linkUnnamed(f *os.File, path string) error {
	proc := func(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
	fd, err := unix.Open(proc(int(f.Fd())), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := closeProgram(f); err != nil {
		return err
	}
	link := func(path string) error {
		return unix.Linkat(unix.AT_FDCWD, proc(fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	}
	if err := link(path); !errors.Is(err, unix.EEXIST) {
		return err
	}
	named := filepath.Join(filepath.Dir(path), ".program-"+rand.Text())
	if err := link(named); err != nil {
		return err
	}
	return os.Rename(named, path)
}
