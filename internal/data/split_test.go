package data

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestSplitIsWhatRanksRead: the parts of a batch are the batches of the ranks, in every order.
func TestSplitIsWhatRanksRead(t *testing.T) {
	path := numbered(t, 5000, 30)
	for _, c := range []struct {
		name   string
		limits limits
		path   string
		order  bool
		ranks  []int
	}{
		{"memory", limits{minGroup, maxHeld}, path, false, []int{1, 2, 5}},
		{"decks", tiny, path, false, []int{1, 2, 5, 64}},
		{"blocks", tiny, packedParts(t, path, 40), false, []int{1, 2, 3}},
		{"file order", tiny, path, true, []int{1, 2, 5}},
	} {
		d, fit := prepareWithin(t, c.limits, numberedSource(), numberedSchema(), 3, c.path)
		e := newEncoder(t, fit)
		for _, p := range c.ranks {
			config := ReaderConfig{Seed: 5, GlobalBatch: 700, Shuffle: !c.order, Split: p}
			whole, err := NewReader(d, e, config)
			fatal.If(t, err)
			defer whole.Close()
			var ranks []*Reader
			for rank := range p {
				config := config
				config.Split, config.Rank, config.Size = 0, rank, p
				r, err := NewReader(d, e, config)
				fatal.If(t, err)
				defer r.Close()
				ranks = append(ranks, r)
			}
			for step := 0; ; step++ {
				b, err := whole.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				fatal.If(t, err)
				parts := whole.Parts(b)
				if len(parts) != p+1 || parts[0] != 0 || parts[p] != b.Rows {
					t.Fatalf("%s, %d ranks, step %d: parts %v of %d rows", c.name, p, step, parts, b.Rows)
				}
				for rank, r := range ranks {
					own, err := r.Next(t.Context())
					fatal.If(t, err)
					if part := b.RowID[parts[rank]:parts[rank+1]]; !slices.Equal(part, own.RowID) {
						t.Fatalf("%s, step %d: part %d of %d has rows %v, the rank reads %v", c.name, step, rank, p, part, own.RowID)
					}
					r.Recycle(own)
				}
				whole.Recycle(b)
			}
		}
	}
}

// TestManyRanksOfFewDecks: with more ranks than decks, parts are equal runs of rows.
func TestManyRanksOfFewDecks(t *testing.T) {
	d, fit := prepareWithin(t, tiny, numberedSource(), numberedSchema(), 1, numbered(t, 900, 30))
	r, err := NewReader(d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 900, Shuffle: true, Split: 300})
	fatal.If(t, err)
	defer r.Close()
	b, err := r.Next(t.Context())
	fatal.If(t, err)
	for i, at := range r.Parts(b) {
		if at != 3*i {
			t.Fatalf("part %d begins at row %d", i, at)
		}
	}
}

// TestPeek: Next returns the batches that have been peeked, however many, and reading ahead goes
// on; a peek does not pass the end of an epoch.
func TestPeek(t *testing.T) {
	d, fit := prepare(t, numberedSource(), numberedSchema(), 1, numbered(t, 1000, 20))
	e := newEncoder(t, fit)
	for _, n := range []int{0, 1, 9, 90, 101, 105} {
		r, err := NewReader(d, e, ReaderConfig{GlobalBatch: 10, Epochs: 2, Depth: 4, Shuffle: true})
		fatal.If(t, err)
		var seen []string
		for i := range n {
			b, err := r.Peek(t.Context(), i)
			fatal.If(t, err)
			if (b == nil) != (i >= 100) {
				t.Fatalf("peek of batch %d of 100: %v", i, b)
			}
			if b != nil {
				seen = append(seen, fmt.Sprint(b.RowID))
			}
		}
		for i := range 202 {
			b, err := r.Next(t.Context())
			if end := i%101 == 100; end != errors.Is(err, io.EOF) || !end && err != nil {
				t.Fatalf("after a peek of %d: batch %d: %v", n, i, err)
			}
			if i < len(seen) && fmt.Sprint(b.RowID) != seen[i] {
				t.Errorf("batch %d has rows %v, peeked were %s", i, b.RowID, seen[i])
			}
			if err == nil {
				r.Recycle(b)
			}
		}
		r.Close()
	}
}
