package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/sparse"
)

// PublishOptions configure a Publisher.
type PublishOptions struct {
	Dir       string // MODELS/NAME
	Config    []byte // YAML
	Encoder   []byte // JSON
	Size      int    // number of ranks that write pieces
	FullEvery int    // one in FullEvery versions becomes complete

	// Fetch gets the pieces of the other ranks; nil: these write them to Dir.
	Fetch Fetch

	// Warn is called with the reason if a version does not become complete, or an old one is
	// not removed.
	Warn func(line string)

	disk disk // nil for the operating system's
}

// Fetch waits for the part of a rank. read returns its content if it has the given size in bytes.
type Fetch func(ctx context.Context, version int64, rank int) (text []byte, read func(size int64) ([]byte, error), err error)

// Publisher writes the versions of a model in training, on rank 0. The first is complete;
// each of the others changes the one before it. One in FullEvery versions becomes complete
// later: a goroutine merges its base and the changes since, adds the tables to its folder
// and replaces its manifest by a rename. Then the changes before it are removed, and all
// complete versions except the last two.
type Publisher struct {
	o       PublishOptions
	config  *config.Config
	layout  layout.Layout
	warmup  []byte
	unlock  func()
	highest int64  // highest version found in the folder
	last    Last   // last published version; of this Publisher, once complete is not −1
	older   *Model // base of the first version; nil for none
	since   int    // versions after the last that became, or is becoming, complete

	life     context.Context // of background work
	end      context.CancelFunc
	mu       sync.Mutex
	complete int64 // latest complete version, −1 for none
	merging  sync.WaitGroup
	busy     bool
}

// Last identifies a published version.
type Last struct{ Version, Taken int64 }

const publishPrefix = ".publish-"

// OpenPublisher makes this process the only writer of a folder of versions.
func OpenPublisher(ctx context.Context, o PublishOptions) (p *Publisher, err error) {
	if o.disk == nil {
		o.disk = system{}
	}
	p = &Publisher{o: o, complete: -1, highest: -1}
	p.life, p.end = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = fmt.Errorf("export: publish: %s: %w", o.Dir, errors.Join(err, p.Close()))
		}
	}()
	if err := checkName(filepath.Base(o.Dir)); err != nil {
		return p, err
	}
	if p.config, _, p.layout, err = parse(o.Config, o.Encoder); err != nil {
		return p, err
	}
	if err := makeDirs(o.disk, o.Dir); err != nil {
		return p, err
	}
	if p.unlock, err = lock(o.Dir); err != nil {
		return p, err
	}
	if err := clean(o.Dir); err != nil {
		return p, err
	}
	all, err := versionsIn(o.Dir)
	if err != nil {
		return p, err
	}
	if len(all) > 0 {
		p.highest = all[len(all)-1]
	}
	p.warmup, _ = warmup(ctx, p.config, inputs(p.config)) // a version needs none
	return p, ctx.Err()
}

// Close stops background work and unlocks the folder.
func (p *Publisher) Close() error {
	p.end()
	err := p.Restart(nil)
	if p.unlock != nil {
		p.unlock()
		p.unlock = nil
	}
	return err
}

// Wait waits until no version is becoming complete.
func (p *Publisher) Wait() { p.merging.Wait() }

// Highest returns the number of the last version in the folder, −1 for none. New ones must
// be higher.
func (p *Publisher) Highest() int64 { return max(p.highest, p.last.Version) }

// Restart makes the next version a complete one that changes older, or empty tables if
// older is nil. The Publisher closes older.
func (p *Publisher) Restart(older *Model) (err error) {
	p.merging.Wait()
	if p.older != nil {
		err = p.older.Close()
	}
	p.highest, p.older, p.complete = p.Highest(), older, -1
	return err
}

// FromCheckpoint returns the model of a checkpoint for Restart. It is not visible to
// readers.
func (p *Publisher) FromCheckpoint(ctx context.Context, src Source) (m *Model, err error) {
	dir := filepath.Join(p.o.Dir, publishPrefix+"base")
	err = errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755))
	defer os.RemoveAll(dir) // it stays mapped
	if err == nil {
		o := Options{Name: filepath.Base(p.o.Dir), Version: src.Checkpoint.Step(), disk: p.o.disk}
		_, err = writeFiles(ctx, src, o, dir, float32s)
	}
	if err == nil {
		m, err = Open(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("export: publish: model of the checkpoint of step %d: %w", src.Checkpoint.Step(), err)
	}
	return m, nil
}

// Publish publishes a version. dense is a saved dense.Arena, own the changes of this rank.
// It waits for the parts of other ranks. After an error the version is not visible, and its
// changes must be part of the next.
func (p *Publisher) Publish(ctx context.Context, v Last, dense []byte, own Piece) error {
	err := p.publish(ctx, v, dense, own)
	err = errors.Join(err, os.RemoveAll(partDir(p.o.Dir, v.Version)))
	if err != nil {
		return fmt.Errorf("export: publish: %s: %w", versionDir(p.o.Dir, v.Version), err)
	}
	return nil
}

func (p *Publisher) publish(ctx context.Context, v Last, dense []byte, own Piece) error {
	var pieces []Piece
	var err error
	if p.o.Fetch != nil {
		pieces, err = fetchParts(ctx, p.o.Fetch, v.Version, p.o.Size, p.layout.Tables)
	} else {
		pieces, err = readParts(ctx, p.o.Dir, v.Version, p.o.Size, p.layout.Tables)
	}
	if err != nil {
		return err
	}
	all := joined(append(pieces, own))
	p.mu.Lock()
	complete := p.complete
	p.mu.Unlock()
	m := p.manifest(v)
	err = p.commit(v.Version, func(dir string) error {
		if complete < 0 {
			var older []mapped
			if p.older != nil {
				older = p.older.base.tables
			}
			return p.writeComplete(ctx, dir, &m, dense, older, all.tables)
		}
		m.Delta = &Delta{Previous: p.last.Version, Taken: p.last.Taken, Base: complete}
		return p.writeChanges(dir, &m, dense, &all)
	})
	if err != nil {
		return err
	}
	p.last = v
	if complete >= 0 {
		p.becomeComplete(v.Version)
		return nil
	}
	p.since = 0
	p.mu.Lock()
	p.complete = v.Version
	p.mu.Unlock()
	if p.older != nil {
		err, p.older = p.older.Close(), nil
	}
	if err = errors.Join(err, p.prune(v.Version)); err != nil {
		p.o.Warn(fmt.Sprintf("versions before %d in %s could not be removed: %v", v.Version, p.o.Dir, err))
	}
	return nil
}

func (p *Publisher) manifest(v Last) Manifest {
	return Manifest{
		Format: formatName, FormatVersion: formatVersion, Name: filepath.Base(p.o.Dir), Version: v.Version, Step: v.Version,
		Rows: Precisions()[float32s], Inputs: inputs(p.config), Outputs: outputs(p.config), Tables: []Table{}, Taken: v.Taken,
	}
}

// commit makes visible a version that write writes to a temporary folder.
func (p *Publisher) commit(version int64, write func(dir string) error) error {
	tmp, d := filepath.Join(p.o.Dir, publishPrefix+strconv.FormatInt(version, 10)), p.o.disk
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // does nothing after the rename
	if err := write(tmp); err != nil {
		return err
	}
	if err := d.Sync(tmp); err != nil {
		return err
	}
	if err := d.Rename(tmp, versionDir(p.o.Dir, version)); err != nil {
		return err
	}
	return d.Sync(p.o.Dir)
}

// writeChanges writes the files of a version that changes another one.
func (p *Publisher) writeChanges(dir string, m *Manifest, dense []byte, all *Piece) error {
	f, err := p.writeDense(dir, dense)
	if err != nil {
		return err
	}
	m.Files = append(m.Files, f)
	if m.Tables, f, err = all.writeDelta(p.o.disk, dir, deltaName, p.layout.Tables); err != nil {
		return err
	}
	m.Files = append(m.Files, f)
	return p.writeManifest(dir, m)
}

// writeDense writes the dense parameters of a saved arena without the state of the optimizer.
func (p *Publisher) writeDense(dir string, dense []byte) (file, error) {
	x, err := step.NewParameters(p.config, p.layout)
	if err == nil {
		err = x.Read(bytes.NewReader(dense))
	}
	if err != nil {
		return file{}, err
	}
	return whole(p.o.disk, dir, denseName, x.Save)
}

func (p *Publisher) writeManifest(dir string, m *Manifest) error {
	text, err := m.encode()
	if err == nil {
		_, err = whole(p.o.disk, dir, manifestName, content(text))
	}
	return err
}

// writeComplete writes the files of a complete version: the rows of older, which may be
// nil, with changes.
func (p *Publisher) writeComplete(ctx context.Context, dir string, m *Manifest, dense []byte, older, changes []mapped) error {
	m.Tables, m.Files = []Table{}, nil
	for _, x := range []struct {
		name string
		text []byte
	}{{configName, p.config.YAML()}, {encoderName, p.o.Encoder}} {
		f, err := whole(p.o.disk, dir, x.name, content(x.text))
		if err != nil {
			return err
		}
		m.Files = append(m.Files, f)
	}
	f, err := p.writeDense(dir, dense)
	if err != nil {
		return err
	}
	m.Files = append(m.Files, f)
	for i, of := range p.layout.Tables {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		tables := []mapped{changes[i]}
		if older != nil {
			tables = []mapped{older[i], changes[i]}
		}
		t, f, err := writeMerged(ctx, p.o.disk, dir, i, of, tables)
		if err != nil {
			return err
		}
		m.Tables, m.Files = append(m.Tables, t), append(m.Files, f)
	}
	if p.warmup != nil {
		f, err := whole(p.o.disk, dir, warmupName, content(p.warmup))
		if err != nil {
			return err
		}
		m.Files = append(m.Files, f)
	}
	return p.writeManifest(dir, m)
}

// writeMerged writes a table with the rows of tables, oldest first.
func writeMerged(ctx context.Context, d disk, dir string, i int, of sparse.Table, tables []mapped) (Table, file, error) {
	n, c := 0, tables[0].codec
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

// becomeComplete starts to complete a version, if it is due and none is being completed.
func (p *Publisher) becomeComplete(version int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since++; p.since < p.o.FullEvery || p.busy {
		return
	}
	p.since, p.busy = 0, true
	p.merging.Go(func() {
		err := p.fill(p.life, version)
		p.mu.Lock()
		p.busy = false
		if err == nil {
			p.complete = version
		}
		p.mu.Unlock()
		switch {
		case p.life.Err() != nil:
		case err != nil:
			p.o.Warn(fmt.Sprintf("version %d in %s did not become complete, a later one will: %v", version, p.o.Dir, err))
		default:
			if err = p.prune(version); err != nil {
				p.o.Warn(fmt.Sprintf("versions before %d in %s could not be removed: %v", version, p.o.Dir, err))
			}
		}
	})
}

// fill makes a visible version complete.
func (p *Publisher) fill(ctx context.Context, version int64) error {
	dir, d := versionDir(p.o.Dir, version), p.o.disk
	if err := ownFolder(p.o.Dir, filepath.Base(dir), false); err != nil {
		return err
	}
	m, err := Open(dir)
	if err != nil {
		return err
	}
	defer m.Close() // everything is written and synced
	tmp := filepath.Join(p.o.Dir, publishPrefix+"full")
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // removes the rest after an error
	var changes []mapped
	for i, layers := range m.layers {
		none := mapped{codec: m.base.tables[i].codec, salt: m.base.tables[i].salt}
		changes = append(changes, folded(append([]mapped{none}, layers...), nil))
	}
	var dense bytes.Buffer
	if err := m.params.Save(&dense); err != nil {
		return err
	}
	next := p.manifest(Last{version, m.manifest.Taken})
	if err := p.writeComplete(ctx, tmp, &next, dense.Bytes(), m.base.tables, changes); err != nil {
		return err
	}
	names := []string{}
	for _, f := range next.Files {
		names = append(names, f.Name)
	}
	if err := d.Sync(tmp); err != nil {
		return err
	}
	for _, name := range append(names, manifestName) { // the manifest last
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
	return all, err
}

// prune removes the versions of trainings before a complete version, except the last
// complete one before it.
func (p *Publisher) prune(complete int64) error {
	all, err := versionsIn(p.o.Dir)
	kept := false
	for _, n := range slices.Backward(all) {
		if n >= complete {
			continue
		}
		dir := versionDir(p.o.Dir, n)
		m, bad := readManifest(dir)
		if bad != nil || m.Taken == 0 {
			continue // written by another program
		}
		if m.Delta == nil && !kept {
			kept = true
			continue
		}
		old := filepath.Join(p.o.Dir, publishPrefix+"old")
		err = errors.Join(err, os.RemoveAll(old), p.o.disk.Rename(dir, old), os.RemoveAll(old))
	}
	return err
}
