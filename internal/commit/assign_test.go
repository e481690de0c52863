package commit

import (
	"math"
	"slices"
	"testing"
	"time"
)

// led is a job of one owner, whose coordinator a test tells everything itself.
type led struct {
	t      *testing.T
	c      *Coordinator
	now    time.Duration
	leases map[int]Tag // by rank
}

func (l *led) hear(out []Message, _ []Note) (to []int) {
	for _, m := range out {
		if m.Kind == Lease {
			l.leases[m.To] = m.Tag
			to = append(to, m.To)
		}
	}
	slices.Sort(to)
	return to
}

func (l *led) staged(ranks ...int) []int {
	var all []Message
	for _, r := range ranks {
		all = append(all, Message{Kind: Staged, From: 0, To: Lead, Tag: l.leases[r]})
	}
	return l.hear(l.c.ReceiveAll(l.now, all))
}

func (l *led) applied(step int64) []int {
	return l.hear(l.c.Receive(l.now, Message{Kind: Applied, To: Lead, Tag: Tag{Term: l.c.Term(), Step: step}}))
}

func (l *led) ready(rank int) []int {
	return l.hear(l.c.Receive(l.now, Message{Kind: Ready, From: rank, To: Lead, Tag: l.leases[rank]}))
}

func (l *led) want(what string, got []int, want ...int) {
	l.t.Helper()
	if !slices.Equal(got, want) {
		l.t.Errorf("at %v: %s: leases to %v, want %v", l.now, what, got, want)
	}
}

// TestNoLeaseInVain: a worker that becomes free late in a step begins with the next
// one, beside the others, unless they are overdue; else it would be late, and free too
// late again, in each step to come.
func TestNoLeaseInVain(t *testing.T) {
	cfg := Config{Mode: Drop, Workers: 4, Slots: 4, Backup: 1, Replicas: 4, Owners: []int{0}, Resend: math.MaxInt64}
	l := &led{t: t, c: NewCoordinator(cfg, MakeTerm(0, 1, 4)), leases: map[int]Tag{}}
	l.hear(l.c.Start(0))
	for r := range 4 {
		l.hear(l.c.Join(0, r))
	}
	record := Record{Queue: Queue{Total: 1000, Size: 1}}
	l.want("the beginning", l.hear(l.c.Receive(0, Message{Kind: State, To: Lead, Tag: Tag{Term: l.c.Term()}, Record: &record})), 0, 1, 2, 3)
	l.now = 100 * time.Millisecond // so long a lease takes
	got := append(l.staged(0, 1, 2), l.applied(1)...)
	slices.Sort(got)
	l.want("rank 3 is late", got, 0, 1, 2)
	l.now += 20 * time.Millisecond
	l.want("rank 3 is free soon", l.ready(3), 3)

	l.now += 100 * time.Millisecond
	got = append(l.staged(0, 1, 2), l.applied(2)...)
	slices.Sort(got)
	l.want("rank 3 is late again", got, 0, 1, 2)
	l.now += 80 * time.Millisecond
	l.want("rank 3 is free too late", l.ready(3))
	l.now += 20 * time.Millisecond
	got = append(l.staged(0, 1, 2), l.applied(3)...)
	slices.Sort(got)
	l.want("all begin together", got, 0, 1, 2, 3)

	l.now += 100 * time.Millisecond
	got = append(l.staged(0, 1, 2), l.applied(4)...)
	slices.Sort(got)
	l.want("rank 3 is late once more", got, 0, 1, 2)
	l.now += 80 * time.Millisecond
	l.want("rank 3 is free too late", l.ready(3))
	l.staged(0, 1)
	l.now += 60 * time.Millisecond
	l.want("rank 2 is not overdue yet", l.hear(l.c.Tick(l.now)))
	l.now += 20 * time.Millisecond
	got = l.hear(l.c.Tick(l.now))
	if !slices.Contains(got, 3) {
		t.Errorf("rank 2 is overdue, and rank 3 is not asked: leases to %v", got)
	}
}
