package sparse

import (
	"bytes"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// TestAdopt: a store takes the rows of another one and continues as if it had loaded them. It takes no
// table of another configuration.
func TestAdopt(t *testing.T) {
	open := func(cfg Config) *Store {
		s, err := Open(Local{}, cfg)
		fatal.If(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	save := func(s *Store) (all []byte) {
		var b bytes.Buffer
		for _, x := range s.Files().Sections() {
			fatal.If(t, s.Files().SaveShard(&b, x.Table, x.Shard))
		}
		return b.Bytes()
	}
	step := func(s *Store, n int64, keys ...uint64) {
		l := s.NewLookup()
		fatal.If(t, s.Pull(l, oneBag(keys...), true))
		l.PoolGrad(0, 0, []float32{1, 2}, 2)
		fatal.If(t, s.Push(l))
		fatal.If(t, s.Apply(Step{N: n, Scale: 1, Rate: 1}))
	}
	old, want, now := open(plainConfig(2)), open(plainConfig(2)), open(plainConfig(2))
	step(old, 1, 1, 2, 3)
	step(want, 1, 1, 2, 3)
	other := plainConfig(2)
	other.Tables[0].Evict = table.Evict{Age: 9}
	if open(other).Files().Adopt(0, old, 0) {
		t.Error("a table of another configuration is taken")
	}
	if !now.Files().Adopt(0, old, 0) || old.Rows(0) != 0 || now.Rows(0) != 3 {
		t.Fatalf("%d rows of 3, %d are left", now.Rows(0), old.Rows(0))
	}
	if now.Files().Adopt(0, want, 0) {
		t.Error("a table with rows is replaced")
	}
	step(now, 2, 3, 4)
	step(want, 2, 3, 4)
	if !bytes.Equal(save(now), save(want)) {
		t.Error("after a step it has other rows")
	}
}
