package delta

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// files are the names in the folder of a log.
type files struct {
	dir     string
	last    int64 // version
	commits map[int64]bool
	parts   map[int64][]string // of the checkpoint of a version
	of      map[int64]int64    // number of the parts
	foreign map[int64]bool     // checkpoints of the second version
}

// list lists the folder of a log.
func list(dir string) (*files, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > maxLog {
		return nil, fmt.Errorf("more than %d files; set a shorter delta.logRetentionDuration", maxLog)
	}
	l := &files{dir, -1, map[int64]bool{}, map[int64][]string{}, map[int64]int64{}, map[int64]bool{}}
	for _, e := range entries {
		l.add(e.Name())
	}
	if l.last < 0 {
		return nil, errors.New("it has no commit")
	}
	return l, nil
}

// add adds a name: VERSION.json, VERSION.checkpoint.parquet or
// VERSION.checkpoint.PART.PARTS.parquet.
func (l *files) add(name string) {
	words := strings.Split(name, ".")
	version, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || len(words[0]) != 20 || version < 0 {
		return // such as _last_checkpoint, which only saves the listing
	}
	switch {
	case len(words) == 2 && words[1] == "json":
		l.commits[version] = true
	case len(words) == 3 && words[1] == "checkpoint" && words[2] == "parquet":
		l.parts[version], l.of[version] = []string{name}, 1
	case len(words) == 5 && words[1] == "checkpoint" && words[4] == "parquet":
		of, err := strconv.ParseInt(words[3], 10, 32)
		if err != nil || l.of[version] == 1 {
			return
		}
		l.parts[version], l.of[version] = append(l.parts[version], name), of
	case len(words) == 4 && words[1] == "checkpoint":
		l.foreign[version] = true
		return
	default:
		return // checksums, compacted logs
	}
	l.last = max(l.last, version)
}

// checkpoint reads the newest checkpoint, and returns the version of the next commit.
func (l *files) checkpoint(s *state) (next int64, err error) {
	at := int64(-1)
	for v, parts := range l.parts {
		if v > at && v <= l.last && int64(len(parts)) == l.of[v] {
			at = v
		}
	}
	for v := at + 1; v <= l.last; v++ {
		if l.commits[v] {
			continue
		}
		for newer := range l.foreign {
			if newer >= v {
				return 0, unsupported("it needs its checkpoints of the second version (v2Checkpoint), which are not supported")
			}
		}
		return 0, fmt.Errorf("version %d is missing, and there is no checkpoint after it: the log has a gap, and its table cannot be known", v)
	}
	if at < 0 {
		return 0, nil
	}
	for _, name := range l.parts[at] {
		if err := readCheckpoint(filepath.Join(l.dir, name), s); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return at + 1, nil
}

// commit applies the actions of a version.
func (l *files) commit(v int64, s *state) error {
	name := fmt.Sprintf("%020d.json", v)
	f, err := regular.Open(filepath.Join(l.dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > maxCommit {
		return fmt.Errorf("%s: it has more than %d bytes", name, maxCommit)
	}
	if err := s.read(io.LimitReader(f, maxCommit)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
