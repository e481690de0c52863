package join

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"
)

// collected is an Output that keeps everything.
type collected struct {
	samples   []Sample
	unmatched []Ref
}

func (c *collected) Sample(s Sample)   { c.samples = append(c.samples, s) }
func (c *collected) Unmatched(ref Ref) { c.unmatched = append(c.unmatched, ref) }

// fed returns the number of samples with feedback.
func (c *collected) fed() (n int) {
	for _, s := range c.samples {
		if s.Feedback != 0 {
			n++
		}
	}
	return n
}

// happened is a record in the order of arrival.
type happened struct {
	feedback bool
	source   int
	key      uint64
	time     int64
}

// twin is a join with nothing but lists. It looks at all of them for each record.
type twin struct {
	Rules
	collected
	greatest         []int64
	idle, end        []bool
	watermark        int64
	impressions, fed []kept
}

type kept struct {
	happened
	ref       Ref
	done      bool
	given     Ref // feedback of an impression
	givenTime int64
}

func (w *twin) add(h happened, ref Ref) Outcome {
	w.greatest[h.source] = max(w.greatest[h.source], h.time)
	w.idle[h.source] = false
	if !h.feedback {
		for _, x := range w.impressions {
			if !x.done && x.key == h.key {
				return Duplicate
			}
		}
		if h.time < w.watermark {
			return Late
		}
		w.impressions = append(w.impressions, kept{happened: h, ref: ref})
		if w.Early {
			w.Sample(Sample{ref, 0, h.time})
		}
		for i := range w.fed {
			if f := &w.fed[i]; !f.done && f.key == h.key && h.time <= f.time && f.time <= h.time+w.Window {
				f.done = true
				w.give(&w.impressions[len(w.impressions)-1], f.time, f.ref)
			}
		}
		return Opened
	}
	for i := range w.impressions {
		if x := &w.impressions[i]; !x.done && x.key == h.key && x.time <= h.time && h.time <= x.time+w.Window {
			return w.give(x, h.time, ref)
		}
	}
	if h.time < w.watermark {
		return Late
	}
	w.fed = append(w.fed, kept{happened: h, ref: ref})
	return Held
}

func (w *twin) give(x *kept, time int64, ref Ref) Outcome {
	if x.given != 0 && (w.Early || x.givenTime <= time) {
		return Repeated
	}
	x.given, x.givenTime = ref, time
	if w.Early {
		w.Sample(Sample{x.ref, ref, x.time})
	}
	return Matched
}

func (w *twin) advance() {
	least, active, ended := Always, false, true
	for i, t := range w.greatest {
		ended = ended && w.end[i]
		if w.end[i] || w.idle[i] {
			continue
		}
		active = true
		if t == Never {
			return
		}
		least = min(least, t-w.Delay)
	}
	if !active && !ended {
		return
	}
	w.watermark = max(w.watermark, least)
	for i := range w.impressions {
		if x := &w.impressions[i]; !x.done && x.time < w.watermark-w.Window {
			x.done = true
			if !w.Early {
				w.Sample(Sample{x.ref, x.given, x.time})
			}
		}
	}
	for i := range w.fed {
		if f := &w.fed[i]; !f.done && f.time < w.watermark {
			f.done = true
			w.Unmatched(f.ref)
		}
	}
}

// bySample orders samples, since those that one watermark passes have no order.
func bySample(s []Sample) []Sample {
	slices.SortFunc(s, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.Impression, b.Impression), cmp.Compare(a.Feedback, b.Feedback))
	})
	return s
}

// TestMachineEqualsItsTwin: every outcome and every sample of random records, with duplicates, gaps,
// late and early ones, idle and ended sources, are those of the twin.
func TestMachineEqualsItsTwin(t *testing.T) {
	outcomes := map[Outcome]int{}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		rules := Rules{Window: r.Int64N(40), Delay: r.Int64N(20), Early: seed%4 == 3}
		sources := 2 + r.IntN(3)
		w := &twin{Rules: rules, watermark: Never, greatest: make([]int64, sources), idle: make([]bool, sources), end: make([]bool, sources)}
		out := &collected{}
		m := NewMachine(rules, out)
		for i := range sources {
			w.greatest[i] = Never
			m.Source(fmt.Sprint(i))
		}
		now := int64(0)
		for n := Ref(1); n < 400; n++ {
			now += r.Int64N(5)
			h := happened{source: r.IntN(sources), key: r.Uint64N(30), time: now + r.Int64N(30) - 15}
			h.feedback = h.source%2 == 1
			if w.end[h.source] {
				continue
			}
			var got Outcome
			want := w.add(h, n)
			if h.feedback {
				got = m.Feedback(h.source, Key{Lo: h.key}, h.time, n)
			} else {
				got = m.Impression(h.source, Key{Lo: h.key}, h.time, n)
			}
			if outcomes[want]++; got != want {
				t.Fatalf("seed %d, record %d: outcome %d, twin %d", seed, n, got, want)
			}
			switch r.IntN(20) {
			case 0:
				m.Idle(h.source)
				w.idle[h.source] = true
			case 1:
				if n > 300 {
					m.End(h.source)
					w.end[h.source] = true
				}
			case 2, 3, 4:
				m.Advance()
				w.advance()
			}
			if m.Watermark() != w.watermark {
				t.Fatalf("seed %d, record %d: watermark %d, twin %d", seed, n, m.Watermark(), w.watermark)
			}
		}
		for i := range sources {
			m.End(i)
			w.end[i] = true
		}
		m.Advance()
		w.advance()
		if !slices.Equal(bySample(out.samples), bySample(w.samples)) {
			t.Fatalf("seed %d: samples %v, twin %v", seed, out.samples, w.samples)
		}
		slices.Sort(out.unmatched)
		slices.Sort(w.unmatched)
		if open, held := m.Open(); !slices.Equal(out.unmatched, w.unmatched) || open+held+m.open.count+len(m.open.fed)+len(m.held) > 0 {
			t.Fatalf("seed %d: unmatched %v, twin %v; open %d, held %d", seed, out.unmatched, w.unmatched, open, held)
		}
	}
	for o := Opened; o <= Late; o++ {
		if outcomes[o] < 100 {
			t.Errorf("only %d records have outcome %d", outcomes[o], o)
		}
	}
}

// TestSamplesDoNotDependOnTheOrder: if no record is late, the samples are the left join of the sets of
// records, in whatever order and with whatever pauses they arrive.
func TestSamplesDoNotDependOnTheOrder(t *testing.T) {
	const window, delay, keys = 50, 30, 200
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		var all []happened
		first := map[uint64]int64{} // the earliest feedback of a key in the window, if it has any
		for key := range uint64(keys) {
			shown := r.Int64N(2000)
			for range 1 + r.IntN(2) { // duplicates
				all = append(all, happened{false, r.IntN(2), key, shown})
			}
			for range r.IntN(3) {
				clicked := shown + r.Int64N(80) - 10
				all = append(all, happened{true, 2 + r.IntN(2), key, clicked})
				if was, known := first[key]; clicked >= shown && clicked <= shown+window && (!known || clicked < was) {
					first[key] = clicked
				}
			}
		}
		// In order of their times, disturbed by less than delay.
		slices.SortFunc(all, func(a, b happened) int { return cmp.Compare(a.time, b.time) })
		late := make([]int64, len(all))
		for i := range all {
			late[i] = all[i].time + r.Int64N(delay)
		}
		order := make([]int, len(all))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(late[a], late[b]) })
		out := &collected{}
		m := NewMachine(Rules{Window: window, Delay: delay}, out)
		for i := range 4 {
			m.Source(fmt.Sprint(i))
		}
		refs := map[Ref]happened{}
		for n, i := range order {
			h, ref := all[i], Ref(n+1)
			refs[ref] = h
			outcome := Outcome(0)
			if h.feedback {
				outcome = m.Feedback(h.source, Key{Lo: h.key}, h.time, ref)
			} else {
				outcome = m.Impression(h.source, Key{Lo: h.key}, h.time, ref)
			}
			if outcome == Late {
				t.Fatalf("seed %d: %+v is late at watermark %d", seed, h, m.Watermark())
			}
			if r.IntN(10) == 0 {
				m.Advance()
			}
		}
		for i := range 4 {
			m.End(i)
		}
		m.Advance()
		if fed := len(slices.DeleteFunc(slices.Clone(all), func(h happened) bool { return !h.feedback })); fed != out.fed()+len(out.unmatched)+int(m.repeated) {
			t.Fatalf("seed %d: %d feedback; %d are with a sample, %d without, %d repeated", seed, fed, out.fed(), len(out.unmatched), m.repeated)
		}
		if len(out.samples) != keys {
			t.Fatalf("seed %d: %d samples of %d impressions", seed, len(out.samples), keys)
		}
		for _, s := range out.samples {
			want, positive := first[refs[s.Impression].key]
			if (s.Feedback != 0) != positive || positive && refs[s.Feedback].time != want {
				t.Fatalf("seed %d: sample %+v, feedback at %d (%v)", seed, refs[s.Impression], want, positive)
			}
		}
	}
}

// TestOpenImpressionsAreSmall: an open impression takes less than 80 bytes of memory.
func TestOpenImpressionsAreSmall(t *testing.T) {
	const n = 400_000
	size := func() int64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before := size()
	m := NewMachine(Rules{Window: 1 << 40}, discard{})
	source := m.Source("x")
	for i := range uint64(n) {
		m.Impression(source, xxh3.HashString128(fmt.Sprint(i)), int64(i), Ref(i+1))
	}
	each := (size() - before) / n
	if impressions, _ := m.Open(); impressions != n || each > 80 {
		t.Errorf("%d impressions, %d bytes each", impressions, each)
	}
	runtime.KeepAlive(m)
}
