package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/sparse"
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

// snapshot is a whole model in memory and mapped files.
type snapshot struct {
	yaml, encoder, warmup []byte
	dense                 []byte // parameters as in dense.bin
	of                    []sparse.Table
	base                  *base      // nil: empty tables
	layers                [][]mapped // by table, oldest first
}

// write writes the files of a complete version.
func (c *snapshot) write(ctx context.Context, d disk, dir string, m *Manifest) (err error) {
	if c.base != nil {
		defer c.base.guard(&err, debug.SetPanicOnFault(true))
	}
	m.Tables, m.Files, m.Delta = []Table{}, nil, nil
	for _, x := range []struct {
		name string
		text []byte
	}{{configName, c.yaml}, {encoderName, c.encoder}, {denseName, c.dense}} {
		f, err := whole(d, dir, x.name, content(x.text))
		if err != nil {
			return err
		}
		m.Files = append(m.Files, f)
	}
	for i, of := range c.of {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		tables := []mapped{}
		if c.base != nil {
			tables = append(tables, c.base.tables[i])
		}
		t, f, err := writeMerged(ctx, d, dir, i, of, append(tables, c.layers[i]...))
		if err != nil {
			return err
		}
		m.Tables, m.Files = append(m.Tables, t), append(m.Files, f)
	}
	if c.warmup != nil {
		f, err := whole(d, dir, warmupName, content(c.warmup))
		if err != nil {
			return err
		}
		m.Files = append(m.Files, f)
	}
	return writeManifest(d, dir, m)
}

// writeMerged writes a table with the rows of tables, oldest first.
func writeMerged(ctx context.Context, d disk, dir string, i int, of sparse.Table, tables []mapped) (Table, file, error) {
	n, c := 0, newCodec(float32s, of)
	_ = merge(tables, true, func(uint64, uint64, []float32) error { n++; return nil })
	if n > maxRows {
		return Table{}, file{}, fmt.Errorf("table %q: it has more than %d rows", of.Name, int64(maxRows))
	}
	w := newWriter(d, dir, tableName(i))
	p, left := newPlacer(n, c.record(), w.put), n
	_ = merge(tables, true, func(hash, key uint64, values []float32) error { // the writer keeps the error
		if left--; left%(1<<16) == 0 && w.err == nil {
			w.err = ctx.Err()
		}
		row, err := p.add(hash, key)
		copy(row, raw.Bytes(values))
		return err
	})
	return w.endTable(p, of.Name, c.width)
}

func writeManifest(d disk, dir string, m *Manifest) error {
	text, err := m.encode()
	if err == nil {
		_, err = whole(d, dir, manifestName, content(text))
	}
	return err
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

// fill writes a complete form of a version to tmp, and replaces its files within around.
func fill(ctx context.Context, d disk, root, tmp string, c *snapshot, m *Manifest, around func(func() error) error) error {
	dir := versionDir(root, m.Version)
	if err := ownFolder(root, filepath.Base(dir), false); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // removes the rest after an error
	if err := c.write(ctx, d, tmp, m); err != nil {
		return err
	}
	if err := d.Sync(tmp); err != nil {
		return err
	}
	return around(func() error {
		for _, name := range m.names() { // the manifest last
			if name == manifestName {
				if err := d.Sync(dir); err != nil {
					return err
				}
			}
			if err := d.Rename(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return errors.Join(d.Sync(dir), os.Remove(filepath.Join(dir, deltaName)))
	})
}

// snapshot returns the content of an open version with rows of float32, which stays open.
func (m *Model) snapshot() (*snapshot, error) {
	encoder, err := m.base.encoder.Marshal()
	if err != nil {
		return nil, err
	}
	var dense bytes.Buffer
	if err := m.params.Save(&dense); err != nil {
		return nil, err
	}
	return &snapshot{m.base.config.YAML(), encoder, m.base.warmup, dense.Bytes(), m.base.layout.Tables, m.base, m.layers}, nil
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

// versionsIn lists the versions in a folder, ascending.
func versionsIn(root string) (all []int64, err error) {
	entries, err := os.ReadDir(root)
	for _, e := range entries {
		if n, err := strconv.ParseInt(e.Name(), 10, 64); err == nil && n >= 0 && e.Name()[0] != '+' {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), err
}

// highestIn returns the highest version in a folder, −1 for none.
func highestIn(root string) (int64, error) {
	all, err := versionsIn(root)
	if err != nil || len(all) == 0 {
		return -1, err
	}
	return all[len(all)-1], nil
}
