package stream

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"
)

// Seen is the result of a look at one folder.
type Seen struct {
	Files []File // in any order
	Ended bool   // the end mark exists
}

// NewFolders watches folders from a position on, which may be the zero one. Folders that
// are not in the position are read from their beginning. past describes the files taken up
// to the position.
func NewFolders(rules Rules, names []string, at Position, past Past) (*Folders, error) {
	f := &Folders{rules: rules, past: past}
	rest := slices.Clone(at.Folders)
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("stream: %s is named twice, its records would count twice; remove one", name)
		}
		known := Folder{Name: name}
		rest = slices.DeleteFunc(rest, func(x Folder) bool {
			if x.Name == name {
				known = x
			}
			return x.Name == name
		})
		f.at = append(f.at, known)
	}
	if f.at = append(f.at, rest...); len(f.at) > maxFolders {
		return nil, fmt.Errorf("stream: %d folders, at most %d are possible", len(f.at), maxFolders)
	}
	f.before, f.changing = make([]map[string]File, len(names)), make([]map[string]File, len(names))
	f.taken = make([]map[string]taken, len(names))
	return f, nil
}

// At returns the point up to which each folder has been read.
func (f *Folders) At() []Folder { return slices.Clone(f.at) }

// Next decides from a look at all folders. quiet is the time since the last new data.
// After an error the stream must not be used.
func (f *Folders) Next(seen []Seen, quiet time.Duration) (v Verdict, err error) {
	ended, left := true, false
	for i := range seen {
		ready, more, err := f.ready(i, seen[i], &v)
		if err != nil {
			return Verdict{}, err
		}
		for _, file := range ready {
			if len(v.Span) >= f.rules.Most {
				more = true
				break
			}
			now, err := f.take(i, file)
			if err != nil {
				return Verdict{}, err
			}
			if file.Bytes > 0 {
				v.Span, v.Parts = append(v.Span, file.Name), append(v.Parts, Part{0, file.Bytes, now.digest})
			}
		}
		ended, left = ended && seen[i].Ended, left || more
	}
	switch {
	case len(v.Span) > 0 || left:
	case ended:
		v.End = "every folder has its end mark"
	case f.rules.Idle > 0 && quiet >= f.rules.Idle:
		v.End = fmt.Sprintf("nothing new for %v", f.rules.Idle)
	}
	return v, nil
}

// ready returns the new files of folder i that can be taken, in order. more reports that
// there are others, which cannot be taken yet. New parts of files taken before are added
// to v.
func (f *Folders) ready(i int, s Seen, v *Verdict) (ready []File, more bool, err error) {
	files := slices.DeleteFunc(slices.Clone(s.Files), func(x File) bool { return !Whole(x.Name) })
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	old := 0
	for old < len(files) && files[old].Name <= f.at[i].Last {
		old++
	}
	if err := f.late(i, files[:old], v); err != nil {
		return nil, false, err
	}
	if more, err = f.grown(i, files[:old], s.Ended, v); err != nil {
		return nil, false, err
	}
	before := f.before[i]
	f.before[i] = make(map[string]File, len(files)-old)
	for _, x := range files[old:] {
		f.before[i][x.Name] = x
	}
	for n, x := range files[old:] {
		if !s.Ended && before[x.Name] != x {
			return files[old : old+n], true, nil
		}
	}
	return files[old:], more, nil
}

// late finds files that sort before the last one taken and were not taken. It skips them, or returns
// an error.
func (f *Folders) late(i int, old []File, v *Verdict) error {
	if f.taken[i] == nil { // the first look
		return f.first(i, old, v)
	}
	at := &f.at[i]
	for _, x := range old {
		if _, known := f.taken[i][x.Name]; known {
			continue
		}
		if !f.rules.Late {
			return fmt.Errorf("stream: %s: %s came after %s had been taken and would be lost; give new files names that sort behind the old ones",
				at.Name, path.Base(x.Name), path.Base(at.Last))
		}
		f.skip(i, x, v)
	}
	if len(f.taken[i]) > maxTaken+2*len(old) { // most of them have been removed
		kept := make(map[string]taken, len(old))
		for _, x := range old {
			kept[x.Name] = f.taken[i][x.Name]
		}
		f.taken[i] = kept
	}
	return nil
}

// skip counts a file that came late among the taken ones, without reading it.
func (f *Folders) skip(i int, x File, v *Verdict) {
	at := &f.at[i]
	at.Files, at.Digest = at.Files+1, at.Digest+xxh3.HashString(x.Name)
	f.taken[i][x.Name] = taken{bytes: x.Bytes, stamp: x.Stamp, closed: true}
	v.Bad = append(v.Bad, Bad{x.Name, fmt.Sprintf("it came after %s had been taken; give new files names that sort behind the old ones", path.Base(at.Last))})
}

// first remembers the files that were taken before a resume. If there are more, some came late.
func (f *Folders) first(i int, old []File, v *Verdict) error {
	at := &f.at[i]
	f.taken[i] = map[string]taken{}
	digest, n := uint64(0), int64(len(old))
	for _, x := range old {
		digest += xxh3.HashString(x.Name)
	}
	late := n > at.Files || n == at.Files && digest != at.Digest
	if late && (!f.rules.Late || !f.past.Complete) {
		return fmt.Errorf("stream: %s: %d files sort up to %s, and not all are among the %d that were taken up to it: some came late and would be lost; give new files names that sort behind the old ones",
			at.Name, n, path.Base(at.Last), at.Files)
	}
	for _, x := range old {
		if _, read := f.past.Parts[x.Name]; late && !read && !f.past.Skipped[x.Name] && x.Bytes > 0 {
			f.skip(i, x, v)
			continue
		}
		was, err := f.remember(x)
		if err != nil {
			return err
		}
		f.taken[i][x.Name] = was
	}
	return nil
}

func (f *Folders) take(i int, x File) (now taken, err error) {
	at := &f.at[i]
	at.Last, at.Files, at.Digest = x.Name, at.Files+1, at.Digest+xxh3.HashString(x.Name)
	now, err = f.state(x)
	f.taken[i][x.Name] = now
	return now, err
}

// Whole reports, by its name, whether a file is a data file and not a temporary one.
func Whole(name string) bool {
	base := path.Base(name)
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return false
	}
	for _, suffix := range []string{".part", ".tmp", "._COPYING_"} {
		if strings.HasSuffix(base, suffix) {
			return false
		}
	}
	return true
}
