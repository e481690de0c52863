package export

import (
	"errors"
	"fmt"
	"io/fs"
)

// Open opens MODELS/NAME/VERSION. It reads every file, verifies all checksums and checks
// every size, so that later calls fail only if a file is cut short meanwhile. If the version changes
// another one, it also opens those that it builds upon.
func Open(dir string) (*Model, error) { return OpenAfter(dir, nil, nil) }

// OpenAfter is Open, but shares what it can with an open version, before, if that is not
// nil.
func OpenAfter(dir string, before *Model, pause Pause) (m *Model, err error) {
	for range openTries {
		m = &Model{dir: dir, pause: pause}
		if err = m.open(before); err == nil {
			return m, nil
		}
		err = errors.Join(err, m.Close())
		if m.manifest.Delta == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, fmt.Errorf("export: open: %s: %w", dir, err)
}

// openTries is the maximum number of attempts to open a version: the versions that it
// builds upon may become complete, and lose their changes, meanwhile.
const openTries = 3

func (m *Model) open(before *Model) error {
	manifest, err := readManifest(m.dir)
	if err != nil {
		return err
	}
	m.manifest = *manifest
	if m.manifest.Delta != nil {
		return m.openChain(before)
	}
	if m.base, err = openBase(m.dir, m.manifest, before.parsed(), m.pause); err != nil {
		return err
	}
	m.layers = make([][]mapped, len(m.base.tables))
	return m.readDense(m.base.dense)
}
