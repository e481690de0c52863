package launcher

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/rank/control"
)

// TestHear waits for the stacks of those who are left, and for no others, nor longer
// than the pause.
func TestHear(t *testing.T) {
	v := &rank.Verdict{Kind: rank.Lost, Rank: 1}
	ranks := []Placed{{Rank: 0}, {Rank: 1}, {Rank: 2}, {Rank: 3}}
	for name, k := range map[string]struct {
		last  time.Duration // when rank 2 reports its stacks
		pause time.Duration
		want  time.Duration
	}{
		"all speak":     {25 * time.Millisecond, time.Hour, 25 * time.Millisecond},
		"one is silent": {time.Second, time.Hour, earshot},
		"a short pause": {time.Second, 10 * time.Millisecond, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &run{job: Job{Plan: Plan{Ranks: ranks}}, exits: map[int]exit{3: {}}, relay: &relay{room: maxWords}}
				time.AfterFunc(0, func() { r.relay.Report(0, string(control.Stacks), nil) })
				time.AfterFunc(0, func() { r.relay.Report(2, "trace", nil) })
				time.AfterFunc(k.last-time.Nanosecond, func() { r.relay.Report(2, string(control.Stacks), nil) })
				if got := r.hear(v, k.pause); got != k.want {
					t.Errorf("waited %v, want %v", got, k.want)
				}
				time.Sleep(k.last)
			})
		})
	}
}
