package record

import (
	"bytes"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Probe returns the digest of the first n bytes of a local file of a stream, and how they
// end.
func Probe(src schema.Source, name string, n int64) (p stream.Probe, err error) {
	f, err := regular.Open(name)
	if err != nil {
		return p, err
	}
	defer f.Close()
	if p.Digest, err = digest(f, n); err != nil {
		return p, err
	}
	head := make([]byte, headBytes)
	got, _ := f.ReadAt(head, 0) // an error recurs when the file is read
	packing, err := packingOf(name, head[:got])
	format := src.FormatName()
	p.Appends = err == nil && packing == nil && !schema.IsTyped(format) && !src.Multiline
	if at := [2]byte{}; format != "tfrecord" && n > 0 {
		if got, _ := f.ReadAt(at[:], n-1); got == len(at) {
			p.Cut = at[0] != '\n' && !bytes.ContainsRune([]byte("\r\n"), rune(at[1]))
		}
	}
	return p, nil
}

// OpenParts is OpenSet for a span of a stream, whose local files may grow meanwhile.
// parts, if not empty, are the bytes to read of each file.
func OpenParts(src schema.Source, names []string, parts []stream.Part) (*Set, error) {
	return openSet(src, names, func(files []File) ([]File, error) {
		if len(parts) > 0 && len(parts) != len(files) {
			return nil, fmt.Errorf("%d parts of %d files", len(parts), len(files))
		}
		for i := range parts {
			if err := files[i].limit(parts[i]); err != nil {
				return nil, err
			}
		}
		return files, nil
	})
}

// TagDigest returns the digest of a remote file with an entity tag.
func TagDigest(tag string) uint64 { return xxh3.HashString(tag) }

// limit restricts a local file to the bytes of a part. A remote file, which is read whole, must
// still be the one that was found.
func (f *File) limit(p stream.Part) error {
	switch {
	case f.remote != nil && (f.Bytes != p.Hi || TagDigest(f.remote.Tag) != p.Digest):
		return fmt.Errorf("%s: %w", f.Name, ErrReplaced)
	case f.remote != nil || f.content != nil || f.Log != nil:
		return nil
	}
	h, err := regular.Open(f.Name)
	if err != nil {
		return err
	}
	defer h.Close()
	if f.Bytes < p.Hi || !begins(h, p) {
		return fmt.Errorf("%s: %w", f.Name, ErrReplaced)
	}
	f.found, f.ofStream = f.Bytes, &p
	f.Bytes, f.size, f.lo = p.Hi, p.Hi, p.Lo
	return nil
}
