package versions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Policy says which versions of a model are wanted. The zero Policy wants the latest one.
type Policy struct {
	Latest   int     // so many with the highest numbers; 0 is 1
	All      bool    // instead: every version
	Specific []int64 // instead: these
}

// choose returns the numbers of those found that are wanted, ascending. found ascends and
// holds no version that cannot be opened.
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
	Base   string // folder with a folder per version
	Policy Policy
	Labels map[string]int64 // names of versions
}

const (
	mostModels   = 1 << 10
	mostVersions = 1 << 12 // folders of a base that are looked at
	mostFiles    = 1 << 12 // of a version, whose sizes and times are compared
)

// Check finds what is wrong with the configurations of a server.
func Check(all []Config) error {
	if len(all) > mostModels {
		return fmt.Errorf("serve: %d models, at most %d are possible", len(all), mostModels)
	}
	names := map[string]bool{}
	for _, c := range all {
		switch {
		case c.Name == "" || strings.ContainsAny(c.Name, "/:"):
			return fmt.Errorf("serve: model %q: a name is not empty and has neither / nor :", c.Name)
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

// find lists the versions in a base folder: number to folder.
func find(base string) (map[int64]string, error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	if len(entries) > mostVersions {
		return nil, fmt.Errorf("more than %d entries; remove old versions", mostVersions)
	}
	found := map[int64]string{}
	for _, e := range entries {
		n, err := strconv.ParseInt(e.Name(), 10, 64)
		if err != nil || n < 0 || e.Name()[0] == '+' {
			continue
		}
		dir := filepath.Join(base, e.Name())
		if st, err := os.Stat(dir); err != nil || !st.IsDir() { // Stat follows links
			continue
		}
		if other, ok := found[n]; !ok || dir < other {
			found[n] = dir
		}
	}
	return found, nil
}

// look describes the files of a version, to see whether they have changed.
func look(dir string) string {
	var s strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	for _, e := range entries[:min(len(entries), mostFiles)] {
		if st, err := e.Info(); err == nil {
			fmt.Fprintf(&s, "%s %d %d\n", e.Name(), st.Size(), st.ModTime().UnixNano())
		}
	}
	return s.String()
}
