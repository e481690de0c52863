package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	if err := removeTemporary(o.Dir, tmpPrefix, publishPrefix, partPrefix); err != nil {
		return p, err
	}
	if p.highest, err = highestIn(o.Dir); err != nil {
		return p, err
	}
	p.warmup, _ = warmup(ctx, p.config.Data, inputs(p.config)) // a version needs none
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
