package join

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// output is a folder in which every commit that has lines makes one file.
type output struct {
	dir   string
	file  *os.File // nil: the commit has no line yet
	lines *bufio.Writer
}

const outputSuffix = ".jsonl"

func outputName(commit int64) string { return fmt.Sprintf("%012d%s", commit, outputSuffix) }

// settle renames the file of the last commit, if it was written, and removes those of later ones.
func (o *output) settle(last int64) error {
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
			err = o.publish(n)
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

// publish gives a file its final name.
func (o *output) publish(commit int64) error {
	path := filepath.Join(o.dir, outputName(commit))
	if err := regular.Rename(path+partSuffix, path); err != nil {
		return err
	}
	return syncFolder(o.dir)
}

// close abandons the lines that are not committed.
func (o *output) close() {
	if o.file != nil {
		o.file.Close() // the next run removes it
	}
}
