package record

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/kafka"
)

// resolver finds the files of names. Ranges of one topic share its connections.
type resolver struct {
	logs  map[string]*kafka.Log
	plain map[string]bool // folders that belong to no table
	empty []File          // files without bytes, which are left out
}

// noFile means that a name stands for no file that has content.
type noFile struct{ error }

func (e noFile) Unwrap() error { return e.error }

// PathHint returns a hint about a path that does not exist.
func PathHint(p string) string {
	if wd, err := os.Getwd(); err == nil && !filepath.IsAbs(p) {
		return "relative names count from " + wd
	}
	return "check the path"
}

// printable rejects file names that cannot be printed safely. Messages contain names: a
// line break could forge a log line, and an escape sequence could clear a terminal.
func printable(name string) error {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("the file name %q holds a control character or is not UTF-8: rename the file", name)
	}
	return nil
}

// partitionsOf returns the partitions of a path of a file, outermost first.
func partitionsOf(path string) (all []Partition, err error) {
	if !strings.Contains(path, "=") {
		return nil, nil
	}
	folders := strings.Split(filepath.ToSlash(path), "/")
	for _, folder := range folders[:len(folders)-1] {
		name, text, ok := strings.Cut(folder, "=")
		if !ok || name == "" {
			continue
		}
		p := Partition{Name: decoded(name), Value: decoded(text), Missing: text == "" || text == hiveMissing}
		if err := printable(p.Name + p.Value); err != nil {
			return nil, fmt.Errorf("%s: the folder %q gives a field with a control character: rename the folder", path, folder)
		}
		if slices.ContainsFunc(all, func(q Partition) bool { return q.Name == p.Name }) {
			return nil, fmt.Errorf("%s: %s= occurs twice in the path; the value of the field %s is unclear: rename a folder", path, p.Name, p.Name)
		}
		all = append(all, p)
	}
	return all, nil
}

// hiveMissing is the value of a folder whose records have no value.
const hiveMissing = "__HIVE_DEFAULT_PARTITION__"

// MaxFiles is the maximum number of files of a dataset.
const MaxFiles = 1 << 20

// decoded replaces percent encodings, with which Hive and Spark write special characters.
func decoded(s string) string {
	if text, err := url.PathUnescape(s); err == nil {
		return text
	}
	return s
}
