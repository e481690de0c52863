package versions

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// Policy chooses the versions of a model to serve. The zero Policy chooses the latest.
type Policy struct {
	Latest   int     // the number of latest versions; 0 is 1
	All      bool    // instead of Latest: every version
	Specific []int64 // instead of Latest: these versions
}

// choose returns the chosen numbers, ascending. found is ascending, without versions that
// cannot be opened.
func (p *Policy) choose(found []int64) []int64 {
	switch {
	case p.All:
		return found
	case len(p.Specific) > 0:
		return slices.DeleteFunc(slices.Clone(found), func(n int64) bool { return !slices.Contains(p.Specific, n) })
	}
	return found[max(0, len(found)-max(1, p.Latest)):]
}

// Config is a model to serve.
type Config struct {
	Name   string
	Base   string // folder with one folder per version
	Policy Policy
	Labels map[string]int64 // names of versions, in addition to the pins of Base
}

const (
	maxModels = 1 << 10
	maxFiles  = 1 << 12 // files of a version whose sizes and times are compared
)

// Check returns an error for invalid configurations of a server.
func Check(all []Config) error {
	if len(all) > maxModels {
		return fmt.Errorf("serve: %d models, at most %d are possible", len(all), maxModels)
	}
	names := map[string]bool{}
	for _, c := range all {
		switch {
		case c.Name == "" || strings.ContainsAny(c.Name, "/:"):
			return fmt.Errorf("serve: model %q: a name is not empty and has neither / nor :", c.Name)
		case !utf8.ValidString(c.Name):
			return fmt.Errorf("serve: model %q: the name is not UTF-8", c.Name)
		case names[c.Name]:
			return fmt.Errorf("serve: model %s is given twice", c.Name)
		case c.Base == "":
			return fmt.Errorf("serve: model %s has no base path: give the folder that holds its versions", c.Name)
		case c.Policy.Latest < 0:
			return fmt.Errorf("serve: model %s: latest %d versions: it must be above 0", c.Name, c.Policy.Latest)
		}
		names[c.Name] = true
	}
	return nil
}

// listing holds the numbers of the versions in a base folder.
type listing struct {
	base    string
	changed time.Time        // of the base folder
	links   bool             // a version may be a link, whose target may change
	numbers []int64          // ascending
	odd     map[int64]string // folders whose names are written otherwise, such as 007
}

// dir returns the folder of a version, "" if there is none.
func (l *listing) dir(n int64) string {
	if d, ok := l.odd[n]; ok {
		return d
	}
	if _, ok := slices.BinarySearch(l.numbers, n); !ok {
		return ""
	}
	return filepath.Join(l.base, strconv.FormatInt(n, 10))
}

// settled is the time after which a change of a folder has another time than the previous one.
const settled = 2 * time.Second

// find lists a base folder. It returns before if the folder has not changed since, so that a
// poll of a large folder is cheap.
func find(base string, before *listing) (*listing, error) {
	st, err := os.Stat(base)
	if err != nil {
		return nil, err
	}
	if before != nil && before.base == base && !before.links && before.changed.Equal(st.ModTime()) {
		return before, nil
	}
	if !st.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: base, Err: syscall.ENOTDIR}
	}
	f, err := os.OpenFile(base, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1) // os.ReadDir also sorts the names
	if err != nil {
		return nil, err
	}
	l := &listing{base: base, odd: map[int64]string{}, numbers: make([]int64, 0, len(entries))}
	if time.Since(st.ModTime()) > settled {
		l.changed = st.ModTime()
	}
	for _, e := range entries {
		l.add(e)
	}
	slices.Sort(l.numbers)
	l.numbers = slices.Compact(l.numbers)
	return l, nil
}

// add adds an entry of the base folder, if it is a version.
func (l *listing) add(e fs.DirEntry) {
	name := e.Name()
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || n < 0 || name[0] == '+' {
		return
	}
	if !e.IsDir() {
		l.links = true
		if st, err := os.Stat(filepath.Join(l.base, name)); err != nil || !st.IsDir() { // follows links
			return
		}
	}
	l.numbers = append(l.numbers, n)
	if name[0] == '0' && len(name) > 1 || name[0] == '-' {
		if dir := filepath.Join(l.base, name); l.odd[n] == "" || dir < l.odd[n] {
			l.odd[n] = dir
		}
	}
}

// fingerprint returns the names, sizes and times of the files of a version, to detect changes.
func fingerprint(dir string) string {
	var s strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	for _, e := range entries[:min(len(entries), maxFiles)] {
		if st, err := e.Info(); err == nil {
			fmt.Fprintf(&s, "%s %d %d\n", e.Name(), st.Size(), st.ModTime().UnixNano())
		}
	}
	return s.String()
}
