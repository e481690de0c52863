package sparse

import (
	"maps"
	"sync"
	"testing"
)

// TestNormsAreThoseOfAllRanks: with every strategy, the ranks together count each row once and
// each gradient of the counted steps once.
func TestNormsAreThoseOfAllRanks(t *testing.T) {
	const size = 3
	j := zipfJob(size, 12)
	type counts = [2]map[float64]int
	fresh := func() counts { return counts{{}, {}} }
	equal := func(a, b counts) bool { return maps.Equal(a[0], b[0]) && maps.Equal(a[1], b[1]) }
	var want counts
	for i, how := range []Strategy{Rows, Pooled, Replicated} {
		for k := range j.cfg.Tables {
			j.cfg.Tables[k].Strategy, j.cfg.Tables[k].Wire = how, Wire{}
		}
		var mu sync.Mutex
		rows, grads, plain := fresh(), fresh(), fresh()
		onRanks(t, size, j.cfg, func(s *Store) error {
			defer s.Close()
			own := fresh()
			s.ObserveGradients(4, func(table int, norm float64) { own[table][norm]++ })
			l := s.NewLookup()
			for n, step := range j.steps {
				if err := s.Pull(l, step.bags[s.rank], true); err != nil {
					return err
				}
				if _, _, err := step.train(s, l); err != nil {
					return err
				}
				if _, err := s.Copies().Refresh(); err != nil {
					return err
				}
				if n == 7 { // steps 4 and 8 are counted, then only step 12
					clear(own[0])
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k := range s.tables {
				if err := s.RowNorms(k, 0, s.cfg.Shards, func(norm float64) { rows[k][norm]++ }); err != nil {
					return err
				}
				for norm, n := range own[k] {
					grads[k][norm] += n
				}
			}
			for k, all := range owned(s) {
				lo, hi := s.tables[k].Part(0)
				for _, record := range all {
					plain[k][norm(record[lo:hi])]++
				}
			}
			return nil
		})
		if i == 0 {
			want = grads
		}
		if !equal(grads, want) {
			t.Errorf("strategy %v counts different gradients from %v", how, Rows)
		}
		for k, of := range grads {
			if n := total(of); n == 0 || k == 0 && n >= total(grads[1]) {
				t.Errorf("strategy %v: %d gradients of table %d, %d of table 1", how, n, k, total(grads[1]))
			}
		}
		if !equal(rows, plain) || len(rows[0]) == 0 {
			t.Errorf("strategy %v: the %d norms of rows differ from the %d computed from all rows", how, len(rows[0]), len(plain[0]))
		}
	}
}

func total(c map[float64]int) (n int) {
	for _, x := range c {
		n += x
	}
	return n
}
