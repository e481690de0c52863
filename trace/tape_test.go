package trace

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// entry is a span with its exchanges.
type entry struct {
	span
	in []exchange
}

// TestTape: a tape returns the last spans as they were recorded, with their exchanges, even
// after it has reused its memory. Buckets have no exchanges.
func TestTape(t *testing.T) {
	const keep = 2000
	random := rand.New(rand.NewPCG(1, 2))
	tape := newTape(keep)
	var all []entry
	var in []exchange
	now, seq := int64(0), uint64(0)
	for i := range 5 * keep {
		s := span{step: int64(i / 6), start: now, phase: Phase(i % Phases), bytes: random.Int64N(1 << 20), rows: random.IntN(1000)}
		for range random.IntN(3) {
			now += random.Int64N(100_000)
			seq++
			in = append(in, exchange{now, seq})
			tape.addExchange(exchange{now, seq})
		}
		now += random.Int64N(100_000)
		s.end = now
		if s.nth = max(0, random.IntN(8)-6); s.nth > 0 {
			all = append(all, entry{s, nil})
		} else {
			all, in = append(all, entry{s, in}), nil
		}
		tape.addSpan(&s)
		if i%777 == 0 {
			same(t, &tape, all, 10)
		}
	}
	same(t, &tape, all, keep)
	same(t, &tape, all, 5*keep)
	if int(tape.lost)+tape.spans != len(all) || tape.lost == 0 {
		t.Errorf("%d spans lost and %d kept of %d", tape.lost, tape.spans, len(all))
	}
	extreme := span{step: 1 << 62, start: -1 << 62, end: 1 << 62, phase: Phases - 1, nth: 1 << 40, bytes: 1 << 62, rows: 1 << 40}
	tape.addSpan(&extreme)
	same(t, &tape, append(all, entry{extreme, nil}), 2)
}

// same checks the last spans of a tape.
func same(t *testing.T, tape *tape, all []entry, last int) {
	t.Helper()
	var got []entry
	tape.each(tape.older(last), func(s *span, in []exchange) error {
		got = append(got, entry{*s, append([]exchange(nil), in...)})
		return nil
	})
	if want := all[max(0, len(all)-min(last, tape.keep)):]; !reflect.DeepEqual(got, want) {
		t.Fatalf("%d spans, want %d: %v, want %v", len(got), len(want), got[:min(2, len(got))], want[:2])
	}
}

// TestTapeAllocatesNothing: a tape allocates no memory, even when it reuses its memory.
func TestTapeAllocatesNothing(t *testing.T) {
	tape, n := newTape(10), int64(0)
	if allocs := testing.AllocsPerRun(10_000, func() {
		n++
		tape.addExchange(exchange{n, uint64(n)})
		tape.addSpan(&span{step: n, start: n, end: n + 1})
	}); allocs != 0 || tape.lost == 0 {
		t.Errorf("%v allocations per span, %d spans lost", allocs, tape.lost)
	}
}
