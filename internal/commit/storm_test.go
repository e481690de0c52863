package commit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// storm is a job of several ranks in which anything happens, drawn from a seed:
// what the model visits whole in small worlds, sampled in larger ones.
type storm struct {
	t       *testing.T
	rng     *rand.Rand
	cfg     Config
	now     time.Duration
	leads   []*Coordinator // the last one rules
	owners  []*Owner       // nil: ended
	workers []*Worker
	flight  []Message
	applied map[int64]string // step to its set, as its first owner applied it
	counted map[Batch]int64  // to its step
	ended   bool
}

func newStorm(t *testing.T, seed uint64, cfg Config, q Queue) *storm {
	s := &storm{t: t, rng: rand.New(rand.NewPCG(seed, 3)), cfg: cfg.Default(),
		applied: map[int64]string{}, counted: map[Batch]int64{}}
	for r := range cfg.Workers {
		s.owners = append(s.owners, NewOwner(r, 0, Record{Queue: q}, 0))
		s.workers = append(s.workers, NewWorker(r, 0))
	}
	s.takeover()
	return s
}

func (s *storm) alive() (ranks []int) {
	for r, o := range s.owners {
		if o != nil {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

func (s *storm) takeover() {
	cfg := s.cfg
	cfg.Owners = s.alive()
	n := len(s.leads) + 1
	c := NewCoordinator(cfg, MakeTerm(1, 100*n, n)) // beyond any reform of those before
	s.leads = append(s.leads, c)
	s.lead(c.Start(s.now))
	for _, r := range s.alive() {
		s.lead(c.Join(s.now, r))
	}
}

func (s *storm) lead(out []Message, notes []Note) {
	for _, n := range notes {
		switch n.Event {
		case Lost, Poisoned:
			s.t.Fatalf("%s", n.Text)
		case Done:
			s.ended = true
		}
	}
	s.flight = append(s.flight, out...)
}

// end ends a rank, if the others hold what it holds.
func (s *storm) end(r int) {
	left := without(s.alive(), r)
	if s.owners[r] == nil || !Covers(left, s.cfg.Workers, s.cfg.Replicas) {
		return
	}
	s.owners[r], s.workers[r] = nil, nil
	newest := int64(0) // a set that only the dead applied is forgotten
	for _, r := range left {
		newest = max(newest, s.owners[r].Version())
	}
	delete(s.applied, newest+1)
	for b, step := range s.counted {
		if step > newest {
			delete(s.counted, b)
		}
	}
	s.lead(s.leads[len(s.leads)-1].Leave(s.now, r))
}

func (s *storm) deliver(m Message) {
	switch {
	case m.To == Lead:
		for _, c := range s.leads {
			if c.Term() == m.Tag.Term {
				s.lead(c.Receive(s.now, m))
			}
		}
	case s.owners[m.To] == nil:
	case slices.Contains([]Kind{Lease, Cancel, Rows, Stale}, m.Kind):
		w := s.workers[m.To]
		o := w.Receive(m, 0)
		s.flight = append(s.flight, o.Messages...)
		switch {
		case o.Act != Compute:
		case s.rng.IntN(50) == 0 && s.now < time.Second:
			s.flight = append(s.flight, w.Failed(o.Tag).Messages...)
		default:
			s.flight = append(s.flight, w.Computed(o.Tag).Messages...)
		}
	default:
		o, err := s.owners[m.To].Receive(m)
		if err != nil {
			s.t.Fatal(err)
		}
		if o.Act == Apply {
			s.check(*o.Record)
		}
		s.flight = append(s.flight, o.Messages...)
	}
}

func (s *storm) check(r Record) {
	set := ""
	for _, p := range r.Pieces {
		set += fmt.Sprintf("%d:%d.%d ", p.Slot, p.Batch.Epoch, p.Batch.First)
		if at, ok := s.counted[p.Batch]; ok && at != r.Step {
			s.t.Fatalf("rows %d of epoch %d count in steps %d and %d", p.Batch.First, p.Batch.Epoch, at, r.Step)
		}
		s.counted[p.Batch] = r.Step
	}
	if first, ok := s.applied[r.Step]; ok && first != set {
		s.t.Fatalf("step %d: one owner applied %s, another %s", r.Step, first, set)
	}
	s.applied[r.Step] = set
}

// blow lets n things happen.
func (s *storm) blow(n int) {
	for range n {
		s.now += 100 * time.Microsecond
		switch k := s.rng.IntN(1000); {
		case k < 3 && len(s.leads) < 8:
			s.takeover()
		case k < 5:
			s.end(s.rng.IntN(len(s.owners)))
		case k < 25:
			s.lead(s.leads[s.rng.IntN(len(s.leads))].Tick(s.now))
		case k < 30:
			s.lead(s.leads[s.rng.IntN(len(s.leads))].Retry(s.now))
		case len(s.flight) > 0:
			i := s.rng.IntN(len(s.flight))
			m := s.flight[i]
			if k < 900 { // else it is delivered again
				s.flight = slices.Delete(s.flight, i, i+1)
			}
			if k > 100 { // else it is lost
				s.deliver(m)
			}
		}
	}
}

// calm delivers everything until all is done.
func (s *storm) calm() {
	s.ended, s.now = false, s.now+time.Second
	c := s.leads[len(s.leads)-1]
	for range 10_000 {
		if s.ended && len(s.flight) == 0 {
			return
		}
		if len(s.flight) == 0 {
			s.now += time.Second
			s.lead(c.Retry(s.now))
			for _, w := range s.workers {
				if w != nil {
					s.flight = append(s.flight, w.Retry().Messages...)
				}
			}
		}
		now := s.flight
		s.flight = nil
		for _, m := range now {
			s.deliver(m)
		}
	}
	s.t.Fatal("no end although nothing fails any more")
}

// TestStorms lets seeded storms blow over jobs of six ranks: lost, repeated and
// late messages, takeovers whose predecessors go on, ranks that end. Every
// microbatch must count once, in one step, for every owner, and all must get done.
func TestStorms(t *testing.T) {
	seeds := uint64(150)
	if *exhaustive {
		seeds = 20_000
	}
	for seed := range seeds {
		cfg := Config{Mode: Mode(seed % 3), Workers: 6, Slots: 5, Epochs: 2, Replicas: 2, Strikes: 1000, Retries: 2}
		if cfg.Mode == Drop {
			cfg.Backup = 1 + int(seed/3%2)
		}
		s := newStorm(t, seed, cfg, Queue{Total: 75, Size: 2})
		s.blow(3000)
		s.calm()
		if t.Failed() || len(s.counted) != 2*38 {
			t.Fatalf("seed %d: %d microbatches count, want %d", seed, len(s.counted), 2*38)
		}
	}
}
