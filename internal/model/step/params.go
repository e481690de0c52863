package step

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
	"github.com/wdlrun/wdlrun/trace"
)

// sectionPast is the section with the record of past steps, sparse.Files.Past, if l2.mode
// is dense.
const sectionPast = "past"

// Sections writes the sections of a part to a file or to memory.
type Sections interface {
	Section(name string, write func(io.Writer) error) error
}

// Full is the value of since for a full checkpoint.
const Full = sparse.Everything

// Save writes this rank's share of the dense parameters to w. It returns a snapshot of the
// tables, to be written while steps continue: the rows that changed since a step, or with
// Full all rows.
func (t *Trainer) Save(w Sections, since int64) (*sparse.Snapshot, error) {
	if t.comm.Rank() == 0 {
		if err := w.Section(SectionDense, t.SaveDense); err != nil {
			return nil, err
		}
		if past := t.model.store.Files().Past(); past != nil {
			if err := w.Section(sectionPast, past.Save); err != nil {
				return nil, err
			}
		}
	}
	return t.model.store.Files().Snapshot(since), nil
}

// SaveDense writes the dense parameters and the state of the optimizer in the format of a
// checkpoint's section. They are the same on every rank.
func (t *Trainer) SaveDense(w io.Writer) error {
	a, err := t.parameters()
	if err != nil {
		return err
	}
	return a.Save(w)
}

// IsDelta reports whether a section holds the changes of a shard rather than all its rows.
func IsDelta(section string) bool { return strings.HasPrefix(section, "delta/") }

// IsSeen reports whether a section holds counts of keys without a row. An incremental
// checkpoint without such a section has the counts of the checkpoint before it.
func IsSeen(section string) bool { return strings.HasPrefix(section, "seen/") }

// Load restores the parameters from a checkpoint. Each rank reads the shards that it
// owns, according to owner if that is not nil. before is the number of steps of the checkpoint that the
// model has not taken (train.refit). A batch that was announced is pulled again when its step begins. A model that
// is not trained on needs no configOf.
func (t *Trainer) Load(c *checkpoint.Checkpoint, owner []int32, before int64, configOf ConfigOf) error {
	if err := t.forgetPrepared(); err != nil {
		return err
	}
	defer c.Hold()()
	if err := t.loadDense(c, configOf, t.model.arena.Load); err != nil {
		return err
	}
	if d := t.model.device; d != nil {
		d.newer = false
	}
	store := t.model.store
	if err := store.Reset(); err != nil {
		return err
	}
	if past := store.Files().Past(); past != nil && c.Has(sectionPast) { // earlier versions kept none
		if err := c.Read(sectionPast, past.Load); err != nil {
			return err
		}
	}
	if owner != nil {
		if err := store.Shards().Place(owner); err != nil {
			return err
		}
	}
	for table, tb := range t.model.layout.Tables {
		if err := LoadTable(store, c.Chain(), table, tb.Name, before, configOf); err != nil {
			return err
		}
	}
	return copyLoaded(t)
}

// loadDense reads the dense parameters of a checkpoint. They keep their values although the constants of ftrl have
// changed.
func (t *Trainer) loadDense(c *checkpoint.Checkpoint, configOf ConfigOf, load func(r io.Reader) error) error {
	if err := c.Read(SectionDense, load); err != nil || configOf == nil {
		return err
	}
	was, err := configOf(c)
	if err == nil {
		t.model.arena.Rescale(t.model.arenaConfig(was, nil).Groups)
	}
	return err
}

// copyLoaded makes the copies of the rows of a rank after they were loaded.
func copyLoaded(t *Trainer) error {
	t.rec.Enter(trace.Wait)
	return t.model.store.Replica().Rebuild()
}

// LoadTable fills an empty table of this rank from a chain of checkpoints, whose first link
// must be a full one. before is as in Trainer.Load.
func LoadTable(store *sparse.Store, links []*checkpoint.Checkpoint, table int, name string, before int64, configOf ConfigOf) error {
	store.Files().SetNow(table, links[0].Step()-before) // ages count from there
	defer store.Files().Convert(table, nil)
	for n, link := range links {
		if configOf != nil {
			was, err := configOf(link)
			if err != nil {
				return err
			}
			store.Files().Convert(table, rescale(store.Config().Tables[table], name, was))
		}
		if err := loadLink(store, links, n, table, name); err != nil {
			return err
		}
		store.Files().SetNow(table, link.Step()-before)
	}
	if store.Config().Tables[table].Admit.After < 2 {
		return nil
	}
	return loadSeen(store, links, table, name)
}

// loadSeen loads the counts of keys without a row: for each shard, the counts in the last link
// that has them.
func loadSeen(store *sparse.Store, links []*checkpoint.Checkpoint, table int, name string) error {
	for _, shard := range store.Shards().Owned() {
		seen := sparse.SeenName(name, shard)
		for _, link := range slices.Backward(links) {
			if !link.Has(seen) {
				continue
			}
			if err := link.Read(seen, func(r io.Reader) error { return store.Files().LoadSeen(r, table, shard) }); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// loadLink applies link n of a chain to the shards of a table.
func loadLink(store *sparse.Store, links []*checkpoint.Checkpoint, n, table int, name string) error {
	for _, shard := range store.Shards().Owned() {
		load := func(r io.Reader) error { return store.Files().LoadShard(r, table, shard) }
		change := func(r io.Reader) error {
			_, err := store.Files().LoadDelta(r, table, shard)
			return err
		}
		if err := readLink(links, n, name, shard, load, change); err != nil {
			return err
		}
	}
	return nil
}

// readLink applies link n of a chain to one shard of a table, with load for a whole shard
// or with change. It does nothing if a later link has the whole shard. A shard without rows
// or changes is not saved.
func readLink(links []*checkpoint.Checkpoint, n int, name string, shard int, load, change func(io.Reader) error) error {
	link, whole, delta := links[n], sparse.SectionName(name, shard), sparse.DeltaName(name, shard)
	switch {
	case slices.ContainsFunc(links[n+1:], func(later *checkpoint.Checkpoint) bool { return later.Has(whole) }):
		return nil
	case link.Has(whole):
		return link.Read(whole, load)
	case link.Has(delta):
		return link.Read(delta, change)
	}
	return nil
}

// EachRow calls f with the values of every row of a table in a chain of checkpoints, by
// shard and ascending key. It needs no group, and memory for one shard. The values are
// valid until f returns.
func EachRow(c *checkpoint.Checkpoint, t sparse.Table, f func(shard int, key uint64, values []float32) error) error {
	width := widthOf(t.Parts)
	return eachRecord(c, t, nil, func(shard int, key uint64, record []float32) error { return f(shard, key, record[:width]) })
}

// eachRecord is EachRow with the states of optimizers, for some of the shards; nil: all.
func eachRecord(c *checkpoint.Checkpoint, t sparse.Table, of func(shard int) bool, f func(shard int, key uint64, record []float32) error) error {
	rows, err := table.Open(table.Config{Name: t.Name, Parts: t.Parts, Values: t.Values, Admit: t.Admit, Evict: t.Evict}, 0, layout.Shards)
	if err != nil {
		return err
	}
	defer rows.Close()
	defer c.Hold()()
	links := c.Chain()
	for _, link := range links { // the shards of a part on another host would count as empty
		if away := link.Away(); len(away) > 0 {
			return fmt.Errorf("%s: %d of %d parts are not on this host, such as %s: wdlrun -H HOSTS ckpt gather collects them", link.Dir(), len(away), len(link.Manifest().Files), away[0].Name)
		}
	}
	for shard := range layout.Shards {
		if of != nil && !of(shard) {
			continue
		}
		for n, link := range links {
			if n == 0 {
				rows.SetNow(link.Step())
			}
			load := func(r io.Reader) error { return rows.LoadShard(r, shard) }
			change := func(r io.Reader) error {
				_, err := rows.LoadDelta(r, shard)
				return err
			}
			if err := readLink(links, n, t.Name, shard, load, change); err != nil {
				return err
			}
			rows.SetNow(link.Step())
		}
		err := rows.Each(shard, func(key uint64, record []float32) error { return f(shard, key, record) })
		if err != nil {
			return err
		}
		rows.Discard(shard)
	}
	return nil
}
