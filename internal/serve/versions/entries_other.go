//go:build !linux

package versions

import "os"

// entries calls each with the name of each entry of a folder, and whether it is a folder.
func entries(base string, each func(name []byte, isFolder bool)) error {
	all, err := os.ReadDir(base)
	for _, e := range all {
		each([]byte(e.Name()), e.IsDir())
	}
	return err
}
