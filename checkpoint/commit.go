package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Commit makes the parts named in m.Files, in order of part, the checkpoint of m.Step, and
// replaces an existing checkpoint of that step. Exactly one rank calls it, after the Close of
// every rank. It checks that all parts exist, that their directories are intact, and that
// section names are unique. If m.Base names a step, the checkpoint of that step must exist.
//
// After an error readers see no change, and Abandon removes the parts. If only the last fsync
// fails, the new checkpoint is already visible but may not survive a loss of power.
//
// Parts with Hosts may be missing here. Each of their hosts then calls Adopt first.
func Commit(root string, m Manifest) error { return commit(system{}, root, m) }

func commit(d disk, root string, m Manifest) error {
	m.FormatVersion, m.WorldSize = 1, len(m.Files)
	if m.Time.IsZero() {
		m.Time = time.Now()
	}
	m.Time = m.Time.UTC()
	fail := func(err error) error {
		dir := tmpDir(root, m.Step)
		return fmt.Errorf("checkpoint: commit: step %d: %s: %w%s", m.Step, dir, err, advice(err))
	}
	if m.Base != nil {
		_, sum, err := readManifest(dirOf(root, m.Base.Step))
		if err != nil {
			return fail(fmt.Errorf("its base of step %d: %w", m.Base.Step, err))
		}
		m.FormatVersion, m.Base = 2, &Link{m.Base.Step, sum}
	}
	if err := errors.Join(checkTurn(root), m.check()); err != nil {
		return fail(err)
	}
	text, err := m.encode()
	if err != nil {
		return fail(fmt.Errorf("%s: %w", manifestName, err))
	}
	if err := commitText(d, root, &m, text, false); err != nil {
		return fail(err)
	}
	return nil
}

// commitText commits the parts in the temporary directory with the text of their manifest. If
// alone is set, the manifest is committed although no part is there.
func commitText(d disk, root string, m *Manifest, text []byte, alone bool) error {
	dir := tmpDir(root, m.Step)
	parts, faults := readParts(dir, m)
	alone = alone && !slices.ContainsFunc(faults, func(err error) bool { return !errors.Is(err, os.ErrNotExist) })
	unnamed := false // a part is elsewhere, and the manifest does not name its host
	for p, err := range faults {
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrNotExist) || len(m.Files[p].Hosts) == 0 && !alone {
			return err
		}
		unnamed = unnamed || len(m.Files[p].Hosts) == 0
	}
	if err := uniqueSections(m, parts); err != nil {
		return err
	}
	if err := removeOtherFiles(d, dir, m); err != nil {
		return err
	}
	for p, f := range m.Files { // a trailer that Written has read may not be durable yet
		if parts[p] == nil {
			continue // on other hosts
		}
		if err := d.Sync(filepath.Join(dir, f.Name)); err != nil {
			return err
		}
	}
	if unnamed {
		if err := writeFile(d, filepath.Join(dir, elsewhereName), nil); err != nil {
			return err
		}
	}
	if err := writeFile(d, filepath.Join(dir, manifestName), text); err != nil {
		return err
	}
	if err := d.Sync(dir); err != nil {
		return err
	}
	return publish(d, root, m.Step)
}

// Adopt commits, on a host that does not share root with the host of Commit, the parts of a
// checkpoint that this host has written, with the manifest of Commit. Without any parts the
// manifest alone is stored, also of a checkpoint whose manifest names no hosts. A checkpoint
// that is already here with the same manifest is not changed.
func Adopt(root string, manifest []byte) error { return adopt(system{}, root, manifest) }

func adopt(d disk, root string, manifest []byte) error {
	if len(manifest) > maxManifest {
		return fmt.Errorf("checkpoint: adopt: %s: a manifest of %d bytes, at most %d are allowed", root, len(manifest), maxManifest)
	}
	m, sum, err := parseManifest(manifest)
	if err != nil {
		return fmt.Errorf("checkpoint: adopt: %s: manifest: %w", root, err)
	}
	if _, have, err := readManifest(Dir(root, m.Step)); err == nil && have == sum {
		return nil
	}
	tmp, err := openFolder(tmpDir(root, m.Step), true) // there is none if no rank wrote a part here
	if err == nil {
		tmp.Close()
		if err = acceptRun(d, root, m.Run); err == nil {
			err = commitText(d, root, m, manifest, true)
		}
	}
	if err != nil {
		return fmt.Errorf("checkpoint: adopt: step %d: %s: %w%s", m.Step, root, err, advice(err))
	}
	return nil
}

// removeOtherFiles removes files that an earlier attempt at this step left, for example parts
// of another world size.
func removeOtherFiles(d disk, dir string, m *Manifest) error {
	ours := make(map[string]bool, len(m.Files))
	for _, f := range m.Files {
		ours[f.Name] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !ours[e.Name()] {
			if err := d.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish renames the finished directory to its final name.
func publish(d disk, root string, step int64) error {
	if err := checkTurn(root); err != nil {
		return err
	}
	final, old := Dir(root, step), oldDir(root, step)
	replaced := there(final)
	if replaced {
		if err := removeOld(d, old); err != nil {
			return err
		}
		if err := d.Rename(final, old); err != nil {
			return err
		}
	}
	if err := d.Rename(tmpDir(root, step), final); err != nil {
		var back error
		if replaced {
			back = d.Rename(old, final)
		}
		return cmp.Or(checkTurn(root), errors.Join(err, back))
	}
	if err := d.Sync(withoutTurn(root)); err != nil {
		return err
	}
	// An .old without a successor is a checkpoint; with one it is obsolete. An error here does
	// not undo the commit: Clean tries again.
	if there(old) {
		_ = removeOld(d, old)
	}
	return nil
}

// Abandon removes the parts written for a step that was not committed. It does nothing if
// there are none.
func Abandon(root string, step int64) error { return abandon(system{}, root, step) }

func abandon(d disk, root string, step int64) error {
	if err := removeTree(d, tmpDir(root, step)); err != nil {
		return fmt.Errorf("checkpoint: abandon: step %d: %w", step, err)
	}
	return nil
}

// Clean removes what a crash left below root and returns what it removed. One process calls
// it at the start, before any Create. A missing root is not an error. A symbolic link or a file
// with the name of something unfinished is one, and is not touched.
func Clean(root string) (removed []string, err error) { return clean(system{}, root) }

func clean(d disk, root string) (removed []string, err error) {
	var faults []error
	for _, folder := range slices.Compact([]string{withoutTurn(root), root}) {
		if !exists(folder) {
			continue
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			return removed, fmt.Errorf("checkpoint: clean: %w", err)
		}
		for _, e := range entries {
			gone, err := cleanOne(d, folder, e.Name())
			if err != nil {
				faults = append(faults, fmt.Errorf("checkpoint: clean: %w", err))
			} else if gone {
				removed = append(removed, filepath.Join(folder, e.Name()))
			}
		}
	}
	return removed, errors.Join(faults...)
}

// cleanOne removes what a crash left with this name, and reports whether it has.
func cleanOne(d disk, folder, name string) (removed bool, err error) {
	path := filepath.Join(folder, name)
	remove := removeTree
	if step, ok := parseStep(strings.TrimPrefix(name, oldPrefix)); ok && strings.HasPrefix(name, oldPrefix) {
		if !exists(Dir(folder, step)) { // its successor was not committed: it is the checkpoint of its step again
			return false, errors.Join(d.Rename(path, Dir(folder, step)), d.Sync(folder))
		}
		remove = removeOld
	}
	if !isTemporary(name) {
		return false, nil
	}
	err = remove(d, path)
	return err == nil, err
}

// Rest describes a file or directory that Clean removed.
func Rest(path string) string {
	switch name := filepath.Base(path); {
	case strings.HasPrefix(name, delPrefix):
		return "the rest of a pruned checkpoint"
	case strings.HasPrefix(name, oldPrefix):
		return "a checkpoint that was written again"
	}
	return "an unfinished checkpoint"
}

// Remove removes the checkpoint of a step, like Prune. A missing one is not an error.
func Remove(root string, step int64) error {
	if err := removeCheckpoint(system{}, root, Found{Step: step, Dir: Dir(root, step)}); err != nil {
		return fmt.Errorf("checkpoint: remove: step %d: %w", step, err)
	}
	return nil
}

// removeCheckpoint first renames the directory of a checkpoint and then removes the files, so
// that no reader sees a part of it. Of a checkpoint that was moved elsewhere and linked here, it
// removes the link.
func removeCheckpoint(d disk, root string, f Found) error {
	del := delDir(root, f.Step)
	if err := checkTurn(root); err != nil {
		return err
	}
	if err := removeTree(d, del); err != nil {
		return err
	}
	if old := oldDir(root, f.Step); f.Dir != old { // otherwise it would become the checkpoint again
		if err := removeOld(d, old); err != nil {
			return err
		}
	}
	info, err := os.Lstat(f.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		return d.Remove(f.Dir)
	}
	if err := d.Rename(f.Dir, del); err != nil {
		return cmp.Or(checkTurn(root), err)
	}
	return removeTree(d, del)
}
