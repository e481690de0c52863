package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/adult"
	"github.com/wdlrun/wdlrun/internal/data/delta"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/remote"
)

// Builtin is the prefix of the names of embedded files.
const Builtin = "builtin:"

// fileScheme is the prefix of the URLs of local files.
const fileScheme = "file://"

// Resolve returns the files of names, globs and folders, in the order given. The files of
// a glob or folder are sorted by name.
func Resolve(patterns []string) ([]File, error) {
	files, _, err := ResolveAll(patterns)
	return files, err
}

// ResolveAll is Resolve, and also returns the files without bytes, which Resolve leaves out, whether or not
// err is that there are no others.
func ResolveAll(patterns []string) (files, empty []File, err error) {
	r := resolver{logs: map[string]*kafka.Log{}}
	files, err = r.all(patterns)
	return files, r.empty, err
}

// all returns the files of several names.
func (r *resolver) all(patterns []string) (files []File, err error) {
	for _, p := range patterns {
		more, err := r.one(p)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
		if len(files) > MaxFiles {
			return nil, fmt.Errorf("more than %d files; join them into fewer, larger ones", MaxFiles)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("no file is named; give a path, a glob such as day_*.csv, a folder, or builtin:adult.data")
	}
	return files, distinct(files)
}

// distinct returns an error if a file occurs twice.
func distinct(files []File) error {
	first := map[string]bool{}
	for _, f := range files {
		name := f.Name
		if f.content == nil && f.Log == nil && f.remote == nil {
			name = filepath.Clean(name)
		}
		if first[name] {
			return fmt.Errorf("%s is named twice, its records would count twice; remove one", f.Name)
		}
		first[name] = true
	}
	return nil
}

// LocalPath returns the path in a file:// URL of a local file, and any other p unchanged.
func LocalPath(p string) string {
	if path, ok := strings.CutPrefix(p, fileScheme); ok {
		if path = strings.TrimPrefix(path, "localhost"); filepath.IsAbs(path) {
			return path
		}
	}
	return p
}

// PathOf returns the path of a local file named by a path or a file:// URL.
func PathOf(p string) (string, error) {
	if path := LocalPath(p); path != p {
		return path, nil
	}
	if strings.HasPrefix(p, fileScheme) {
		return "", fmt.Errorf("%s: a file URL has no host and an absolute path: file:///data/clicks.csv", p)
	}
	if scheme, at, ok := strings.Cut(p, "://"); ok {
		if _, path, _ := strings.Cut(at, "/"); scheme == "hdfs" {
			return "", fmt.Errorf("%s: HDFS is read by HTTP, also erasure-coded files: name webhdfs://NAMENODE:9870/%s, with the HTTP port of the name node or of HttpFS", p, path)
		}
		return "", fmt.Errorf("%s: %s:// is not supported; copy the file here and give its path", p, scheme)
	}
	return p, nil
}

// one returns the files of one name.
func (r *resolver) one(p string) ([]File, error) {
	switch {
	case strings.HasPrefix(p, kafka.Scheme):
		return r.topic(p)
	case remote.Is(p):
		return r.objects(p)
	}
	if name, ok := strings.CutPrefix(p, Builtin); ok {
		b, err := adult.Open(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		return []File{{Name: p, Bytes: int64(len(b)), size: int64(len(b)), content: b}}, nil
	}
	if p == "" {
		return nil, errors.New("an empty file name")
	}
	if err := printable(p); err != nil {
		return nil, err
	}
	p, err := PathOf(p)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(p)
	switch {
	case err == nil && info.IsDir() && delta.IsTable(p):
		return r.delta(p, delta.Current)
	case err == nil && info.IsDir():
		return r.folder(p)
	case err == nil:
		here, err := os.Lstat(p)
		if err != nil {
			return nil, err
		}
		f, err := r.local(p, info, here.Mode()&fs.ModeSymlink != 0)
		if err == nil && f.Bytes == 0 {
			r.empty = append(r.empty, f)
			return nil, noFile{fmt.Errorf("%s: the file is empty; check the program that wrote it", p)}
		}
		return []File{f}, err
	case errors.Is(err, fs.ErrNotExist) && isVersion(p):
		dir, version := versionOf(p)
		return r.delta(dir, version)
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(p, "*?["):
		return r.glob(p)
	case errors.Is(err, fs.ErrNotExist) && noVersion(p) != nil:
		return nil, noVersion(p)
	case errors.Is(err, fs.ErrNotExist) && p == "-":
		return nil, noFile{errors.New("-: records are not read from standard input, which every rank would need more than once; give the name of the file, also of a compressed one, or write the records to a file first")}
	case errors.Is(err, fs.ErrNotExist):
		return nil, noFile{fmt.Errorf("%s: %w; %s", p, fs.ErrNotExist, PathHint(p))}
	}
	return nil, err
}
