package record

import (
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"
)

const (
	// endBytes is how much of each end of a file its Sum covers.
	endBytes = 64 << 10

	// maxEnds is the largest number of files of a set whose ends are read. In a larger set
	// they are evenly spread.
	maxEnds = 1024
)

// Sum identifies the content of a file without reading all of it.
type Sum struct {
	Name  string
	Bytes int64
	Ends  uint64 `json:",omitempty"` // hash of the first and the last 64 KiB; 0: not read
}

// Sums returns the sums of files, without Ends unless they are asked for. Ranges of topics are left out,
// because topics grow. Only local files have Ends: all hosts read remote files from the same place.
func Sums(files []File, ends bool) ([]Sum, error) {
	all := make([]Sum, 0, len(files))
	every := (len(files) + maxEnds - 1) / maxEnds
	for i := range files {
		f := &files[i]
		if f.Log != nil {
			continue
		}
		sum := Sum{Name: f.Name, Bytes: f.Bytes}
		if ends && f.remote == nil && f.content == nil && i%every == 0 {
			var err error
			if sum.Ends, err = f.ends(); err != nil {
				return nil, err
			}
		}
		all = append(all, sum)
	}
	return all, nil
}

// Times identifies files by names and times of modification; "" if not all of them are local.
func Times(files []File) string {
	h := xxh3.New()
	for i := range files {
		f := &files[i]
		if f.remote != nil || f.content != nil || f.Log != nil || f.away != nil {
			return ""
		}
		fmt.Fprintf(h, "%s %d\n", f.Name, f.time.UnixNano())
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// Hash identifies files by all of their bytes, as stored.
func Hash(files []File) (string, error) {
	h, buf := xxh3.New(), make([]byte, 1<<20)
	for i := range files {
		f := &files[i]
		src, err := f.raw()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", f.Name, f.Bytes)
		_, err = io.CopyBuffer(struct{ io.Writer }{h}, io.NewSectionReader(src, 0, f.Bytes), buf)
		if err = errors.Join(err, src.Close()); err != nil {
			return "", fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return fmt.Sprintf("%016x", h.Sum64()), nil
}

// ends returns the hash of both ends of a file as stored.
func (f *File) ends() (uint64, error) {
	src, err := f.raw()
	if err != nil {
		return 0, err
	}
	defer src.Close()
	h, buf := xxh3.New(), make([]byte, min(endBytes, f.Bytes))
	for _, at := range []int64{0, f.Bytes - int64(len(buf))} {
		if _, err := src.ReadAt(buf, at); err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("%s: %w", f.Name, err)
		}
		h.Write(buf)
	}
	return h.Sum64(), nil
}
