package data

import (
	"context"
	"fmt"
	"path"

	"github.com/wdlrun/wdlrun/data/remote"
	"github.com/wdlrun/wdlrun/data/stream"
)

// objects are the remote files that a name stands for: one, or those of a folder
// or a glob, of which the same are left out as of local ones.
func objects(p string) ([]file, error) {
	all, err := remote.Find(context.Background(), p)
	if err != nil {
		return nil, fmt.Errorf("data: open: %w", err)
	}
	var files []file
	for _, o := range all {
		if len(all) > 1 && (o.Bytes == 0 || !stream.Whole(o.Name)) {
			continue
		}
		if o.Bytes == 0 {
			return nil, fmt.Errorf("data: open: %s: the file is empty; check the program that wrote it", p)
		}
		files = append(files, file{name: o.Address(), bytes: o.Bytes, size: o.Bytes, time: o.Time, remote: o})
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("data: open: %s: every file is empty; check the program that wrote them", p)
	}
	return files, nil
}

// lookRemote lists the objects of a folder or a glob for a feed, by their names
// without the query.
func (f *Feed) lookRemote(ctx context.Context, p string) (s stream.Seen, err error) {
	all, err := remote.List(ctx, p)
	if err != nil {
		return s, err
	}
	for _, o := range all {
		if path.Base(o.Name) == f.follow.Mark {
			s.Ended = true
			continue
		}
		f.queries[o.Name] = o.Query
		s.Files = append(s.Files, stream.File{Name: o.Name, Bytes: o.Bytes, Stamp: o.Tag})
	}
	return s, nil
}
