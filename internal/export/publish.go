package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/model/layout"
)

// PublishOptions configure a Publisher.
type PublishOptions struct {
	Dir       string // MODELS/NAME
	Config    []byte // YAML
	Encoder   []byte // JSON
	Lineage   string // id of the training, which its resumed jobs keep
	Size      int    // number of ranks that write pieces
	FullEvery int    // one in FullEvery versions becomes complete
	Keep      ledger.Keep

	// Fetch gets the pieces of the other ranks; nil: these write them to Dir.
	Fetch Fetch

	// Warn is called with the reason if a version is complete because earlier ones are damaged, if
	// another program publishes here, if a version does not become complete, or an old one is not
	// removed.
	Warn func(line string)

	// Count is called with the outcome of each version: Changes, Complete or Repaired. nil: never.
	Count func(outcome string)
	// Try is called with the folder of a version before it becomes visible. An error prevents that. nil:
	// never.
	Try func(dir string) error

	disk disk // nil for the operating system's
}

// Outcomes of publishing a version.
const (
	Changes  = "changes"  // it contains changes
	Complete = "complete" // it is the first of a job
	Repaired = "repaired" // it is complete because a version that it would have changed is damaged
)

// Fetch waits for a part of a rank. read returns its content if it has the given size in bytes.
type Fetch func(ctx context.Context, part int64, rank int) (text []byte, read func(size int64) ([]byte, error), err error)

// Publisher writes the versions of a model in training, on rank 0. The first is complete;
// each of the others changes the one before it. One in FullEvery versions becomes complete
// later: a goroutine merges its base and the changes since, adds the tables to its folder
// and replaces its manifest by a rename. Then versions that Keep does not name are removed.
//
// The Publisher has the model of its last version in memory: the mapped tables of a complete
// version, which stay readable when it is removed, and the changes since. If a version on
// which the next one would build is missing or damaged, the next one is complete.
type Publisher struct {
	o      PublishOptions
	config *config.Config
	layout layout.Layout
	warmup []byte
	life   context.Context // of background work
	end    context.CancelFunc

	// Used by one call at a time.
	home    os.FileInfo // the folder when it was locked
	unlock  func()
	highest int64 // highest version known, −1 for none
	since   int   // versions after the last that became, or is becoming, complete

	mu      sync.Mutex
	base    *base      // tables; nil: empty
	layers  [][]mapped // changes since, by table, oldest first
	fresh   [][]mapped // changes since the version that is becoming complete; nil: none is
	chain   []link     // versions on which the next one builds, a complete one first; empty: it is complete
	merging sync.WaitGroup
	busy    bool
	failed  map[int64]bool // pinned versions that did not become complete
}

// Point is the state of a training that a version contains.
type Point struct {
	Step    int64
	Taken   int64    // when the step was done, Unix nanoseconds
	Part    int64    // by which other ranks name their pieces
	Offsets []Offset // of a stream
	Window  *Window
}

const publishPrefix = ".publish-"

// ErrBase is in the error of Publish if the model of the last version is lost because a mapped file
// was changed. Call Restart.
var ErrBase = errors.New("the tables of the last complete version have changed in place")

// OpenPublisher makes this process the only writer of a folder of versions.
func OpenPublisher(ctx context.Context, o PublishOptions) (p *Publisher, err error) {
	if o.disk == nil {
		o.disk = system{}
	}
	if o.Count == nil {
		o.Count = func(string) {}
	}
	p = &Publisher{o: o, highest: -1, failed: map[int64]bool{}}
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
	p.layers = make([][]mapped, len(p.layout.Tables))
	if err := p.enter(); err != nil {
		return p, err
	}
	if err := clean(o.Dir, tmpPrefix, publishPrefix, partPrefix); err != nil {
		return p, err
	}
	if p.highest, err = highestIn(o.Dir); err != nil {
		return p, err
	}
	p.warmup, _ = warmup(ctx, p.config, inputs(p.config)) // a version needs none
	return p, ctx.Err()
}

// enter locks the folder, which it makes if it is missing. It is locked already unless it was
// removed or replaced.
func (p *Publisher) enter() error {
	now, err := os.Stat(p.o.Dir)
	if err == nil && p.home != nil && os.SameFile(now, p.home) {
		return nil
	}
	if p.unlock != nil {
		p.unlock()
		p.unlock, p.home = nil, nil
	}
	if err := makeDirs(p.o.disk, p.o.Dir); err != nil {
		return err
	}
	if p.unlock, err = lock(p.o.Dir); err != nil {
		return err
	}
	p.home, err = os.Stat(p.o.Dir)
	return err
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

// Highest returns the highest number of a version that is known, −1 for none.
func (p *Publisher) Highest() int64 { return p.highest }

// Has reports whether the highest version is of this training and of a step, and not a rollback.
func (p *Publisher) Has(step int64) bool {
	m, err := readManifest(versionDir(p.o.Dir, p.highest))
	return err == nil && m.Step == step && m.Lineage == p.o.Lineage && m.Lineage != "" && m.Rollback == nil
}

// Follows reports whether the highest version is of the training with an id.
func (p *Publisher) Follows(lineage string) bool {
	m, err := readManifest(versionDir(p.o.Dir, p.highest))
	return err == nil && lineage != "" && m.Lineage == lineage
}

// Held returns the hold of the folder, nil for none. While there is one, Publish fails.
func (p *Publisher) Held() *ledger.Hold { return ledger.ReadHold(p.o.Dir) }

// Restart makes the next version a complete one that changes older, or empty tables if
// older is nil. The Publisher closes older.
func (p *Publisher) Restart(older *Model) error {
	p.merging.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.base
	p.base, p.layers, p.chain, p.fresh = nil, make([][]mapped, len(p.layout.Tables)), nil, nil
	if older != nil {
		p.base, p.layers = older.base, older.layers
	}
	return before.release()
}

// FromCheckpoint returns the model of a checkpoint for Restart. It is not visible to
// readers.
func (p *Publisher) FromCheckpoint(ctx context.Context, src Source) (m *Model, err error) {
	dir := filepath.Join(p.o.Dir, publishPrefix+"base")
	err = errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
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
		layers = p.stacked(&all)
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
		p.o.Warn(fmt.Sprintf("another program has written version %d to %s: the numbers of this training continue after it", found, p.o.Dir))
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

// stacked returns the changes since the base, with those of a piece.
func (p *Publisher) stacked(all *Piece) [][]mapped {
	p.mu.Lock()
	before := slices.Clone(p.layers)
	p.mu.Unlock()
	for i, x := range all.tables {
		before[i] = stacked(before[i], x, nil)
	}
	return before
}

// follow records that a version with changes is the last.
func (p *Publisher) follow(m *Manifest, all *Piece) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chain = append(p.chain, newLink(p.o.Dir, m))
	for i, x := range all.tables {
		p.layers[i] = stacked(p.layers[i], x, nil)
		if p.fresh != nil {
			p.fresh[i] = stacked(p.fresh[i], x, nil)
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
