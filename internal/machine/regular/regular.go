// Package regular opens only regular files. A path may lead to a named pipe, whose opening
// blocks until another process writes, or to a device that never ends. Open rejects both
// at once; ReadFile has a limit.
//
// Both follow symbolic links. The functions that write do not: in a folder that another user may
// write to, that user must not choose what is changed or removed. They trust the folders above
// a path, which the user names, and OpenFolder and Subfolder open those below.
package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Open opens a file for reading. It never blocks on a pipe. The error is a *fs.PathError;
// for a path that is not a regular file it names the kind.
func Open(path string) (*os.File, error) {
	f, _, err := OpenInfo(path)
	return f, err
}

// OpenInfo is Open, and describes the file.
func OpenInfo(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is %s, not a regular file", kind(info.Mode()))}
	}
	if err != nil {
		f.Close() // it was only read
		return nil, nil, err
	}
	return f, info, nil
}

// ReadFile returns the content of a regular file of at most limit bytes. A larger file
// is an error, also if it grows while it is read.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, min(info.Size(), limit)+1) // one more, to detect the end without another allocation
	for {
		n, err := f.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d bytes", limit)}
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, err
		case len(b) == cap(b):
			b = append(b, 0)[:len(b)]
		}
	}
}

// kind returns the kind of a file that is not regular.
func kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a file"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}
