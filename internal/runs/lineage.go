package runs

import (
	"path/filepath"
	"slices"

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

// Tree orders runs so that each follows the run whose model it began with. branch has what is drawn before
// each: nothing, unless several runs began with one. These are its branches, and the runs after each of
// them are drawn in its column:
//
//	a
//	├─ b
//	│  c
//	└─ d
func Tree(all []*Summary) (ordered []*Summary, branch []string) {
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
	var add func(some []*Summary, before string, forks bool)
	add = func(some []*Summary, before string, forks bool) {
		some = slices.DeleteFunc(slices.Clone(some), func(r *Summary) bool { return seen[r] })
		for i, r := range some {
			if seen[r] {
				continue
			}
			seen[r] = true
			own, below := before, before
			switch {
			case forks && i+1 < len(some):
				own, below = before+"├─ ", before+"│  "
			case forks:
				own, below = before+"└─ ", before+"   "
			}
			ordered, branch = append(ordered, r), append(branch, own)
			add(children[r.Name], below, len(children[r.Name]) > 1)
		}
	}
	add(children[""], "", false)
	add(all, "", false) // files that were changed by hand may name each other
	return ordered, branch
}
