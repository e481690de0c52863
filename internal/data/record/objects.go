package record

import (
	"context"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/remote"
	"github.com/wdlrun/wdlrun/internal/data/stream"
)

// objects returns the remote files of a name: one, or the files of a folder or a glob,
// filtered as local ones are.
func (r *resolver) objects(p string) ([]File, error) {
	all, err := remote.Find(context.Background(), p)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, o := range all {
		if len(all) > 1 && !stream.Whole(o.Name) {
			continue
		}
		partitions, err := partitionsOf(o.Name)
		f := File{Name: o.Address(), Bytes: o.Bytes, size: o.Bytes, time: o.Time, remote: o, Partitions: partitions}
		if o.Bytes == 0 {
			if err == nil {
				r.empty = append(r.empty, f)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 && len(all) == 1 {
		return nil, fmt.Errorf("%s: the file is empty; check the program that wrote it", p)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: every file is empty; check the program that wrote them", p)
	}
	return files, nil
}
