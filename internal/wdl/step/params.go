package step

import (
	"io"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// sectionDense is the section of a checkpoint with the dense parameters, see
// dense.Arena. Rank 0 writes it; each rank writes the shards it owns,
// sparse.SectionName, or in a checkpoint that builds upon another what changed in
// them, sparse.DeltaName, and of tables that admit keys what they have counted,
// sparse.SeenName.
const sectionDense = "dense"

// sectionPast is the section with the steps before, sparse.Store.Past, if l2.mode is dense.
const sectionPast = "past"

// Sections is what takes the sections of a part: a file, or memory.
type Sections interface {
	Section(name string, write func(io.Writer) error) error
}

// Full is the first step of a full checkpoint.
const Full = sparse.Everything

// Save puts this rank's share of the dense parameters into w and returns the tables as
// they are now, to be saved while steps continue: what has changed in them since a step,
// or all.
func (t *Trainer) Save(w Sections, since int64) (*sparse.Snapshot, error) {
	if t.comm.Rank() == 0 {
		if err := w.Section(sectionDense, t.model.arena.Save); err != nil {
			return nil, err
		}
		if past := t.model.store.Past(); past != nil {
			if err := w.Section(sectionPast, past.Save); err != nil {
				return nil, err
			}
		}
	}
	return t.model.store.Snapshot(since), nil
}

// IsDelta reports whether a section holds changes rather than a whole shard.
func IsDelta(section string) bool { return strings.HasPrefix(section, "delta/") }

// IsSeen reports whether a section holds sightings. In a checkpoint that builds upon
// another those that are left out are the other's.
func IsSeen(section string) bool { return strings.HasPrefix(section, "seen/") }

// Load replaces the parameters by those of a checkpoint; each rank reads the shards it
// owns, or will own by owner if that is not nil. A batch that was announced is pulled
// again when its turn comes.
func (t *Trainer) Load(c *checkpoint.Checkpoint, owner []int32) error {
	if err := t.model.forgetNext(); err != nil {
		return err
	}
	if err := c.Read(sectionDense, t.model.arena.Load); err != nil {
		return err
	}
	store := t.model.store
	t.first = c.Step()
	if err := store.Reset(); err != nil {
		return err
	}
	if past := store.Past(); past != nil && c.Has(sectionPast) { // earlier versions kept none
		if err := c.Read(sectionPast, past.Load); err != nil {
			return err
		}
	}
	if owner != nil {
		if err := store.Place(owner); err != nil {
			return err
		}
	}
	for table, tb := range t.model.layout.Tables {
		if err := LoadTable(store, c.Chain(), table, tb.Name); err != nil {
			return err
		}
	}
	t.rec.Enter(trace.Wait)
	if err := store.Recopy(); err != nil {
		return err
	}
	if !store.HasReplicated() {
		return nil
	}
	return t.copyRows()
}

// LoadTable fills an empty table of this rank from the links of a chain of checkpoints,
// the full one first.
func LoadTable(store *sparse.Store, links []*checkpoint.Checkpoint, table int, name string) error {
	store.SetNow(table, links[0].Step()) // ages count from there
	for n, link := range links {
		if err := loadLink(store, links, n, table, name); err != nil {
			return err
		}
		store.SetNow(table, link.Step())
	}
	if store.Config().Tables[table].Admit.After < 2 {
		return nil
	}
	return loadSeen(store, links, table, name)
}

// loadSeen brings the sightings of keys without a row to the end of a chain: of each
// shard, the latest that were saved.
func loadSeen(store *sparse.Store, links []*checkpoint.Checkpoint, table int, name string) error {
	for _, shard := range store.Owned() {
		seen := sparse.SeenName(name, shard)
		for _, link := range slices.Backward(links) {
			if !link.Has(seen) {
				continue
			}
			if err := link.Read(seen, func(r io.Reader) error { return store.LoadSeen(r, table, shard) }); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// loadLink brings the shards of a table to the step of link n of a chain: those that
// this link or an earlier one has whole, and no later one.
func loadLink(store *sparse.Store, links []*checkpoint.Checkpoint, n, table int, name string) error {
	link := links[n]
	for _, shard := range store.Owned() {
		whole, change := sparse.SectionName(name, shard), sparse.DeltaName(name, shard)
		if slices.ContainsFunc(links[n+1:], func(later *checkpoint.Checkpoint) bool { return later.Has(whole) }) {
			continue
		}
		var err error
		switch { // a shard without rows, or without changes, is not saved
		case link.Has(whole):
			err = link.Read(whole, func(r io.Reader) error { return store.LoadShard(r, table, shard) })
		case link.Has(change):
			err = link.Read(change, func(r io.Reader) error {
				_, err := store.LoadDelta(r, table, shard)
				return err
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
