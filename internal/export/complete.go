package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/model/step"
)

// check decides whether a version contains changes, and sets its Delta. why is the reason if it is
// complete because a version before it is not whole.
func (p *Publisher) check(m *Manifest) (why, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.chain) == 0 {
		return nil, nil
	}
	for i := range p.chain {
		if why = p.chain[i].check(p.o.Dir); why == nil {
			continue
		}
		if i == 0 {
			if bad := p.base.verify(); bad != nil {
				return nil, fmt.Errorf("%w: %w", ErrBase, bad)
			}
		}
		return why, nil
	}
	last := p.chain[len(p.chain)-1]
	m.Delta = &Delta{Previous: last.version, Taken: last.taken, Base: p.chain[0].version}
	return nil, nil
}

// parameters returns the dense parameters of a saved arena without the state of the optimizer.
func (p *Publisher) parameters(dense []byte) ([]byte, error) {
	x, err := step.NewParameters(p.config, p.layout)
	if err == nil {
		err = x.Read(bytes.NewReader(dense))
	}
	var b bytes.Buffer
	if err == nil {
		err = x.Save(&b)
	}
	return b.Bytes(), err
}

// writeChanges writes the files of a version that changes another one.
func (p *Publisher) writeChanges(dir string, m *Manifest, dense []byte, all *Piece) error {
	f, err := whole(p.o.disk, dir, denseName, content(dense))
	if err != nil {
		return err
	}
	m.Files = append(m.Files, f)
	if m.Tables, f, err = all.writeDelta(p.o.disk, dir, deltaName, p.layout.Tables); err != nil {
		return err
	}
	m.Files = append(m.Files, f)
	return writeManifest(p.o.disk, dir, m)
}

// snapshot returns the model of the Publisher with other layers. base is counted as used.
func (p *Publisher) snapshot(dense []byte, layers [][]mapped) *snapshot {
	if p.base != nil {
		p.base.users.Add(1)
	}
	return &snapshot{p.config.YAML(), p.o.Encoder, p.warmup, dense, p.layout.Tables, p.base, layers}
}

// becomeComplete starts to complete the last version, if it is due and none is being completed.
func (p *Publisher) becomeComplete(m *Manifest, dense []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since++; p.since < p.o.FullEvery || p.busy {
		return
	}
	p.since, p.busy = 0, true
	c, next := p.snapshot(dense, slices.Clone(p.layers)), *m
	p.fresh = make([][]mapped, len(p.layers))
	p.merging.Go(func() {
		err := p.fill(p.life, c, &next)
		err = errors.Join(err, c.base.release())
		if err == nil {
			err = p.rebase(&next)
		}
		p.filled(next.Version, err)
		if err == nil {
			p.prune()
		}
	})
}

// filled ends the work on a version that was to become complete.
func (p *Publisher) filled(version int64, err error) {
	p.mu.Lock()
	p.busy, p.fresh = false, nil
	p.mu.Unlock()
	if err != nil && p.life.Err() == nil {
		p.o.Warn(fmt.Sprintf("version %d in %s did not become complete, a later one will: %v", version, p.o.Dir, err))
	}
}

// rebase makes a version that has become complete the base of those after it.
func (p *Publisher) rebase(m *Manifest) error {
	b, err := openBase(versionDir(p.o.Dir, m.Version), *m, nil, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.chain, func(l link) bool { return l.version == m.Version })
	if err != nil || i < 0 || p.fresh == nil { // i < 0: a version after it was complete at once
		return errors.Join(err, b.release())
	}
	before := p.base
	p.chain = append([]link{newLink(p.o.Dir, m)}, p.chain[i+1:]...)
	p.base, p.layers = b, p.fresh
	return before.release()
}

// fill makes a visible version complete.
func (p *Publisher) fill(ctx context.Context, c *snapshot, m *Manifest) error {
	if err := p.wholeBase(); err != nil {
		return err
	}
	tmp := filepath.Join(p.o.Dir, publishPrefix+"full")
	return fill(ctx, p.o.disk, p.o.Dir, tmp, c, m, func(rename func() error) error {
		p.mu.Lock()
		defer p.mu.Unlock() // so that no version is examined while its files are replaced
		if err := p.lockedBase(); err != nil {
			return err
		}
		err := rename()
		for i := range p.chain {
			if p.chain[i].version == m.Version && err == nil {
				p.chain[i] = newLink(p.o.Dir, m)
			}
		}
		return err
	})
}

// wholeBase returns an error if the mapped tables were changed in place.
func (p *Publisher) wholeBase() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lockedBase()
}

func (p *Publisher) lockedBase() error {
	if len(p.chain) == 0 || p.chain[0].check(p.o.Dir) == nil {
		return nil
	}
	return p.base.verify()
}

// completePinned starts to complete a pinned version, if one is not complete.
func (p *Publisher) completePinned() {
	pins, _, err := ledger.ReadPins(p.o.Dir)
	if err != nil {
		return // the next version tries again
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy {
		return
	}
	for _, n := range pins {
		m, err := readManifest(versionDir(p.o.Dir, n))
		if err != nil || m.Delta == nil || p.failed[n] {
			continue
		}
		p.busy = true
		p.merging.Go(func() {
			err := p.fillPinned(n)
			p.mu.Lock()
			p.failed[n] = err != nil // until versions are removed
			p.mu.Unlock()
			p.filled(n, err)
		})
		return
	}
}

func (p *Publisher) fillPinned(n int64) error {
	m, err := Open(versionDir(p.o.Dir, n))
	if err != nil {
		return err
	}
	defer m.Close() // it was only read
	c, err := m.snapshot()
	if err != nil {
		return err
	}
	next := m.manifest
	return p.fill(p.life, c, &next)
}

// prune removes the versions that the settings do not keep.
func (p *Publisher) prune() {
	p.mu.Lock()
	clear(p.failed)
	last := int64(-1)
	if n := len(p.chain); n > 0 {
		last = p.chain[n-1].version
	}
	p.mu.Unlock()
	if last < 0 {
		return
	}
	if err := prune(p.life, p.o.disk, p.o.Dir, p.o.Keep, last); err != nil && p.life.Err() == nil {
		p.o.Warn(fmt.Sprintf("versions before %d in %s could not be removed: %v", last, p.o.Dir, err))
	}
}
