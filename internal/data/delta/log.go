package delta

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
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
	second  map[int64]string   // name of a checkpoint of the second version
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
	l := &files{dir, -1, map[int64]bool{}, map[int64][]string{}, map[int64]int64{}, map[int64]string{}}
	for _, e := range entries {
		l.add(e.Name())
	}
	if l.last < 0 {
		return nil, errors.New("it has no commit")
	}
	return l, nil
}

// add adds a name: VERSION.json, VERSION.checkpoint.parquet, VERSION.checkpoint.PART.PARTS.parquet,
// VERSION.checkpoint.UUID.parquet or VERSION.checkpoint.UUID.json.
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
	case len(words) == 4 && words[1] == "checkpoint" && (words[3] == "parquet" || words[3] == "json"):
		l.second[version] = name
	default:
		return // checksums, compacted logs
	}
	l.last = max(l.last, version)
}

// newest returns the version of the newest checkpoint whose parts are all there, and its files; −1
// if there is none.
func (l *files) newest() (at int64, names []string) {
	at = -1
	for v, name := range l.second {
		if v > at && v <= l.last {
			at, names = v, []string{name}
		}
	}
	for v, parts := range l.parts {
		if v >= at && v <= l.last && int64(len(parts)) == l.of[v] {
			at, names = v, parts
		}
	}
	return at, names
}

// checkpoint reads the newest checkpoint, and returns the version of the next commit.
func (l *files) checkpoint(s *state) (next int64, err error) {
	at, names := l.newest()
	for v := at + 1; v <= l.last; v++ {
		if !l.commits[v] {
			return 0, fmt.Errorf("version %d is missing, and there is no checkpoint after it: the log has a gap, and its table cannot be known", v)
		}
	}
	for _, name := range names {
		if err := l.part(name, s); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return at + 1, nil
}

// sidecars is the folder of the files that checkpoints of the second version name.
const sidecars = "_sidecars"

// part applies the actions of a part of a checkpoint, and of the files that it names.
func (l *files) part(name string, s *state) error {
	read := readCheckpoint
	if strings.HasSuffix(name, ".json") {
		read = readActions
	}
	s.sidecars = nil
	if err := read(filepath.Join(l.dir, name), s); err != nil {
		return err
	}
	named := s.sidecars
	for _, side := range named {
		file, err := url.PathUnescape(side)
		if err != nil {
			return fmt.Errorf("the path %q is not a URL: %w", side, err)
		}
		file = path.Base(file) // all are in one folder
		if err := readSidecar(filepath.Join(l.dir, sidecars, file), s); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// commit applies the actions of a version.
func (l *files) commit(v int64, s *state) error {
	name := fmt.Sprintf("%020d.json", v)
	if err := readActions(filepath.Join(l.dir, name), s); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readActions applies the actions of a file of JSON lines.
func readActions(path string, s *state) error {
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > maxCommit {
		return fmt.Errorf("it has more than %d bytes", maxCommit)
	}
	return s.read(io.LimitReader(f, maxCommit))
}
