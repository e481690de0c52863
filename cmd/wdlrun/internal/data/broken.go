package data

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data/record"
)

// broken is a file that cannot be read to its end.
type broken struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// withoutBroken leaves the files that cannot be read to their ends out of the table and returns them. It returns
// nil, and changes nothing, if they are not some of several local files.
func (t *table) withoutBroken(ctx context.Context, progress *command.Progress) (all []broken) {
	if slices.ContainsFunc(t.patterns, func(name string) bool { return !record.IsLocal(name) }) {
		return nil
	}
	files, err := record.Resolve(t.patterns)
	if err != nil {
		return nil
	}
	bytes := int64(0)
	for i := range files {
		bytes += files[i].Bytes
	}
	var good []string
	report, done := progress.Read("find files that cannot be read", bytes), int64(0)
	for i := range files {
		name := files[i].Name
		f, err := record.OpenFiles(t.source, []string{name})
		if err == nil {
			_, err = f.Check(ctx, runtime.GOMAXPROCS(0), 1, nil, nil)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil || errors.Is(err, record.ErrNoLine):
			good = append(good, name)
		default:
			all = append(all, broken{name, err.Error()})
		}
		done += files[i].Bytes
		report(done)
	}
	if len(all) > 0 && len(good) > 0 {
		t.patterns = good
		return all
	}
	return nil
}
