package checkpoint

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Written waits until every rank has closed its part of a step and returns the entries of the
// parts for Commit. It polls the shared directory, so ranks need not send messages: a part is
// complete when it has a trailer. A rank whose part failed never closes it: Written then waits
// until ctx ends, and returns the error of ctx.
func Written(ctx context.Context, root string, step int64, parts int) ([]File, error) {
	files := make([]File, 0, parts)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		for len(files) < parts {
			f, err := closedPart(root, step, len(files), parts)
			if err != nil {
				break // missing or incomplete so far
			}
			files = append(files, f)
		}
		if len(files) == parts {
			return files, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("checkpoint: written: step %d: part %d of %d does not exist or is incomplete: %w", step, len(files), parts, context.Cause(ctx))
		}
	}
}

// closedPart returns the entry of a part that has a trailer. Commit checks the rest.
func closedPart(root string, step int64, part, parts int) (File, error) {
	name := partName(part, parts)
	f, err := regular.Open(filepath.Join(tmpDir(root, step), name))
	if err != nil {
		return File{}, err
	}
	defer f.Close() // opened to read: nothing can be lost
	st, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	size := st.Size()
	if size < headSize+4+tailSize {
		return File{}, fmt.Errorf("%s: %d bytes", name, size)
	}
	b := make([]byte, tailSize)
	if _, err := f.ReadAt(b, size-tailSize); err != nil {
		return File{}, err
	}
	t, err := parseTail(b, size)
	if err != nil {
		return File{}, err
	}
	n, err := sectionsOf(f, t)
	return File{Name: name, Size: size, Sections: n, Directory: t.sum}, err
}
