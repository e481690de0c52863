package arrays

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Folder holds the arrays of a file or of all files of a folder.
type Folder struct {
	Arrays []*Array
	Texts  map[string][]string // lists of strings, by name
	Notes  []string            // what has been left out
	files  []*os.File
}

func (f *Folder) take(base string, all []*Array) error {
	for _, a := range all {
		a.File = base
		if len(f.Arrays) >= maxArrays {
			return fmt.Errorf("more than %d arrays", maxArrays)
		}
		if other := f.Find(a.Name); other != nil {
			if err := other.join(a); err != nil {
				return err
			}
			continue
		}
		f.Arrays = append(f.Arrays, a)
	}
	return nil
}

// Find returns the array of a name; nil: there is none.
func (f *Folder) Find(name string) *Array {
	i := slices.IndexFunc(f.Arrays, func(a *Array) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return f.Arrays[i]
}

// Close closes the files.
func (f *Folder) Close() error {
	var errs []error
	for _, file := range f.files {
		if err := file.Close(); !errors.Is(err, fs.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
