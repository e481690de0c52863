package arrays

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// An embedding table of HugeCTR is a folder with the files key, int64, and emb_vector, float32, both
// little-endian and without a header: row i has the vector of key i.
const (
	pairKeys    = "key"
	pairVectors = "emb_vector"
	maxPairs    = 1 << 28 // keys, which are held in memory
)

// isPair reports whether a path is such a folder.
func isPair(path string) bool {
	for _, name := range []string{pairKeys, pairVectors} {
		if info, err := os.Stat(filepath.Join(path, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// pair adds the table of a folder as an array with values. The width of its vectors follows from the
// sizes of the files, and is compared with that of the model later.
func (f *Folder) pair(path, name string) error {
	var sizes [2]int64
	var files [2]*os.File
	for i, of := range []string{pairKeys, pairVectors} {
		file, err := regular.Open(filepath.Join(path, of))
		if err != nil {
			return err
		}
		f.files = append(f.files, file)
		info, err := file.Stat()
		if err != nil {
			return err
		}
		files[i], sizes[i] = file, info.Size()
	}
	rows := sizes[0] / 8
	switch {
	case rows == 0 || sizes[0]%8 != 0 || rows > maxPairs:
		return fmt.Errorf("%s: %s has %d bytes, not 8 for each of 1 to %d keys", path, pairKeys, sizes[0], maxPairs)
	case sizes[1] == 0 || sizes[1]%(4*rows) != 0:
		return fmt.Errorf("%s: %s has %d bytes, which are no vectors of float32 for %d keys: one of the files is cut short", path, pairVectors, sizes[1], rows)
	}
	a := &Array{Name: name, Shape: []int{int(rows), int(sizes[1] / (4 * rows))}, Values: make([]string, 0, rows)}
	a.kind, _ = kindNamed("F32")
	a.parts = []part{{from: files[1], origin: []int{0, 0}, shape: a.Shape, strides: dense(a.Shape, false)}}
	b := make([]byte, 8<<10)
	for at := int64(0); at < sizes[0]; at += int64(len(b)) {
		b = b[:min(int64(len(b)), sizes[0]-at)]
		if err := readAt(files[0], b, at); err != nil {
			return errors.Join(fmt.Errorf("%s: %s", path, pairKeys), err)
		}
		for i := 0; i < len(b); i += 8 {
			a.Values = append(a.Values, strconv.FormatInt(int64(le.Uint64(b[i:])), 10))
		}
	}
	return f.take(name, []*Array{a})
}
