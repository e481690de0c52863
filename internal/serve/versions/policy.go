package versions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	Labels map[string]int64 // names of versions
}

const (
	maxModels   = 1 << 10
	maxVersions = 1 << 12 // entries of a base folder
	maxFiles    = 1 << 12 // files of a version whose sizes and times are compared
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

// find returns the folders of the versions in a base folder, by number.
func find(base string) (map[int64]string, error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	if len(entries) > maxVersions {
		return nil, fmt.Errorf("more than %d entries; remove old versions", maxVersions)
	}
	found := map[int64]string{}
	for _, e := range entries {
		n, err := strconv.ParseInt(e.Name(), 10, 64)
		if err != nil || n < 0 || e.Name()[0] == '+' {
			continue
		}
		dir := filepath.Join(base, e.Name())
		if st, err := os.Stat(dir); err != nil || !st.IsDir() { // follows links
			continue
		}
		if other, ok := found[n]; !ok || dir < other {
			found[n] = dir
		}
	}
	return found, nil
}

// look returns the names, sizes and times of the files of a version, to detect changes.
func look(dir string) string {
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
