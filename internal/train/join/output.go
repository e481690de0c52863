package join

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// output is a folder in which every commit that has lines makes one file. If it is the output of a topic, the
// file is removed when its lines are in the topic.
type output struct {
	dir   string
	topic *topic   // nil: none
	file  *os.File // nil: the commit has no line yet
	lines *bufio.Writer
}

// topic is a topic to which lines are written.
type topic struct {
	address kafka.Address
	name    string // of its writer
	writer  *kafka.Writer
	warn    func(line string)
}

// write writes the lines of a commit. It waits for a broker that is away.
func (t *topic) write(ctx context.Context, commit int64, lines io.ReadSeeker) (err error) {
	for warned := false; ; {
		if t.writer == nil {
			t.writer, err = kafka.OpenWriter(ctx, t.address, t.name)
		}
		if err == nil {
			if _, err = lines.Seek(0, io.SeekStart); err != nil {
				return err
			}
			err = t.writer.Write(ctx, commit, lines)
		}
		if err == nil || ctx.Err() != nil || !kafka.IsAway(err) {
			return err
		}
		if !warned {
			t.warn(fmt.Sprintf("%v; the join waits until it is there again", err))
			warned = true
		}
		t.close()
		err = nil
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (t *topic) close() {
	if t != nil {
		t.writer.Close()
		t.writer = nil
	}
}

const outputSuffix = ".jsonl"

func outputName(commit int64) string { return fmt.Sprintf("%012d%s", commit, outputSuffix) }

// finishCommit renames the file of the last commit, if there is one, and removes files of later commits.
func (o *output) finishCommit(ctx context.Context, last int64) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, part := strings.CutSuffix(e.Name(), outputSuffix+partSuffix)
		var n int64
		if _, err := fmt.Sscanf(name, "%d", &n); !part || err != nil || outputName(n) != name+outputSuffix {
			continue
		}
		if n <= last {
			err = o.publish(ctx, n)
		} else {
			err = os.Remove(filepath.Join(o.dir, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// empty returns an error if the folder has files of samples, of which a new state would know nothing.
func (o *output) empty() error {
	if o.topic != nil {
		return nil
	}
	entries, err := os.ReadDir(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), outputSuffix) {
			return fmt.Errorf("%s has samples, and the state is new: give the state directory with which they were made, or another folder", o.dir)
		}
	}
	return err
}

// writer returns the writer of a commit's lines.
func (o *output) writer(commit int64) (*bufio.Writer, error) {
	if o.file == nil {
		f, err := regular.Create(filepath.Join(o.dir, outputName(commit)+partSuffix), 0o644)
		if err != nil {
			return nil, err
		}
		o.file, o.lines = f, bufio.NewWriterSize(f, 1<<20)
	}
	return o.lines, nil
}

// sync makes the lines of a commit durable. some reports that there are any.
func (o *output) sync() (some bool, err error) {
	if o.file == nil {
		return false, nil
	}
	err = errors.Join(o.lines.Flush(), o.file.Sync(), o.file.Close())
	o.file = nil
	return true, err
}

// publish gives a file its final name, or writes it to the topic.
func (o *output) publish(ctx context.Context, commit int64) error {
	path := filepath.Join(o.dir, outputName(commit))
	if o.topic != nil {
		f, err := regular.Open(path + partSuffix)
		if err != nil {
			return err
		}
		if err := errors.Join(o.topic.write(ctx, commit, f), f.Close()); err != nil {
			return err
		}
		return os.Remove(path + partSuffix)
	}
	if err := regular.Rename(path+partSuffix, path); err != nil {
		return err
	}
	return syncFolder(o.dir)
}

// close abandons the lines that are not committed.
func (o *output) close() {
	o.topic.close()
	if o.file != nil {
		o.file.Close() // the next run removes it
	}
}
