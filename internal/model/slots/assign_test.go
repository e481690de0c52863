package slots

import (
	"slices"
	"testing"
	"time"
)

// lead runs a machine and returns the ranks that get leases.
type lead struct {
	t   *testing.T
	m   *Machine
	now time.Duration
}

func (l *lead) round(what string, after time.Duration, whole []int, given []int, want ...int) {
	l.t.Helper()
	l.now += after
	var reports []Report
	for _, r := range whole {
		reports = append(reports, Report{Rank: r, Whole: true, Done: maxDone})
	}
	for _, r := range given {
		reports = append(reports, Report{Rank: r})
	}
	var got []int
	for _, x := range l.m.Round(l.now, reports).Leases {
		got = append(got, x.Rank)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		l.t.Errorf("at %v: %s: leases to %v, want %v", l.now, what, got, want)
	}
}

// TestNoLeaseInVain: a rank that becomes free late in a step waits for the next one and
// starts it with the others, unless they are overdue. Otherwise it would be late in every
// following step.
func TestNoLeaseInVain(t *testing.T) {
	m, d, err := New(Config{Mode: Drop, Ranks: 4, Backup: 1}, Record{Queue: Queue{Total: 1000, Size: 1}})
	if err != nil || len(d.Leases) != 4 {
		t.Fatal(err, d)
	}
	const ms = time.Millisecond
	l := &lead{t: t, m: m}
	l.round("rank 3 is late", 100*ms, []int{0, 1, 2}, nil, 0, 1, 2)
	l.round("rank 3 is free soon", 20*ms, nil, []int{3}, 3)
	l.round("rank 3 is late again", 100*ms, []int{0, 1, 2}, nil, 0, 1, 2)
	l.round("rank 3 is free too late", 80*ms, nil, []int{3})
	l.round("all begin together", 20*ms, []int{0, 1, 2}, nil, 0, 1, 2, 3)
	l.round("rank 3 is late once more", 100*ms, []int{0, 1, 2}, nil, 0, 1, 2)
	l.round("rank 3 is free too late", 80*ms, nil, []int{3})
	l.round("two are complete", 0, []int{0, 1}, nil)
	l.round("rank 2 is not overdue yet", 60*ms, nil, nil)
	l.round("rank 2 is overdue", 20*ms, nil, nil, 3)
}
