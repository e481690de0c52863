//go:build unix

package rank

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

func ownedByMe(info fs.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("belongs to user %d, not to you (%d)", s.Uid, os.Geteuid())
	}
	return nil
}

func notWritable(info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("has mode %04o: other users may write there", mode)
	}
	return nil
}
