package data

import (
	"context"
	"sync"

	"github.com/wdlrun/wdlrun/internal/data/encode"
)

// maxHeld is the maximum size in bytes of a dataset that is shuffled as a whole, with
// keptBytes per record.
const maxHeld = 64 << 20

// memory holds all records of a dataset. It is filled once and shared by the readers of
// one encoder, for all ranks, slots and epochs.
type memory struct {
	sync.Mutex
	encoder *encode.Encoder
	coded   bool // records are encoded rows
	stored
}

// recall makes all selected records the window of the deck.
func (f *filler) recall(ctx context.Context, k *deck) error {
	if first := &f.decks[0]; first != k && first.hi > 0 { // another share of the same deck
		k.window = first.window
		return nil
	}
	m := f.memory
	m.Lock()
	defer m.Unlock()
	if m.encoder != f.encoder || m.coded != f.coded() {
		all := stage{window: window{stored: stored{allocate(int(f.Dataset.rows) * f.bytes), make([]kept, 0, f.Dataset.rows)}}}
		for g := range f.groups {
			if ctx.Err() != nil {
				return errClosed
			}
			if err := f.group(f.source, int32(g), All, &all, 0, int64(f.groups[g].rows)); err != nil {
				return err
			}
		}
		m.encoder, m.coded, m.stored = f.encoder, f.coded(), all.stored
	}
	if f.selected == nil {
		for i, x := range m.kept {
			if f.selects(f.sel, int(x.block), x.row) {
				f.selected = append(f.selected, int32(i))
			}
		}
	}
	turns := append(f.stage.turns[:0], f.selected...)
	f.order.permute(0, extent{}, turns)
	k.lo, k.hi, k.raw, k.kept = 0, int64(len(turns)), m.raw, k.kept[:0]
	for _, n := range turns {
		k.kept = append(k.kept, m.kept[n])
	}
	f.stage.turns = turns
	return nil
}
