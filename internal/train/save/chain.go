package save

import (
	"errors"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/sparse"
)

// Content is the checksum and the size of a section's content.
type Content struct {
	Sum   checkpoint.Sum
	Bytes int64
}

// Contents returns the content of each section that c would have as a full checkpoint. If c
// is incremental, it builds the tables from the whole chain, one at a time. Checkpoints of
// equal models therefore have equal contents, however they were written.
func Contents(c *checkpoint.Checkpoint) (map[string]Content, error) {
	contents := map[string]Content{}
	for _, link := range c.Chain() { // the last one is c
		for _, name := range link.Names() {
			if step.IsDelta(name) || link.Dir() != c.Dir() && !step.IsSeen(name) {
				continue
			}
			var x Content
			if err := x.Sum.UnmarshalText([]byte(link.Checksum(name))); err != nil {
				return nil, err
			}
			x.Bytes = link.Size(name)
			contents[name] = x
		}
	}
	if c.Base() == nil {
		return contents, nil
	}
	cfg, store, err := tablesOf(c)
	if err != nil {
		return nil, fmt.Errorf("contents of %s: %w", c.Dir(), err)
	}
	defer store.Close()
	for table, tb := range cfg.Tables {
		err := errors.Join(store.Reset(), step.LoadTable(store, c.Chain(), table, tb.Name, 0, nil))
		for _, shard := range store.Shards().Owned() {
			delete(contents, sparse.SectionName(tb.Name, shard))
		}
		for _, s := range store.Files().Sections() {
			var x Content
			if err == nil {
				x.Sum, x.Bytes, err = checkpoint.SumOf(func(w io.Writer) error { return store.Files().SaveShard(w, s.Table, s.Shard) })
			}
			contents[s.Name] = x
		}
		if err != nil {
			return nil, fmt.Errorf("contents of %s: %w", c.Dir(), err)
		}
	}
	return contents, nil
}

// tablesOf opens an empty store with the tables of a checkpoint.
func tablesOf(c *checkpoint.Checkpoint) (cfg sparse.Config, store *sparse.Store, err error) {
	settings, err := ReadConfig(c)
	if err != nil {
		return cfg, nil, err
	}
	settings.Fill()
	b, err := Read(c, SectionEncoder)
	if err != nil {
		return cfg, nil, err
	}
	encoder, err := encode.LoadEncoder(b)
	if err != nil {
		return cfg, nil, err
	}
	l := layout.New(settings, encoder.Sparse(), encoder.Dense())
	cfg = sparse.Config{Tables: l.Tables, Seed: settings.Train.Seed}
	store, err = sparse.Open(sparse.Local{}, cfg)
	return cfg, store, err
}
