package metrics

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// plainGAUC compares all pairs within each group.
func plainGAUC(group []uint64, logit, label, weight []float32) float64 {
	var sum, all float64
	done := map[uint64]bool{}
	for _, g := range group {
		var right, pairs, of float64
		if done[g] {
			continue
		}
		done[g] = true
		for i := range group {
			if group[i] != g {
				continue
			}
			of += float64(weight[i])
			for k := range group {
				if group[k] != g || label[i] < 0.5 || label[k] > 0.5 {
					continue
				}
				w := float64(weight[i]) * float64(weight[k])
				pairs += w
				if logit[i] > logit[k] {
					right += w
				} else if logit[i] == logit[k] {
					right += w / 2
				}
			}
		}
		if pairs > 0 {
			sum += of * right / pairs
			all += of
		}
	}
	return sum / all
}

// TestGAUC compares the GAUC with a count of all pairs. It has the same bits on any number of
// ranks.
func TestGAUC(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	logit, label, weight := samples(2000, 21)
	group := make([]uint64, len(logit))
	users := make([]uint64, 150)
	for i := range users {
		users[i] = rng.Uint64()
	}
	for i := range group {
		group[i] = users[rng.IntN(150)*rng.IntN(150)/150]
		logit[i] = float32(math.Round(float64(logit[i])*8) / 8) // ties
	}
	want := plainGAUC(group, logit, label, weight)
	var first GroupMetrics
	for _, size := range []int{1, 2, 5} {
		err := mem.Run(size, 2, func(comm *collective.Comm) error {
			g := NewGroups(2000)
			for i := comm.Rank(); i < len(logit); i += size {
				g.Add(group[i], logit[i], label[i], weight[i])
			}
			if comm.Rank() == 0 {
				g.Miss()
			}
			m, err := g.Reduce(comm)
			if err != nil {
				return err
			}
			if comm.Rank() == 0 && size == 1 {
				first = m
			}
			if math.Abs(*m.GAUC-want) > 1e-12 || !reflect.DeepEqual(m, first) && (comm.Rank() > 0 || size > 1) {
				t.Errorf("%d ranks: %+v, GAUC %v; on one %+v; all pairs give %v", size, m, *m.GAUC, first, want)
			}
			if m.Missing != 1 || m.Samples+m.OneClassSamples != 2000 || m.Groups == 0 || m.OneClassGroups == 0 || m.Share != 1 {
				t.Errorf("%+v", m)
			}
			return nil
		})
		fatal.If(t, err)
	}
}

// TestTooManySamplesForGroups: a share of the groups is kept, each with all its samples.
func TestTooManySamplesForGroups(t *testing.T) {
	g := NewGroups(4 * maxGrouped)
	if g.share != 0.25 {
		t.Fatalf("a share of %v", g.share)
	}
	rng := rand.New(rand.NewPCG(1, 9))
	for range 4000 {
		user := rng.Uint64()
		g.Add(user, 1, 1, 1)
		g.Add(user, 0, 0, 1)
	}
	err := mem.Run(1, 2, func(comm *collective.Comm) error {
		m, err := g.Reduce(comm)
		if m.Groups < 900 || m.Groups > 1100 || m.Samples != 2*m.Groups || m.OneClassGroups != 0 || *m.GAUC != 1 {
			t.Errorf("%+v", m)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
