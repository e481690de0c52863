package volumes

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// local are the types of file systems that one host has for itself.
var local = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.F2FS_SUPER_MAGIC,
	unix.OVERLAYFS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, 0x2fc12fc1, // ZFS
}

// mayBeShared reports whether other hosts may see the file system of a directory, or of the nearest
// one above it that exists.
func mayBeShared(dir string) bool {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if err == nil {
			return !slices.Contains(local, int64(uint32(st.Type)))
		}
		if above := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && above != dir {
			dir = above
			continue
		}
		return true
	}
}
