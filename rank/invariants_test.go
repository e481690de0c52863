package rank

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// shown holds the signs of a rank, recorded by the test.
type shown struct {
	joined, done, own, blames, lost, exited, bad, killed bool
	first                                                map[Kind]time.Duration // when each sign first stood
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

// story is a random life of a group whose ranks beat all the time.
type story struct {
	t         *rapid.T
	g         *Group
	processes bool
	ranks     []shown
	now       time.Duration
	formed    bool
	end       Decision
}

func (s *story) take(d Decision) {
	switch d.Act {
	case Nothing:
		return
	case Form:
		if s.formed || s.end.Act != Nothing {
			s.t.Fatal("formed twice, or after the end")
		}
		for i, r := range s.ranks {
			if !r.joined || r.kind() != "" {
				s.t.Fatalf("formed with rank %d %+v", i, r)
			}
		}
		s.formed = true
	case Tell:
		if s.end.Act != Nothing || d.Word == "" {
			s.t.Fatalf("told %q after %v", d.Word, s.end)
		}
	default:
		if s.end.Act != Nothing {
			s.t.Fatalf("decided %v after %v", d, s.end)
		}
		s.end = d
		s.check(d)
	}
}

// check compares a final decision with all that was shown.
func (s *story) check(d Decision) {
	trouble := false
	for _, r := range s.ranks {
		trouble = trouble || r.kind() != ""
	}
	if d.Act == Finish {
		for i, r := range s.ranks {
			if trouble || s.processes && !r.exited || !s.processes && !r.done {
				s.t.Fatalf("finished although rank %d %+v", i, r)
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
	if v.Kind == Stuck && !trouble { // its work is done but its process stays
		for i, r := range s.ranks {
			if !r.done || i == v.Rank && r.exited {
				s.t.Fatalf("stuck at the end although rank %d %+v", i, r)
			}
		}
		return
	}
	if want := s.root(); want != v.Rank {
		s.t.Fatalf("root is rank %d by the plain search, the verdict is: %s", want, v)
	}
	if r := s.ranks[v.Rank]; s.processes && (v.Kind == Lost || v.Kind == Blamed) && !r.exited && !r.blames && s.now-s.began() < 2*time.Second {
		s.t.Fatalf("the end of a process was not waited for, %v after the first sign: %s", s.now-s.began(), v)
	}
	folded := 0
	for i, r := range s.ranks {
		if i != v.Rank && r.kind() != "" {
			folded++
		}
	}
	if folded != v.Folded || len(v.Others) > folded {
		s.t.Fatalf("%d other ranks showed something, %d are folded into %d lines: %s", folded, v.Folded, len(v.Others), v)
	}
}

// root is the plain search for the cause: kind by kind, then time, then rank.
func (s *story) root() int {
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

// began is when the first sign of trouble was shown.
func (s *story) began() time.Duration {
	at := s.now
	for _, r := range s.ranks {
		for _, first := range r.first {
			at = min(at, first)
		}
	}
	return at
}

// since is when a rank showed a kind: a lost rank when it was lost first, a
// process when it ended.
func (s *story) since(i int, k Kind) time.Duration { return s.ranks[i].first[k] }

func (s *story) event(rank int) {
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

func (s *story) join(rank int) {
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

func (s *story) exit(rank int) {
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

func (s *story) pass(d time.Duration) {
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

// TestOneEndAndItsRoot: whatever happens, exactly one verdict or finish comes,
// it names the root that a plain search over everything shown names, no dead
// rank is in a group that forms or finishes, and trouble never goes unjudged.
func TestOneEndAndItsRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(t, "size")
		s := &story{t: t, processes: rapid.Bool().Draw(t, "processes"), ranks: make([]shown, size)}
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
			t.Fatal("all processes have ended and nothing is decided")
		}
		s.pass(6 * time.Second)
		if s.end.Act == Nothing && (trouble || joined > 0 && joined < size) {
			t.Fatal("trouble without a verdict")
		}
	})
}

// TestBeatsAllocateNothing: a heartbeat is the one frequent event.
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
		t.Errorf("64 beats and a tick allocate %v times", n)
	}
}
