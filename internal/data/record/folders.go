package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/delta"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// walker lists the files of folders.
type walker struct {
	*resolver
	pattern string // as given
	names   []string
	folders int
	above   []fs.FileInfo          // the folders being listed, outermost first
	match   func(name string) bool // nil: all files are data
}

// maxDepth is the maximum depth of folders in a folder.
const maxDepth = 64

// folder returns the files in a folder and in the folders in it, without hidden ones.
func (r *resolver) folder(p string) ([]File, error) {
	w := walker{resolver: r, pattern: p}
	if err := w.walk(p); err != nil {
		return nil, err
	}
	if len(w.names) == 0 {
		return nil, noFile{fmt.Errorf("%s: the folder holds no files; name one that does (names that begin with . or _ are skipped)", p)}
	}
	return r.several(p, w.names)
}

// glob returns the files that match a pattern, and those in the folders that match it. A part
// ** matches any number of folders. Other wildcards do not match hidden names.
func (r *resolver) glob(p string) ([]File, error) {
	if _, err := filepath.Match(p, ""); err != nil {
		return nil, fmt.Errorf("%s: %w; write \\[ for a bracket in a name", p, err)
	}
	parts := strings.Split(filepath.ToSlash(filepath.Clean(p)), "/")
	w := walker{resolver: r, pattern: p}
	deep := slices.Index(parts, "**")
	if deep < 0 {
		deep = len(parts)
	} else {
		w.match = func(name string) bool {
			return matchParts(parts[deep:], strings.Split(filepath.ToSlash(name), "/")[deep:])
		}
	}
	root := strings.Join(parts[:deep], "/")
	switch {
	case deep == 0: // of a relative name
		root = "."
		w.match = func(name string) bool { return matchParts(parts, strings.Split(filepath.ToSlash(name), "/")) }
	case root == "":
		root = "/"
	}
	names, err := filepath.Glob(root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	var tables []File
	for _, name := range names {
		if w.match == nil && delta.IsTable(name) {
			more, err := r.delta(name, delta.Current)
			if err != nil {
				return nil, err
			}
			tables = append(tables, more...)
			continue
		}
		if err := w.found(name, hides(parts[:deep], name)); err != nil {
			return nil, err
		}
	}
	if len(w.names) == 0 && len(tables) == 0 {
		return nil, noFile{fmt.Errorf("%s matches no file; %s", p, PathHint(p))}
	}
	if len(w.names) == 0 {
		return tables, nil
	}
	files, err := r.several(p, w.names)
	return append(tables, files...), err
}

// found adds a name that matches a glob: a file, or the files in a folder.
func (w *walker) found(name string, skip bool) error {
	if skip {
		return nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return w.walk(name)
	case w.match != nil:
		return nil // ** is a folder
	}
	return w.add(name)
}

// matchParts reports whether the parts of a name match those of a pattern, of which ** matches
// any number.
func matchParts(pattern, name []string) bool {
	ends := make([]bool, len(name)+1) // the pattern so far matches the first parts of the name
	ends[0] = true
	for _, p := range pattern {
		next := make([]bool, len(ends))
		for i := range ends {
			if p == "**" {
				next[i] = ends[i] || i > 0 && next[i-1]
			} else if i > 0 && ends[i-1] {
				next[i], _ = filepath.Match(p, name[i-1])
			}
		}
		ends = next
	}
	return ends[len(name)]
}

// several returns the files of a pattern. Empty files are skipped, because programs that
// write parts leave some; if all are empty it fails.
func (r *resolver) several(pattern string, names []string) ([]File, error) {
	slices.Sort(names)
	names = slices.Compact(names) // ** may match a file and a folder above it
	var files []File
	for _, name := range names {
		info, err := os.Lstat(name)
		isLink := err == nil && info.Mode()&fs.ModeSymlink != 0
		if isLink {
			info, err = os.Stat(name)
		}
		if err != nil {
			return nil, gone(name, err)
		}
		f, err := r.local(name, info, isLink)
		if info.Mode().IsRegular() && info.Size() == 0 {
			if err == nil {
				r.empty = append(r.empty, f)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, noFile{fmt.Errorf("%s: every file is empty; check the program that wrote them", pattern)}
	}
	return files, nil
}

// hidden reports whether programs skip files and folders of this name: markers such as
// _SUCCESS, checksums such as .part-0.crc, and output that is not complete, in _temporary.
func hidden(name string) bool { return name[0] == '.' || name[0] == '_' }

// walk lists a folder.
func (w *walker) walk(p string) error {
	if err := w.outside(p, p); err != nil {
		return err
	}
	info, err := os.Stat(p)
	if err != nil {
		return gone(p, err)
	}
	for _, above := range w.above {
		if os.SameFile(above, info) {
			return fmt.Errorf("%s is a link to a folder that contains it: remove the link", p)
		}
	}
	if w.folders++; len(w.above) == maxDepth || w.folders > MaxFiles {
		return fmt.Errorf("%s: folders are more than %d deep, or more than %d; name a folder that holds only data", w.pattern, maxDepth, MaxFiles)
	}
	entries, err := list(p, MaxFiles-len(w.names))
	if err != nil {
		return gone(p, err)
	}
	w.above = append(w.above, info)
	defer func() { w.above = w.above[:len(w.above)-1] }()
	for _, e := range entries {
		name := filepath.Join(p, e.Name())
		if isDir(e, name) {
			err = w.walk(name)
		} else if w.match != nil && !w.match(name) {
			continue
		} else if err = printable(name); err == nil && w.match == nil && isDocument(name) {
			err = fmt.Errorf("%s contains %s, which is not a file of records; name the files of records, such as %s", p, e.Name(), filepath.Join(p, "*.csv"))
		} else if err == nil {
			err = w.add(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list returns the entries of a folder that are not hidden, by name. More than most are an error, before
// they fill the memory.
func list(folder string, most int) (all []fs.DirEntry, err error) {
	const some = 1 << 10
	root, err := os.OpenRoot(folder) // fails if it is no folder
	if err != nil {
		return nil, err
	}
	defer root.Close()
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for {
		next, err := d.ReadDir(some)
		all = append(all, slices.DeleteFunc(next, func(e fs.DirEntry) bool { return hidden(e.Name()) })...)
		switch {
		case len(all) > most:
			return nil, tooMany(folder)
		case errors.Is(err, io.EOF):
			slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
			return all, nil
		case err != nil:
			return nil, err
		}
	}
}

// tooMany is the error for a name of more than MaxFiles files.
func tooMany(name string) error {
	return fmt.Errorf("%s: more than %d files; join them into fewer, larger ones", name, MaxFiles)
}

// gone adds advice to the error of a name that its folder has listed, and that no longer exists.
func gone(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: the folder with %s changed while it was listed, or this is a link to nothing; start again when no program writes the folder", err, filepath.Base(name))
}

// isDir reports whether an entry is a folder, or a link to one.
func isDir(e fs.DirEntry, name string) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func (w *walker) add(name string) error {
	if len(w.names) == MaxFiles {
		return tooMany(w.pattern)
	}
	w.names = append(w.names, name)
	return printable(name)
}

// hides reports whether a wildcard of a pattern matches a hidden name.
func hides(pattern []string, name string) bool {
	parts := strings.Split(filepath.ToSlash(name), "/")
	if len(parts) != len(pattern) {
		return false
	}
	for i, part := range parts {
		if part != "" && part != "." && part != ".." && hidden(part) && pattern[i][0] != part[0] {
			return true
		}
	}
	return false
}

// isDocument reports whether a file documents data and contains none. A name with .json may also
// be a file of records, as Spark and BigQuery write them.
func isDocument(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	about := func(word string) bool { return strings.HasPrefix(name, word) }
	if slices.ContainsFunc([]string{"readme", "license", "sha256sums", "md5sums"}, about) {
		return true
	}
	ext := filepath.Ext(name)
	if ext == ".json" {
		head, err := startOf(path)
		return err != nil || len(head) > 0 && !IsObjects(head)
	}
	return slices.Contains([]string{".md", ".yaml", ".yml", ".html", ".pdf"}, ext)
}

// Full returns those of some files that show what their records are, or all if none does. A file
// without records does not, nor one whose only line is the header of another.
func Full(files []File) []File {
	headers := map[string]bool{}
	alone := make([]string, len(files)) // the only line of a file
	empty := make([]bool, len(files))
	for i := range files {
		line, more, err := files[i].firstLine()
		switch {
		case err != nil: // its reader reports the fault
		case more:
			headers[line] = !hasNumber(line)
		default:
			alone[i], empty[i] = line, line == ""
		}
	}
	var full []File
	for i := range files {
		if !empty[i] && (alone[i] == "" || !headers[alone[i]]) {
			full = append(full, files[i])
		}
	}
	if len(full) == 0 {
		return files
	}
	return full
}

// hasNumber reports whether a field of a line is a number, as few fields of headers are.
func hasNumber(line string) bool {
	fields := strings.FieldsFunc(line, func(c rune) bool { return slices.Contains(Delimiters(), string(c)) })
	return slices.ContainsFunc(fields, func(s string) bool {
		_, why := value.ParseNumber([]byte(s))
		return why == ""
	})
}

// firstLine returns the first line of a file, and whether it has more. Both are only defined as
// far as Full needs: a file without rows has neither.
func (f *File) firstLine() (line string, more bool, err error) {
	g := *f
	if g.Log != nil {
		return "", true, nil
	}
	if err := g.FindPacking(); err != nil {
		return "", false, err
	}
	head, err := g.head()
	if err != nil {
		return "", false, err
	}
	if TypedIn(head) != "" {
		src, err := g.Open()
		if err != nil {
			return "", false, err
		}
		defer src.Close()
		t, err := openTable(src, g.size)
		return "", err == nil && slices.ContainsFunc(t.Groups(), func(rows int64) bool { return rows > 0 }), err
	}
	first, rest, _ := bytes.Cut(bytes.TrimSpace(bytes.TrimPrefix(head, []byte(BOM))), []byte{'\n'})
	return string(bytes.TrimSpace(first)), len(rest) > 0 || len(head) == headBytes, nil
}

// local returns a local file. A name that is a link is checked at both ends.
func (r *resolver) local(name string, info fs.FileInfo, isLink bool) (File, error) {
	if !info.Mode().IsRegular() {
		return File{}, fmt.Errorf("%s is not a regular file; copy its content to one, because ranks read it at several places", name)
	}
	if isLink {
		if real, err := filepath.EvalSymlinks(name); err == nil {
			if err := r.inTable(name, filepath.Dir(real)); err != nil {
				return File{}, err
			}
		}
	}
	if err := r.outside(name, filepath.Dir(name)); err != nil {
		return File{}, err
	}
	f := File{Name: name, Bytes: info.Size(), size: info.Size(), time: info.ModTime()}
	var err error
	f.Partitions, err = partitionsOf(name)
	return f, err
}
