package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Prune removes all checkpoints except the newest keep that open; keep ≥ 1. Checkpoints that
// do not open are not counted: those newer than the last kept one remain for inspection,
// older ones are removed. Checkpoints in protect, given as directories or their names, remain
// and are not counted either. So do all bases of the remaining ones.
func Prune(root string, keep int, protect ...string) error {
	return new(Keeper).Prune(root, keep, protect...)
}

// Old returns the checkpoints that Prune would remove, the newest first.
func Old(root string, keep int, protect ...string) ([]Found, error) {
	return new(Keeper).old(root, keep, protect)
}

// Keeper prunes a root repeatedly, like Prune, and remembers which checkpoints have opened.
// It reads each checkpoint once and later only checks that its manifest is still the same
// file. The zero value is empty. A Keeper is for one root and must be used by one goroutine
// at a time.
type Keeper struct {
	// Unlinked, if not nil, is called for each removed link. What it leads to remains.
	Unlinked func(Found)

	// Patience is how long Commit waits for parts that are missing or short here: another host may
	// have written them to a network file system, which shows names and sizes of some time ago.
	// Waits, if not nil, is called from time to time meanwhile.
	Patience time.Duration
	Waits    func()

	seen map[int64]opened
	read int // number of checkpoints read, for tests
}

// opened describes a checkpoint that has opened.
type opened struct {
	manifest fs.FileInfo
	base     int64 // step of the base; noBase: full
}

const noBase = -1

// Commit is like the function Commit. The new checkpoint counts as opened.
func (k *Keeper) Commit(root string, m Manifest) error { return k.commit(system{}, root, m) }

func (k *Keeper) commit(d disk, root string, m Manifest) error {
	k.await(root, m)
	err := commit(d, root, m)
	delete(k.seen, m.Step)
	if err != nil {
		return err
	}
	x := opened{base: noBase}
	if m.Base != nil {
		x.base = m.Base.Step
		if _, ok := k.seen[x.base]; !ok {
			return nil // Prune will open both
		}
	}
	if x.manifest, err = os.Stat(filepath.Join(Dir(root, m.Step), manifestName)); err == nil {
		k.note(m.Step, x)
	}
	return nil // it is committed, even if Stat failed
}

// await waits for at most Patience until the parts of m, and the checkpoint that it extends, can be
// read. Commit reports what is missing then. To list the folder makes some file systems ask their
// server again.
func (k *Keeper) await(root string, m Manifest) {
	dir := tmpDir(root, m.Step)
	for begin, pause := time.Now(), 20*time.Millisecond; time.Since(begin) < k.Patience; pause = min(2*pause, time.Second) {
		_, faults := readParts(dir, &m)
		if m.Base != nil {
			_, _, err := readManifest(dirOf(root, m.Base.Step))
			faults = append(faults, err)
		}
		for p := range m.Files {
			if len(m.Files[p].Hosts) > 0 { // it may be elsewhere
				faults[p] = nil
			}
		}
		if errors.Join(faults...) == nil || checkTurn(root) != nil {
			return
		}
		os.ReadDir(dir)
		if k.Waits != nil {
			k.Waits()
		}
		time.Sleep(pause)
	}
}

func (k *Keeper) note(step int64, x opened) {
	if k.seen == nil {
		k.seen = map[int64]opened{}
	}
	k.seen[step] = x
}

// Prune is like the function Prune.
func (k *Keeper) Prune(root string, keep int, protect ...string) error {
	return k.prune(system{}, root, keep, protect)
}

func (k *Keeper) prune(d disk, root string, keep int, protect []string) error {
	old, err := k.old(root, keep, protect)
	if err != nil {
		return err
	}
	for _, f := range old {
		delete(k.seen, f.Step)
		if err := removeCheckpoint(d, root, f); err != nil {
			return fmt.Errorf("checkpoint: prune: %s: %w", f.Dir, err)
		}
		if f.Link != "" && k.Unlinked != nil {
			k.Unlinked(f)
		}
	}
	return nil
}

// old returns the checkpoints to remove, the newest first.
func (k *Keeper) old(root string, keep int, protect []string) (old []Found, err error) {
	if keep < 1 {
		return nil, fmt.Errorf("checkpoint: prune: %s: keep %d, must be at least 1", root, keep)
	}
	found, err := List(root)
	if err != nil {
		return nil, err
	}
	protected, needed := map[string]bool{}, map[int64]bool{}
	for _, p := range protect {
		protected[strings.TrimPrefix(filepath.Base(filepath.Clean(p)), oldPrefix)] = true
	}
	if len(found) <= keep {
		return nil, nil // all are kept
	}
	good := 0
	for _, f := range found { // a base comes after all checkpoints that need it
		if f.File {
			continue
		}
		isProtected := protected[stepName(f.Step)]
		if !isProtected && good >= keep {
			if !needed[f.Step] {
				old = append(old, f)
			}
			continue
		}
		chain, ok := k.opens(root, f)
		if !ok {
			continue
		}
		if !isProtected {
			good++
		}
		for _, step := range chain {
			needed[step] = true
		}
	}
	return old, nil
}

// opens reports whether a checkpoint opens, and the steps of its bases.
func (k *Keeper) opens(root string, f Found) (chain []int64, ok bool) {
	if chain, ok = k.known(root, f.Step, f.Dir); ok {
		return chain, true
	}
	c, err := Open(f.Dir)
	k.read++
	if err != nil {
		return nil, false
	}
	for link := c; link != nil; link = link.base {
		x := opened{base: noBase}
		if link.base != nil {
			x.base = link.base.Step()
			chain = append(chain, x.base)
		}
		if x.manifest, err = os.Stat(filepath.Join(link.dir, manifestName)); err == nil {
			k.note(link.Step(), x)
		}
	}
	return chain, true
}

// known is like opens for a checkpoint that has opened before. It requires that the manifests
// of the checkpoint and its bases are unchanged.
func (k *Keeper) known(root string, step int64, dir string) (chain []int64, ok bool) {
	for {
		was, ok := k.seen[step]
		now, err := os.Stat(filepath.Join(dir, manifestName))
		if !ok || err != nil || !os.SameFile(was.manifest, now) || !was.manifest.ModTime().Equal(now.ModTime()) || was.manifest.Size() != now.Size() {
			return nil, false
		}
		if was.base == noBase {
			return chain, true
		}
		step = was.base
		dir, chain = dirOf(root, step), append(chain, step)
	}
}
