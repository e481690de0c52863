package sparse

import (
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// FuzzBags pulls and pools bags of any shape with any keys. Bags that are rejected leave the
// store unchanged. All others are pooled as by the twin.
func FuzzBags(f *testing.F) {
	cfg := Config{Shards: 4, Tables: []Table{
		{Name: "x", Parts: []Part{{Name: "deep", Dim: 3, Init: Init{Kind: "uniform"}}, {Name: "wide", Dim: 1}}},
		{Name: "y", Parts: []Part{{Name: "deep", Dim: 2, Init: Init{Kind: "normal"}}}},
	}}
	f.Add(uint8(0), uint8(0), []byte{0, 2, 3}, []byte{1, 2, 1}, []byte(nil))
	f.Add(uint8(1), uint8(1), []byte{0, 0, 3}, []byte{255, 2, 1}, []byte{1, 0, 200})
	f.Add(uint8(1), uint8(2), []byte{0, 3, 1, 3}, []byte{1, 2, 3}, []byte(nil))
	f.Add(uint8(2), uint8(0), []byte{0}, []byte(nil), []byte(nil))
	f.Add(uint8(0), uint8(7), []byte(nil), []byte{1}, []byte{1, 2})
	f.Fuzz(func(t *testing.T, table, pooling uint8, offsets, keys, weights []byte) {
		s, err := Open(Local{}, cfg)
		fatal.If(t, err)
		defer s.Close()
		b := Bags{Table: int(int8(table)), Pooling: Pooling(pooling)}
		for _, o := range offsets {
			b.Offsets = append(b.Offsets, int32(int8(o)))
		}
		for i, k := range keys { // a few small keys and some large ones
			b.Values = append(b.Values, uint64(k)<<(8*(i%3)*3))
		}
		for i, w := range weights {
			b.Weights = append(b.Weights, float32(int8(w))/float32(1+i%4))
		}
		l := s.NewLookup()
		before := s.Counters()
		if err := s.Pull(l, []Bags{b}, true); err != nil {
			if after := s.Counters(); after != before {
				t.Fatalf("rejected with %v, but the counters changed to %v", err, after)
			}
			return
		}
		want := newTwin(cfg)
		for part := range cfg.Tables[b.Table].Parts {
			dim, bags := cfg.Tables[b.Table].Parts[part].Dim, max(0, len(b.Offsets)-1)
			got := make([]float32, bags*dim)
			l.Pool(0, part, got, dim, false)
			if bags == 0 {
				continue
			}
			if pooled := want.pool(b, part); !slices.Equal(got, pooled) {
				t.Fatalf("part %d of %+v: %v, want %v", part, b, got, pooled)
			}
		}
		if n := len(b.Values); s.Counters().KeysPulled != int64(n) || s.Counters().RowsHeld != 0 {
			t.Fatalf("after a pull of %d keys: %+v", n, s.Counters())
		}
		if err := s.Pull(l, []Bags{b}, false); err != nil {
			t.Fatalf("pull for reading: %v", err)
		}
		if n := l.Unknown(0); n != int64(len(b.Values)) {
			t.Fatalf("%d of %d values have no row", n, len(b.Values))
		}
	})
}
