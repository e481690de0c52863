package encode

import (
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestGrownVocabularyTakesNoMoreMemory: a vocabulary that has grown by a thirtieth has the keys of one that was
// made at once, and takes the same memory. With -whole it has 10 million strings.
func TestGrownVocabularyTakesNoMoreMemory(t *testing.T) {
	n := patient.Size(300_000, 10_000_000)
	held := func(build func() *Encoder) (*Encoder, uint64) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		e := build()
		runtime.GC()
		runtime.ReadMemStats(&after)
		return e, after.HeapAlloc - before.HeapAlloc
	}
	of := func(from, to int) *Encoder {
		words := make([]string, 0, to-from)
		for i := from; i < to; i++ {
			words = append(words, "item-"+strconv.Itoa(i))
		}
		slices.Sort(words)
		s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "item", Encode: "vocabulary"}}}
		e, err := compile(s.Fill(), []statistics{{Vocabulary: words}})
		fatal.If(t, err)
		return e
	}
	once, atOnce := held(func() *Encoder { return of(0, n) })
	grown, after := held(func() *Encoder {
		e, _, err := of(n-n/10, n).Grow(of(0, n-n/30), Growth{Was: func(name string) string { return name }})
		fatal.If(t, err)
		return e
	})
	if !slices.Equal(grown.stats[0].Vocabulary, once.stats[0].Vocabulary) || grown.stats[0].set.n != n {
		t.Errorf("%d strings and %d keys, want %d", len(grown.stats[0].Vocabulary), grown.stats[0].set.n, n)
	}
	ratio := float64(after) / float64(atOnce)
	t.Logf("%d strings: %.1f MB made at once, %.1f MB grown: %.3f", n, float64(atOnce)/1e6, float64(after)/1e6, ratio)
	if ratio > 1.15 {
		t.Errorf("a grown vocabulary takes %.2f of the memory, want at most 1.15", ratio)
	}
}
