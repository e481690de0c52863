package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// readFolder reads the manifests and pins of a folder of versions. look is called with each folder of
// a version and its manifest, and returns a fault.
func readFolder(root string, look func(dir string, m *Manifest) error) (f ledger.Folder, all map[int64]*Manifest, err error) {
	f.Versions, all = map[int64]ledger.Version{}, map[int64]*Manifest{}
	if f.Pins, _, err = ledger.ReadPins(root); err != nil {
		return f, nil, err
	}
	numbers, err := versionsIn(root)
	for _, n := range numbers {
		dir, v := versionDir(root, n), ledger.Version{Number: n}
		st, err := os.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its name has leading zeros, or it was removed meanwhile
		}
		var m *Manifest
		switch {
		case err == nil && st.Mode()&fs.ModeSymlink != 0:
			err = errors.New("it is a link")
		case err == nil:
			m, err = readManifest(dir)
		}
		if err == nil && m.Version != n {
			err = fmt.Errorf("%s is of version %d: it is a copy, which servers open, but upon which nothing is published; to make a version of those rows: wdlrun publish %s -rollback %[2]d", manifestName, m.Version, root)
		}
		if err == nil {
			all[n], v.Taken, v.Lineage = m, m.Taken, cmp.Or(m.Lineage, m.Run)
			if d := m.Delta; d != nil {
				v.Delta = &ledger.Delta{Previous: d.Previous, Taken: d.Taken}
			}
			err = look(dir, m)
		}
		if err != nil {
			v.Fault = err.Error()
		}
		f.Versions[n] = v
	}
	return f, all, err
}

// sizes is a look that compares the sizes of files with the manifest.
func sizes(dir string, m *Manifest) error {
	for _, f := range m.Files {
		st, err := os.Lstat(filepath.Join(dir, f.Name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s is missing", f.Name)
		case err != nil:
			return err
		case !st.Mode().IsRegular():
			return fmt.Errorf("%s is not a regular file", f.Name)
		}
		if err := f.checkSize(st.Size()); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// checksums is a look that verifies all files.
func checksums(dir string, _ *Manifest) error {
	_, err := verifyVersion(dir)
	return err
}

// prune removes the versions of trainings that keep does not name. last is the last version.
func prune(ctx context.Context, d disk, root string, keep ledger.Keep, last int64) error {
	f, _, err := readFolder(root, sizes)
	if err != nil {
		return err
	}
	unlock, err := lockLedger(ctx, root)
	if err != nil {
		return err
	}
	var old []string
	if f.Pins, _, err = ledger.ReadPins(root); err == nil { // no label changes while the ledger is locked
		for _, n := range f.Remove(keep, last, time.Now()) {
			to := filepath.Join(root, fmt.Sprint(publishPrefix, "old-", n))
			err = errors.Join(err, os.RemoveAll(to), d.Rename(versionDir(root, n), to))
			old = append(old, to)
		}
	}
	unlock()
	for _, dir := range old {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// Listed is a version in a folder.
type Listed struct {
	Version  int64    `json:"version"`
	Kind     string   `json:"kind"`               // complete, changes or unknown
	Previous *int64   `json:"previous,omitempty"` // the version that it changes
	Lineage  string   `json:"lineage,omitempty"`
	Step     int64    `json:"step"`
	Taken    int64    `json:"taken,omitempty"` // when the training had done the step, Unix nanoseconds
	Rollback *int64   `json:"rollback,omitempty"`
	Pins     []string `json:"pins,omitempty"`
	Window   *Window  `json:"window,omitempty"`
	State    string   `json:"state"` // ok, or why it cannot be opened
}

// Listing describes a folder of versions.
type Listing struct {
	Dir      string           `json:"dir"`
	Versions []Listed         `json:"versions"`         // ascending
	Pins     map[string]int64 `json:"pins"`             // by label
	Faults   []string         `json:"faults,omitempty"` // files in pins that are not used
	Hold     *ledger.Hold     `json:"hold,omitempty"`
}

// List lists a folder of versions. verify reads all files and verifies their checksums; otherwise
// only their sizes are compared.
func List(dir string, verify bool) (l Listing, err error) {
	look := sizes
	if verify {
		look = checksums
	}
	f, all, err := readFolder(dir, look)
	if err != nil {
		return l, fmt.Errorf("export: list: %s: %w", dir, err)
	}
	l = Listing{Dir: dir, Versions: []Listed{}, Pins: f.Pins, Hold: ledger.ReadHold(dir)}
	_, l.Faults, _ = ledger.ReadPins(dir)
	for _, n := range f.Numbers() {
		x := Listed{Version: n, Kind: "unknown", State: "ok"}
		if m := all[n]; m != nil {
			x.Kind, x.Lineage, x.Step, x.Taken, x.Rollback, x.Window = "complete", f.Versions[n].Lineage, m.Step, m.Taken, m.Rollback, m.Window
			if m.Delta != nil {
				x.Kind, x.Previous = "changes", &m.Delta.Previous
			}
		}
		if _, err := f.Chain(n); err != nil {
			x.State = strings.TrimPrefix(err.Error(), fmt.Sprintf("version %d: ", n))
		}
		for label, at := range f.Pins {
			if at == n {
				x.Pins = append(x.Pins, label)
			}
		}
		slices.Sort(x.Pins)
		l.Versions = append(l.Versions, x)
	}
	return l, nil
}

// Bad returns the versions that cannot be opened.
func (l *Listing) Bad() (all []int64) {
	for _, v := range l.Versions {
		if v.State != "ok" {
			all = append(all, v.Version)
		}
	}
	return all
}

const rollbackPrefix = ".rollback-"

// Pin makes a label name a version, which then stays until Unpin. If no training writes to the
// folder, the version becomes complete now; otherwise the training completes it, and later is true.
func Pin(ctx context.Context, dir, label string, n int64) (later bool, err error) {
	err = ledger.CheckLabel(label)
	if err == nil && strings.Trim(label, "0123456789") == "" {
		err = fmt.Errorf("the label %q is a number, as versions are: give one with a letter, such as stable", label)
	}
	if err != nil {
		return false, fmt.Errorf("export: pin: %w", err)
	}
	err = change(ctx, dir, func() error {
		m, err := openIn(dir, n)
		if err != nil {
			return err
		}
		defer m.Close() // it was only read
		if err := ledger.WritePin(dir, label, n); err != nil || m.manifest.Delta == nil {
			return err
		}
		unlock, busy, err := lockFile(dir, writerLock)
		if err != nil || busy {
			later = busy
			return err
		}
		defer unlock()
		c, err := m.snapshot()
		if err != nil {
			return err
		}
		next := m.manifest
		return fill(ctx, system{}, dir, filepath.Join(dir, rollbackPrefix+"full"), c, &next, func(rename func() error) error { return rename() })
	})
	if err != nil {
		return false, fmt.Errorf("export: pin: %s: %w", dir, err)
	}
	return later, nil
}

// Unpin removes a label. It returns false if there was none.
func Unpin(ctx context.Context, dir, label string) (was bool, err error) {
	if err = ledger.CheckLabel(label); err == nil {
		err = change(ctx, dir, func() (err error) {
			was, err = ledger.RemovePin(dir, label)
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("export: unpin: %s: %w", dir, err)
	}
	return was, nil
}

// Hold stops publications into a folder until Release. A hold without a reason leaves an earlier one
// as it is. It returns false if it changed nothing.
func Hold(ctx context.Context, dir, reason string) (changed bool, err error) {
	err = change(ctx, dir, func() error {
		h := ledger.ReadHold(dir)
		if changed = h == nil || reason != "" && reason != h.Reason; !changed {
			return nil
		}
		return ledger.WriteHold(dir, ledger.Hold{Reason: cmp.Or(reason, "by hand")}.Replacing(dir))
	})
	if err != nil {
		return false, fmt.Errorf("export: hold: %s: %w", dir, err)
	}
	return changed, nil
}

// Release ends a hold and returns it, nil if there was none.
func Release(ctx context.Context, dir string) (was *ledger.Hold, err error) {
	err = change(ctx, dir, func() error {
		was = ledger.ReadHold(dir)
		_, err := ledger.RemoveHold(dir)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("export: release: %s: %w", dir, err)
	}
	return was, nil
}

// Rollback holds a folder and publishes the rows of version n as its highest version, which is
// complete. If the highest version is that of an earlier Rollback to n, it stays the highest, and
// created is false.
func Rollback(ctx context.Context, dir string, n int64) (version int64, created bool, err error) {
	err = change(ctx, dir, func() error {
		m, err := openIn(dir, n)
		if err != nil {
			return err
		}
		defer m.Close() // it was only read
		if err := ledger.WriteHold(dir, ledger.Hold{Reason: fmt.Sprintf("rollback to version %d", n), Rollback: &n}.Replacing(dir)); err != nil {
			return err
		}
		version, created, err = rollBack(ctx, system{}, dir, m)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("export: rollback: %s: %w", dir, err)
	}
	return version, created, nil
}

// change calls f while no other process changes which versions, pins and holds exist. It removes the
// files of a process that was killed meanwhile.
func change(ctx context.Context, dir string, f func() error) error {
	if st, err := os.Stat(dir); err != nil {
		return err
	} else if !st.IsDir() {
		return errors.New("it is not a folder")
	}
	unlock, err := lockLedger(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := removeTemporary(dir, rollbackPrefix); err != nil {
		return err
	}
	return f()
}

// openIn opens a version of a folder. The error lists the versions that exist.
func openIn(dir string, n int64) (*Model, error) {
	err := ownFolder(dir, filepath.Base(versionDir(dir, n)), false)
	if errors.Is(err, fs.ErrNotExist) {
		all, _ := versionsIn(dir)
		if len(all) == 0 {
			return nil, fmt.Errorf("version %d is not there: the folder has no versions", n)
		}
		return nil, fmt.Errorf("version %d is not there: the folder has %s from %d to %d", n, plural.Of(len(all), "version"), all[0], all[len(all)-1])
	}
	if err != nil {
		return nil, err
	}
	return Open(versionDir(dir, n))
}

// rollBack publishes an open version under a new number.
func rollBack(ctx context.Context, d disk, dir string, m *Model) (version int64, created bool, err error) {
	highest, err := highestIn(dir)
	if err != nil {
		return 0, false, err
	}
	from, next := m.Version(), m.manifest
	if top, err := verifyVersion(versionDir(dir, highest)); err == nil && top.Rollback != nil && *top.Rollback == from {
		return highest, false, nil
	}
	if next.Version, err = ledger.Next(0, highest); err != nil {
		return 0, false, err
	}
	next.Rollback = &from
	if next.Taken == 0 {
		next.Taken = time.Now().UnixNano() // so that a training removes it like its own versions
	}
	tmp := filepath.Join(dir, fmt.Sprint(rollbackPrefix, next.Version))
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return 0, false, err
	}
	defer os.RemoveAll(tmp) // does nothing after the rename
	if m.manifest.Delta == nil {
		err = linkFiles(d, m, tmp, &next)
	} else {
		var c *snapshot
		if c, err = m.snapshot(); err == nil {
			err = c.write(ctx, d, tmp, &next)
		}
	}
	if err == nil {
		err = d.Sync(tmp)
	}
	if err == nil {
		err = d.Rename(tmp, versionDir(dir, next.Version))
	}
	if err != nil {
		return 0, false, err
	}
	return next.Version, true, d.Sync(dir)
}

// linkFiles links the files of a complete version to another folder, or copies them if the file
// system has no links, and writes a manifest there.
func linkFiles(d disk, m *Model, to string, next *Manifest) error {
	for i, f := range m.manifest.Files {
		from, path := filepath.Join(m.dir, f.Name), filepath.Join(to, f.Name)
		if st, err := os.Lstat(from); err == nil && st.Mode().IsRegular() && os.Link(from, path) == nil {
			continue
		}
		if _, err := whole(d, to, f.Name, content(m.base.texts[i])); err != nil {
			return err
		}
	}
	return writeManifest(d, to, next)
}
