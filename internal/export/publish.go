package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/wdlrun/wdlrun/internal/export/ledger"
)

// Point is the state of a training that a version contains.
type Point struct {
	Step    int64
	Taken   int64    // when the step was done, Unix nanoseconds
	Part    int64    // by which other ranks name their pieces
	Offsets []Offset // of a stream
	Window  *Window
}

// Publish publishes a version and returns its number: the step, or the number after the highest
// in the folder. dense is a saved dense.Arena, own the changes of this rank. It waits for the
// parts of other ranks. After an error the version is not visible, and its changes must be part
// of the next.
func (p *Publisher) Publish(ctx context.Context, at Point, dense []byte, own Piece) (version int64, err error) {
	version, err = p.publish(ctx, at, dense, own)
	err = errors.Join(err, os.RemoveAll(partDir(p.o.Dir, at.Part)))
	if err != nil {
		return 0, fmt.Errorf("export: publish: %s: step %d: %w", p.o.Dir, at.Step, err)
	}
	return version, nil
}

func (p *Publisher) publish(ctx context.Context, at Point, dense []byte, own Piece) (version int64, err error) {
	var pieces []Piece
	if p.o.Fetch != nil {
		pieces, err = fetchParts(ctx, p.o.Fetch, at.Part, p.o.Size, p.layout.Tables)
	} else {
		pieces, err = readParts(ctx, p.o.Dir, at.Part, p.o.Size, p.layout.Tables)
	}
	if err != nil {
		return 0, err
	}
	if err := p.enter(); err != nil {
		return 0, err
	}
	all := joined(append(pieces, own))
	if dense, err = p.parameters(dense); err != nil {
		return 0, err
	}
	m, err := p.manifest(at)
	if err != nil {
		return 0, err
	}
	why, err := p.check(&m)
	if err != nil {
		return 0, err
	}
	layers := p.layers
	if m.Delta == nil {
		layers = p.withLayer(&all)
	}
	err = p.commit(ctx, &m, func(dir string) error {
		if m.Delta != nil {
			return p.writeChanges(dir, &m, dense, &all)
		}
		p.mu.Lock()
		c := p.snapshot(dense, layers)
		p.mu.Unlock()
		return errors.Join(c.write(ctx, p.o.disk, dir, &m), c.base.release())
	})
	if err != nil {
		return 0, err
	}
	p.highest = max(p.highest, m.Version)
	switch {
	case m.Delta != nil:
		p.o.Count(Changes)
		p.follow(&m, &all)
		p.becomeComplete(&m, dense)
		p.completePinned()
		return m.Version, nil
	case why != nil:
		p.o.Count(Repaired)
		p.o.Warn(fmt.Sprintf("version %d in %s is complete, because %v", m.Version, p.o.Dir, why))
	default:
		p.o.Count(Complete)
	}
	p.since = 0
	p.startAt(&m, layers)
	p.completePinned()
	p.prune()
	return m.Version, nil
}

// manifest returns the manifest of the next version, without files.
func (p *Publisher) manifest(at Point) (m Manifest, err error) {
	found, err := highestIn(p.o.Dir)
	if err != nil {
		return m, err
	}
	if found > p.highest {
		line := fmt.Sprintf("another program has written version %d to %s", found, p.o.Dir)
		if x, err := readManifest(versionDir(p.o.Dir, found)); err == nil && x.Rollback != nil {
			line = fmt.Sprintf("version %d in %s is a rollback to version %d", found, p.o.Dir, *x.Rollback)
		}
		p.o.Warn(line + ": the numbers of this training continue after it")
		p.highest = found
	}
	next, err := ledger.Next(at.Step, p.highest)
	return Manifest{
		Format: formatName, FormatVersion: formatVersion, Name: filepath.Base(p.o.Dir), Version: next, Step: at.Step,
		Rows: Precisions()[float32s], Inputs: inputs(p.config), Outputs: outputs(p.config), Tables: []Table{}, Taken: at.Taken,
		Lineage: p.o.Lineage, Offsets: at.Offsets, Window: at.Window,
	}, err
}

// commit makes visible a version that write writes to a temporary folder. If another program has
// published the number meanwhile, the version gets a higher one.
func (p *Publisher) commit(ctx context.Context, m *Manifest, write func(dir string) error) error {
	tmp, d := filepath.Join(p.o.Dir, fmt.Sprint(publishPrefix, m.Version)), p.o.disk
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // does nothing after the rename
	if err := write(tmp); err != nil {
		return err
	}
	if p.o.Try != nil {
		if err := p.o.Try(tmp); err != nil {
			return err
		}
	}
	unlock, err := lockLedger(ctx, p.o.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	if hold := p.Held(); hold != nil {
		return &HeldError{p.o.Dir, *hold}
	}
	found, err := highestIn(p.o.Dir)
	if err != nil {
		return err
	}
	if found >= m.Version {
		if m.Version, err = ledger.Next(m.Version, found); err != nil {
			return err
		}
		if err := errors.Join(os.Remove(filepath.Join(tmp, manifestName)), writeManifest(d, tmp, m)); err != nil {
			return err
		}
	}
	if err := d.Sync(tmp); err != nil {
		return err
	}
	if err := d.Rename(tmp, versionDir(p.o.Dir, m.Version)); err != nil {
		return err
	}
	return d.Sync(p.o.Dir)
}

// HeldError is the error of publishing into a folder with a hold.
type HeldError struct {
	Dir  string
	Hold ledger.Hold
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is on hold (%s): nothing is published until wdlrun publish %s -release", e.Dir, e.Hold.Reason, e.Dir)
}

// withLayer returns the changes since the base, with those of a piece.
func (p *Publisher) withLayer(all *Piece) [][]mapped {
	p.mu.Lock()
	before := slices.Clone(p.layers)
	p.mu.Unlock()
	for i, x := range all.tables {
		before[i] = addLayer(before[i], x, nil)
	}
	return before
}

// follow records that a version with changes is the last.
func (p *Publisher) follow(m *Manifest, all *Piece) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chain = append(p.chain, newLink(p.o.Dir, m))
	for i, x := range all.tables {
		p.layers[i] = addLayer(p.layers[i], x, nil)
		if p.fresh != nil {
			p.fresh[i] = addLayer(p.fresh[i], x, nil)
		}
	}
}

// startAt records that a complete version is the last. If it cannot be opened, the next one is
// complete, too.
func (p *Publisher) startAt(m *Manifest, layers [][]mapped) {
	b, err := openBase(versionDir(p.o.Dir, m.Version), *m, nil, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chain, p.fresh = nil, nil
	if err != nil {
		p.layers = layers
		return
	}
	before := p.base
	p.base, p.layers, p.chain = b, make([][]mapped, len(p.layout.Tables)), []link{newLink(p.o.Dir, m)}
	_ = before.release() // it was only read
}
