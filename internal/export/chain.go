package export

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// maxChain is the maximum number of versions that one builds upon.
const maxChain = 1 << 12

// openChain opens a version that changes others. If it builds upon before, and the base of
// before is the latest, it starts from before; otherwise from the latest complete version.
func (m *Model) openChain(before *Model) error {
	root, next := filepath.Dir(filepath.Clean(m.dir)), m.manifest
	deltas := []Manifest{next}
	for {
		d := next.Delta
		if before.leadsTo(root, d, m.manifest.Delta.Base) {
			before.base.users.Add(1)
			m.base, m.layers = before.base, slices.Clone(before.layers)
			break
		}
		dir := versionDir(root, d.Previous)
		was, err := readManifest(dir)
		if err == nil && (was.Version != d.Previous || was.Taken != d.Taken) {
			err = fmt.Errorf("version %d has the time %d, but version %d changes the one of the time %d: it has been replaced", was.Version, was.Taken, next.Version, d.Taken)
		}
		if err == nil && len(deltas) == maxChain {
			err = fmt.Errorf("%d versions build upon it", maxChain)
		}
		if err != nil {
			return fmt.Errorf("it builds upon version %d: %w", d.Previous, err)
		}
		if was.Delta == nil {
			if m.base, err = openBase(dir, *was, before.parsed(), m.pause); err != nil {
				return fmt.Errorf("it builds upon version %d: %w", d.Previous, err)
			}
			m.layers = make([][]mapped, len(m.base.tables))
			break
		}
		deltas, next = append(deltas, *was), *was
	}
	for _, d := range slices.Backward(deltas) {
		dir := versionDir(root, d.Version)
		if d.Version == m.manifest.Version {
			dir = m.dir // perhaps not visible yet
		}
		if err := m.apply(dir, d); err != nil {
			return fmt.Errorf("changes of version %d: %w", d.Version, err)
		}
	}
	dense, err := readWhole(m.dir, m.manifest.Files[0])
	if err != nil {
		return err
	}
	return m.readDense(dense)
}

// leadsTo reports whether m is the version that d changes, upon the latest complete
// version. m may be nil.
func (m *Model) leadsTo(root string, d *Delta, latest int64) bool {
	return m != nil && m.base != nil && filepath.Dir(filepath.Clean(m.dir)) == root &&
		m.manifest.Version == d.Previous && m.manifest.Taken == d.Taken && m.base.manifest.Version >= latest
}

// apply adds the changes of a version.
func (m *Model) apply(dir string, of Manifest) (err error) {
	f := of.Files[1]
	if err := m.base.checkTables(&of); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", f.Name, err)
		}
	}()
	from, err := regular.Open(filepath.Join(dir, f.Name))
	if err != nil {
		return err
	}
	defer from.Close() // it was only read
	info, err := from.Stat()
	if err == nil {
		err = f.checkSize(info.Size())
	}
	offset := int64(0)
	for i := 0; i < len(of.Tables) && err == nil; i++ {
		// Each table has a separate allocation, which is freed when its layer is merged.
		var b []byte
		sections := f.Sections[tableSections*i:][:tableSections]
		if b, err = m.readSections(from, sections, offset); err != nil {
			break
		}
		offset += int64(len(b))
		var x mapped
		if x, _, err = deltaTable(of.Tables[i], m.base.layout.Tables[i], sections, b, m.pause); err == nil {
			m.layers[i] = addLayer(m.layers[i], x, m.pause)
		}
	}
	return err
}

// readSections reads and verifies the next sections of from, which begin at an offset of
// the file.
func (m *Model) readSections(from io.Reader, sections []section, offset int64) ([]byte, error) {
	b := make([]byte, (&file{Sections: sections}).size())
	return b, verify(b, sections, offset, func(piece []byte) error {
		m.pause.call()
		_, err := io.ReadFull(from, piece)
		return err
	})
}
