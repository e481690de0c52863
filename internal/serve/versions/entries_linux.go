package versions

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Places in a linux_dirent64: the length of the entry, its type and its name, which ends with a zero byte.
const (
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

// entries calls each with the name of each entry of a folder, valid during the call, and whether it is a folder. Unlike
// os.ReadDir it makes no values, of which a large folder needs 100,000.
func entries(base string, each func(name []byte, isFolder bool)) error {
	f, err := os.OpenFile(base, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.ReadDirent(int(f.Fd()), buf)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("readdirent", err)
		}
		if n <= 0 {
			return nil
		}
		for b := buf[:n]; len(b) > direntName; {
			length := int(binary.NativeEndian.Uint16(b[direntLength:]))
			if length <= direntName || length > len(b) {
				return syscall.EIO
			}
			name, kind := b[direntName:length], b[direntType]
			if i := bytes.IndexByte(name, 0); i >= 0 {
				name = name[:i]
			}
			is := kind == syscall.DT_DIR
			if kind == syscall.DT_UNKNOWN {
				st, err := os.Lstat(filepath.Join(base, string(name)))
				is = err == nil && st.IsDir()
			}
			each(name, is)
			b = b[length:]
		}
	}
}
