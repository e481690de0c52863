package record

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/remote"
)

// IsLocal reports whether a name stands for files on the disk of a host: it is neither built in
// nor an address.
func IsLocal(name string) bool {
	return !strings.HasPrefix(name, Builtin) && !strings.HasPrefix(name, kafka.Scheme) && !remote.Is(name)
}

// Listed describes a local file to other hosts.
type Listed struct {
	Path  string
	Bytes int64
	Time  int64 // of its modification, in Unix ns
}

// List returns the local files of names, globs and folders, as Resolve does. Names that stand
// for no local file are left out.
func List(patterns []string) (files []File, err error) {
	for _, p := range patterns {
		if IsTopic(p) {
			continue
		}
		more, err := new(resolver).one(p)
		if _, none := errors.AsType[noFile](err); none {
			continue
		}
		if err != nil {
			return nil, err
		}
		if name := ofDelta(more); name != "" {
			return nil, fmt.Errorf("%s: files of a Delta table cannot differ between hosts: set data.hosts: shared", p)
		}
		files = append(files, more...)
	}
	return files, distinct(files)
}

// Listed returns the description of a local file.
func (f *File) Listed() Listed { return Listed{f.Name, f.Bytes, f.time.UnixNano()} }

// Modified returns the time of the file's modification.
func (l Listed) Modified() time.Time { return time.Unix(0, l.Time) }

// At returns the file of a host. away opens it, if the host is another one; nil: this host has
// it. The name of the file has the host.
func (l Listed) At(host string, away func() Content) (File, error) {
	if err := printable(l.Path); err != nil {
		return File{}, err
	}
	if l.Bytes <= 0 {
		return File{}, fmt.Errorf("%s has %d bytes", l.Path, l.Bytes)
	}
	partitions, err := partitionsOf(l.Path)
	return File{Name: host + ":" + l.Path, path: l.Path, Bytes: l.Bytes, size: l.Bytes, time: l.Modified(), away: away, Partitions: partitions}, err
}
