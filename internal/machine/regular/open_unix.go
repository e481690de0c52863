//go:build unix

package regular

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	nonblock = syscall.O_NONBLOCK // opening a pipe returns at once
	nofollow = syscall.O_NOFOLLOW
)

// names returns the number of hard links of a file.
func names(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// trusted reports whether no user but this one and root can have made or moved a link in a folder.
func trusted(link, folder fs.FileInfo) bool {
	if folder.Mode().Perm()&0o022 != 0 && folder.Mode()&fs.ModeSticky == 0 {
		return false
	}
	for _, info := range []fs.FileInfo{link, folder} {
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return false
		}
	}
	return true
}
