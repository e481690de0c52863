package sparse

import (
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/optim"
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
	for i, how := range []Strategy{Rows, Pooled} {
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
			for k, all := range records(s) {
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

// zipfJob returns a job with Zipf(1.2) keys in two tables and different gradients on every
// rank.
func zipfJob(ranks, steps int) *job {
	j := fixedJob(optim.Rule{Kind: "adam"}, false, ranks, 0)
	for i := range j.cfg.Tables {
		if t := &j.cfg.Tables[i]; t.Name == "user" {
			t.Wire = Wire{Rows: BF16, Gradients: BF16}
		}
	}
	for n := range steps {
		step := jobStep{at: Step{N: int64(n + 1), Scale: 0.1, Rate: 1, Clip: 0.5}}
		for r := range ranks {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(r)))
			zipf := rand.NewZipf(rng, 1.2, 1, 1<<20)
			a, b := zipfBags(zipf, 24)[0], zipfBags(zipf, 24)[0]
			b.Table = 1
			grad := func(n int) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				return x
			}
			step.bags = append(step.bags, []Bags{a, b})
			step.dy = append(step.dy, [][][]float32{{grad(24 * 4), grad(24)}, {grad(24 * 3)}})
		}
		j.steps = append(j.steps, step)
	}
	return j
}
