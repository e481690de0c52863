package rank

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// shown contains the signs of trouble of a rank, as recorded by the test.
type shown struct {
	joined, done, own, blames, lost, exited, bad, killed bool
	first                                                map[Kind]time.Duration // the time when each sign was first seen
}

func (s *shown) kind() Kind {
	switch {
	case s.own:
		return Failed
	case s.killed:
		return Killed
	case s.blames:
		return Blamed
	case s.exited && s.bad:
		return Exited
	case s.lost, s.exited && s.joined && !s.done:
		return Lost
	}
	return ""
}

func (s *shown) note(now time.Duration) {
	if k := s.kind(); k != "" {
		if _, ok := s.first[k]; !ok {
			s.first[k] = now
		}
	}
}

// history is a random sequence of events in a group whose ranks send heartbeats all the time.
type history struct {
	t         *rapid.T
	g         *Group
	processes bool
	ranks     []shown
	now       time.Duration
	formed    bool
	end       Decision
}

func (s *history) take(d Decision) {
	switch d.Act {
	case Nothing:
		return
	case Form:
		if s.formed || s.end.Act != Nothing {
			s.t.Fatal("the group formed twice, or after its end")
		}
		for i, r := range s.ranks {
			if !r.joined || r.kind() != "" {
				s.t.Fatalf("the group formed with rank %d %+v", i, r)
			}
		}
		s.formed = true
	case Tell:
		if s.end.Act != Nothing || d.Word == "" {
			s.t.Fatalf("order %q after %v", d.Word, s.end)
		}
	default:
		if s.end.Act != Nothing {
			s.t.Fatalf("decided %v after %v", d, s.end)
		}
		s.end = d
		s.check(d)
	}
}

// check compares a final decision with all signs shown.
func (s *history) check(d Decision) {
	trouble := false
	for _, r := range s.ranks {
		trouble = trouble || r.kind() != ""
	}
	if d.Act == Finish {
		for i, r := range s.ranks {
			if trouble || s.processes && !r.exited || !s.processes && !r.done {
				s.t.Fatalf("the group finished although rank %d %+v", i, r)
			}
		}
		return
	}
	v := d.Verdict
	if v.Kind == Absent {
		if trouble || s.formed {
			s.t.Fatalf("absent although formed %v, trouble %v: %s", s.formed, trouble, v)
		}
		return
	}
	if v.Kind == Stuck && !trouble { // the rank is done but its process remains
		for i, r := range s.ranks {
			if !r.done || i == v.Rank && r.exited {
				s.t.Fatalf("stuck at the end although rank %d %+v", i, r)
			}
		}
		return
	}
	if want := s.root(); want != v.Rank {
		s.t.Fatalf("the plain search finds rank %d, but the verdict is: %s", want, v)
	}
	if r := s.ranks[v.Rank]; s.processes && (v.Kind == Lost || v.Kind == Blamed) && !r.exited && !r.blames && s.now-s.began() < 2*time.Second {
		s.t.Fatalf("verdict %v after the first sign, without waiting for the end of a process: %s", s.now-s.began(), v)
	}
	folded := 0
	for i, r := range s.ranks {
		if i != v.Rank && r.kind() != "" {
			folded++
		}
	}
	if folded != v.Folded || len(v.Others) > folded {
		s.t.Fatalf("%d other ranks showed signs, but %d are counted in %d lines: %s", folded, v.Folded, len(v.Others), v)
	}
}

// root finds the cause by a plain search: by kind, then time, then rank.
func (s *history) root() int {
	for _, kinds := range [][]Kind{{Killed, Exited}, {Failed}, {Lost}, {Blamed}} {
		root, at := -1, time.Duration(0)
		for i, r := range s.ranks {
			for _, k := range kinds {
				if r.kind() == k && (root < 0 || s.since(i, k) < at) {
					root, at = i, s.since(i, k)
				}
			}
		}
		if root < 0 {
			continue
		}
		if kinds[0] == Blamed {
			root, _ = s.g.accused(root)
		}
		return root
	}
	return -1
}

// began returns the time of the first sign of trouble.
func (s *history) began() time.Duration {
	at := s.now
	for _, r := range s.ranks {
		for _, first := range r.first {
			at = min(at, first)
		}
	}
	return at
}

// since returns when a rank first showed a kind: for a lost rank the first loss, for a process
// its end.
func (s *history) since(i int, k Kind) time.Duration { return s.ranks[i].first[k] }

func (s *history) event(rank int) {
	r := &s.ranks[rank]
	if r.exited {
		return // a dead process sends nothing
	}
	switch rapid.IntRange(0, 9).Draw(s.t, "event") {
	case 0, 1, 2, 3:
		s.join(rank)
	case 4:
		if s.formed && !r.done && !r.own && !r.blames {
			r.own = true
			r.note(s.now)
			s.take(s.g.Fail(s.now, rank, "own", -1, Status{}))
		}
	case 5:
		if s.formed && !r.done && !r.own && !r.blames && len(s.ranks) > 1 {
			r.blames = true
			r.note(s.now)
			s.take(s.g.Fail(s.now, rank, "peer", (rank+1)%len(s.ranks), Status{}))
		}
	case 6:
		if r.joined && !r.done && !r.lost {
			r.lost = true
			r.note(s.now)
			s.take(s.g.Disconnected(s.now, rank))
		}
	case 7, 8:
		if s.formed && !r.own && !r.blames && !r.lost {
			r.done = true
			s.take(s.g.Done(s.now, rank))
		}
	case 9:
		s.exit(rank)
	}
}

func (s *history) join(rank int) {
	r := &s.ranks[rank]
	if r.joined || s.end.Act != Nothing {
		return
	}
	r.joined = true
	d, err := s.g.Join(s.now, Member{Rank: rank, Size: len(s.ranks)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.take(d)
}

func (s *history) exit(rank int) {
	if !s.processes {
		return
	}
	r := &s.ranks[rank]
	r.exited = true
	code, signal := 0, 0
	switch rapid.IntRange(0, 3).Draw(s.t, "how") {
	case 0:
		signal, r.killed = 9, true
	case 1:
		code, r.bad = 1, true
	}
	r.note(s.now)
	s.take(s.g.Exited(s.now, rank, code, signal, ""))
}

func (s *history) pass(d time.Duration) {
	for end := s.now + d; s.now < end; {
		s.now += 50 * time.Millisecond
		for i, r := range s.ranks {
			if r.joined && !r.exited && !r.lost {
				s.g.Beat(s.now, i, Status{})
			}
		}
		s.take(s.g.Tick(s.now))
	}
}

// TestOneEndAndItsRoot: in any sequence of events there is exactly one verdict or finish. The
// verdict names the cause that a plain search over all signs finds. No dead rank is in a group
// that forms or finishes, and trouble always leads to a verdict.
func TestOneEndAndItsRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(t, "size")
		s := &history{t: t, processes: rapid.Bool().Draw(t, "processes"), ranks: make([]shown, size)}
		for i := range s.ranks {
			s.ranks[i].first = map[Kind]time.Duration{}
		}
		s.g = NewGroup(GroupConfig{Size: size, Timeout: 5 * time.Second, Processes: s.processes})
		if rapid.IntRange(0, 3).Draw(t, "some join one by one") != 0 {
			for i := range size {
				s.join(i)
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			s.event(rapid.IntRange(0, size-1).Draw(t, "rank"))
			if rapid.IntRange(0, 3).Draw(t, "pass") == 0 {
				s.pass(50 * time.Millisecond)
			}
		}
		trouble, joined, exited := false, 0, 0
		for _, r := range s.ranks {
			trouble = trouble || r.kind() != ""
			if r.joined {
				joined++
			}
			if r.exited {
				exited++
			}
		}
		if exited == size && s.end.Act == Nothing {
			t.Fatal("all processes have ended without a decision")
		}
		s.pass(6 * time.Second)
		if s.end.Act == Nothing && (trouble || joined > 0 && joined < size) {
			t.Fatal("trouble without a verdict")
		}
	})
}

// TestBeatsAllocateNothing: heartbeats, the only frequent event, allocate no memory.
func TestBeatsAllocateNothing(t *testing.T) {
	g := NewGroup(GroupConfig{Size: 64})
	for i := range 64 {
		if _, err := g.Join(0, Member{Rank: i, Size: 64}); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Duration(0)
	if n := testing.AllocsPerRun(100, func() {
		now += 50 * time.Millisecond
		for i := range 64 {
			g.Beat(now, i, Status{Step: int64(now), Phase: "compute"})
		}
		g.Tick(now)
	}); n != 0 {
		t.Errorf("%v allocations for 64 heartbeats and a tick", n)
	}
}
