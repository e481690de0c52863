package slots

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// world configures the exploration: every order in which ranks report, with and without
// passing time, and the loss of a rank, after which a new machine continues from the record.
type world struct {
	cfg    Config
	total  int64 // microbatches in an epoch
	epochs int64
	silent bool // the epochs must end even if rank 0 stops reporting

	// round replaces Machine.Round to disable a rule.
	round func(m *Machine, now time.Duration, all []Report) Decision
}

// state is a machine and the outcome of its decisions.
type state struct {
	m       *Machine
	record  Record
	counted [4]int // by microbatch of the record's epoch
	whole   []Lease
}

const (
	moment = time.Duration(100) // time of every round; earlier times are shifted
	usual  = time.Duration(2)
	ages   = time.Duration(9) // greater ages are equivalent
)

// normal shifts a machine's times and clears its measurements.
func (s *state) normal(passed time.Duration) {
	old := func(t time.Duration) time.Duration { return moment - min(moment-t+passed, ages) }
	s.m.begun, s.m.gaps = old(s.m.begun), gaps{usual: usual}
	for i := range s.m.ranks {
		s.m.ranks[i].since = old(s.m.ranks[i].since)
	}
	for i := range s.m.slots {
		for k := range s.m.slots[i].attempts {
			s.m.slots[i].attempts[k].since = old(s.m.slots[i].attempts[k].since)
		}
	}
}

func (s state) clone() state {
	m := *s.m
	m.ranks, m.free, m.slots = slices.Clone(m.ranks), slices.Clone(m.free), slices.Clone(m.slots)
	for i := range m.slots {
		m.slots[i].attempts = slices.Clone(m.slots[i].attempts)
	}
	m.out = Decision{}
	s.m, s.whole = &m, slices.Clone(s.whole)
	return s
}

func (s state) key() string {
	return fmt.Sprint(s.m.cfg.Backup, s.m.ranks, s.m.free, s.m.slots, s.m.queue, s.m.begun, s.counted)
}

// begin returns a group that starts from a record.
func (w world) begin(s state) (state, string) {
	m, d, err := New(w.cfg, s.record)
	if err != nil {
		return s, err.Error()
	}
	s.m, s.whole = m, nil
	fault := w.apply(&s, make([]rankState, w.cfg.Ranks), nil, d)
	s.normal(moment)
	return s, fault
}

// report makes the ranks in the set report after some time.
func (w world) report(s state, ranks int, passed time.Duration) (state, string) {
	s = s.clone()
	s.normal(passed)
	var reports []Report
	for r, rank := range s.m.ranks {
		if ranks>>r&1 == 0 || rank.life == idle {
			continue
		}
		reports = append(reports, Report{Rank: r, Whole: rank.life == busy, Done: maxDone})
		if rank.life == busy {
			s.whole = append(s.whole, rank.lease)
		}
	}
	before := slices.Clone(s.m.ranks)
	round := w.round
	if round == nil {
		round = (*Machine).Round
	}
	fault := w.apply(&s, before, reports, round(s.m, moment, reports))
	if fault == "" && s.record.Queue.Left() == 0 && s.record.Queue.Epoch+1 < w.epochs {
		s.counted = [4]int{}
		fault = w.apply(&s, slices.Clone(s.m.ranks), nil, s.m.Resume(moment))
	}
	s.normal(0)
	return s, fault
}

// apply checks a decision and applies it to s.
func (w world) apply(s *state, before []rankState, reports []Report, d Decision) string {
	for _, l := range d.Leases {
		reported := slices.ContainsFunc(reports, func(n Report) bool { return n.Rank == l.Rank })
		if before[l.Rank].life != idle && !reported {
			return fmt.Sprintf("rank %d gets a lease while it computes", l.Rank)
		}
		if slices.Contains(d.Cancelled, l) {
			return fmt.Sprintf("%+v is given and cancelled at once", l)
		}
	}
	if d.Commit == nil {
		return ""
	}
	r := *d.Commit
	if least := min(w.cfg.Ranks-s.m.cfg.Backup, r.Leased); len(r.Pieces) < least && !w.cfg.Auto || w.cfg.Mode != Drop && len(r.Pieces) < r.Leased {
		return fmt.Sprintf("%d of %d slots count", len(r.Pieces), r.Leased)
	}
	for _, p := range r.Pieces {
		if !slices.ContainsFunc(s.whole, func(l Lease) bool {
			return l.Step == r.Step && l.Slot == p.Slot && l.Attempt == p.Attempt && l.Batch == p.Batch
		}) {
			return fmt.Sprintf("%+v counts and is not computed", p)
		}
		if s.counted[p.Batch.First]++; s.counted[p.Batch.First] > 1 {
			return fmt.Sprintf("microbatch %d counts twice", p.Batch.First)
		}
	}
	most := w.cfg.Default().Retries + w.cfg.Backup // if several must count, some wait for others
	if w.cfg.Auto {
		most += w.cfg.Ranks
	}
	for _, it := range r.Queue.Late {
		if it.Tries > most {
			return fmt.Sprintf("microbatch %d is late %d times", it.First, it.Tries)
		}
	}
	for i, n := range s.counted[:w.total] {
		if r.Queue.Left() == 0 && n == 0 {
			return fmt.Sprintf("microbatch %d does not count in its epoch", i)
		}
	}
	if fault := replayed(s.record, r); fault != "" && w.round == nil {
		return fault
	}
	s.record, s.whole = r, nil
	return ""
}

// replayed compares a record with the one read from its log.
func replayed(before, r Record) string {
	l, err := NewLogReader(bytes.NewReader(AppendLog(AppendLogHeader(nil, before), before, r)))
	if err != nil {
		return err.Error()
	}
	got, err := l.Next()
	for i := range got.Pieces { // the log does not contain attempts
		got.Pieces[i].Attempt = r.Pieces[i].Attempt
	}
	if err != nil || !reflect.DeepEqual(got, r) {
		return fmt.Sprintf("replay gives %+v for %+v: %v", got, r, err)
	}
	return ""
}

func (w world) over(s state) bool {
	return s.record.Queue.Epoch+1 == w.epochs && s.record.Queue.Left() == 0
}

// ends returns a state from which the epochs do not end although the ranks report.
func (w world) ends(s state) (fault string) {
	ranks := 1<<w.cfg.Ranks - 1
	if w.silent {
		ranks &^= 1
	}
	for range 60 {
		if w.over(s) {
			return ""
		}
		if s, fault = w.report(s, ranks, ages); fault != "" {
			return fault
		}
	}
	return fmt.Sprintf("the epochs do not end: %+v", s.m.ranks)
}

// explore visits every reachable state until it finds a fault.
func (w world) explore() (states int, fault string) {
	start, fault := w.begin(state{record: Record{Queue: Queue{Total: w.total, Size: 1}}})
	seen, todo := map[string]bool{start.key(): true}, []state{start}
	for len(todo) > 0 && fault == "" {
		s := todo[0]
		todo = todo[1:]
		if fault = w.ends(s); fault != "" {
			break
		}
		for _, x := range w.next(s, &fault) {
			if k := x.key(); fault == "" && !seen[k] {
				seen[k] = true
				todo = append(todo, x)
			}
		}
	}
	return len(seen), fault
}

// next returns the states that can follow s: some ranks report, sooner or later; a rank is
// lost; and if b adapts, it changes.
func (w world) next(s state, fault *string) (all []state) {
	if w.over(s) {
		return nil
	}
	add := func(x state, why string) {
		if all = append(all, x); *fault == "" {
			*fault = why
		}
	}
	for ranks := range 1 << w.cfg.Ranks {
		for _, passed := range []time.Duration{0, ages} {
			add(w.report(s, ranks, passed))
		}
	}
	if s.record.Queue.Left() > 0 {
		add(w.begin(s))
	}
	if w.cfg.Auto {
		for b := range w.cfg.Ranks {
			x := s.clone()
			x.m.cfg.Backup = b
			add(x, "")
		}
	}
	return all
}

func home(ranks int64) func(Batch) int {
	return func(b Batch) int { return int(b.First % ranks) }
}

var worlds = map[string]world{
	"wait":            {cfg: Config{Mode: Wait, Ranks: 3}, total: 4, epochs: 2},
	"wait, 2 ranks":   {cfg: Config{Mode: Wait, Ranks: 2, Home: home(2)}, total: 3, epochs: 2},
	"drop 1 of 2":     {cfg: Config{Mode: Drop, Ranks: 2, Backup: 1, Retries: 1, Home: home(2)}, total: 3, epochs: 2},
	"drop 1 of 3":     {cfg: Config{Mode: Drop, Ranks: 3, Backup: 1, Retries: 1, Home: home(3)}, total: 4, epochs: 1},
	"drop 2 of 3":     {cfg: Config{Mode: Drop, Ranks: 3, Backup: 2, Retries: 1}, total: 4, epochs: 1},
	"drop, b adapts":  {cfg: Config{Mode: Drop, Ranks: 2, Auto: true, Retries: 2}, total: 4, epochs: 2},
	"speculate":       {cfg: Config{Mode: Speculate, Ranks: 2, Home: home(2)}, total: 3, epochs: 2, silent: true},
	"speculate, of 3": {cfg: Config{Mode: Speculate, Ranks: 3, Home: home(3)}, total: 4, epochs: 1, silent: true},
}

// TestEverySampleCountsOnce visits every reachable state of small worlds.
func TestEverySampleCountsOnce(t *testing.T) {
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			states, fault := w.explore()
			t.Logf("%d states", states)
			if fault != "" {
				t.Error(fault)
			}
		})
	}
}

// TestEachRuleIsNeeded removes one rule at a time, by wrapping the machine.
func TestEachRuleIsNeeded(t *testing.T) {
	round := (*Machine).Round
	for _, x := range []struct {
		name, world string
		round       func(m *Machine, now time.Duration, all []Report) Decision
	}{
		{"late microbatches return to the queue", "drop 1 of 2", func(m *Machine, now time.Duration, all []Report) Decision {
			d := round(m, now, all)
			if d.Commit != nil {
				d.Commit.Queue.Late, m.queue.Late = nil, nil
			}
			return d
		}},
		{"what counts leaves the queue", "drop 1 of 2", func(m *Machine, now time.Duration, all []Report) Decision {
			was := m.queue
			d := round(m, now, all)
			if d.Commit != nil {
				d.Commit.Queue, m.queue = was, was
			}
			return d
		}},
		{"only complete slots count", "wait", func(m *Machine, now time.Duration, all []Report) Decision {
			if len(m.slots) > 0 && !m.slots[0].complete && len(m.slots[0].attempts) > 0 {
				m.slots[0].complete = true
			}
			return round(m, now, all)
		}},
		{"all slots count in wait", "wait", func(m *Machine, now time.Duration, all []Report) Decision {
			m.cfg.Backup = 1
			return round(m, now, all)
		}},
		{"a step waits after so many retries", "drop 1 of 2", func(m *Machine, now time.Duration, all []Report) Decision {
			m.cfg.Retries = 100
			return round(m, now, all)
		}},
		{"a cancelled rank gets no lease before it is free", "drop 1 of 3", func(m *Machine, now time.Duration, all []Report) Decision {
			for r := range m.ranks {
				if m.ranks[r].life == leaving {
					m.release(r)
				}
			}
			return round(m, now, all)
		}},
		{"idle ranks repeat late slots", "speculate", func(m *Machine, now time.Duration, all []Report) Decision {
			m.cfg.Mode = Wait
			return round(m, now, all)
		}},
	} {
		w := worlds[x.world]
		w.round, w.total = x.round, 4
		w.silent = x.name == "idle ranks repeat late slots"
		if _, fault := w.explore(); fault == "" {
			t.Errorf("%s: removed, and not noticed", x.name)
		} else {
			t.Logf("%s: %s", x.name, fault)
		}
	}
}

// TestCopiesThatEndTogether: both ranks are free afterwards.
func TestCopiesThatEndTogether(t *testing.T) {
	m, _, err := New(Config{Mode: Speculate, Ranks: 2}, Record{Queue: Queue{Total: 8, Size: 1}})
	fatal.If(t, err)
	m.Round(1, []Report{{Rank: 0, Whole: true, Done: maxDone}})
	if d := m.Round(10, nil); len(d.Leases) != 1 || d.Leases[0].Rank != 0 {
		t.Fatalf("rank 0 does not repeat the late slot: %+v", d)
	}
	d := m.Round(12, []Report{{Rank: 0, Whole: true, Done: maxDone}, {Rank: 1, Whole: true, Done: maxDone}})
	if d.Commit == nil || len(d.Leases) != 2 {
		t.Errorf("%+v: want a commit and a lease for each rank", d)
	}
}
