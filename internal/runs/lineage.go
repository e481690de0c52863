package runs

import (
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
)

// Parent returns the name of the run whose model the training began with, "" if there is none.
func (s *Summary) Parent() string {
	from := s.About.From
	if from == "" {
		return ""
	}
	if up := filepath.Dir(from); filepath.Base(up) == checkpoint.Folder {
		from = filepath.Dir(up)
	}
	return filepath.Base(from)
}

// Tree orders runs so that each follows the run whose model it began with. It returns how far to
// indent each run: by one more than its parent if several runs began with the parent's model.
func Tree(all []*Summary) (ordered []*Summary, depth []int) {
	parents, children := map[string]bool{}, map[string][]*Summary{}
	for _, r := range all {
		parents[r.Name] = true
	}
	for _, r := range all {
		p := r.Parent()
		if !parents[p] {
			p = ""
		}
		children[p] = append(children[p], r)
	}
	seen := map[*Summary]bool{}
	var add func(some []*Summary, d int)
	add = func(some []*Summary, d int) {
		for _, r := range some {
			if seen[r] {
				continue
			}
			seen[r] = true
			ordered, depth = append(ordered, r), append(depth, d)
			below, in := children[r.Name], d
			if len(below) > 1 {
				in++
			}
			add(below, in)
		}
	}
	add(children[""], 0)
	add(all, 0) // files that were changed by hand may name each other
	return ordered, depth
}
