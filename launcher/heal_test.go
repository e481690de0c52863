package launcher

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/rank"
)

// TestHear: the launcher waits only for the stacks of the remaining ranks, and not longer than
// the pause.
func TestHear(t *testing.T) {
	v := &rank.Verdict{Kind: rank.Lost, Rank: 1}
	ranks := []Placed{{Rank: 0}, {Rank: 1}, {Rank: 2}, {Rank: 3}}
	for name, k := range map[string]struct {
		last  time.Duration // when rank 2 reports its stacks
		pause time.Duration
		want  time.Duration
	}{
		"all speak":     {25 * time.Millisecond, time.Hour, 25 * time.Millisecond},
		"one is silent": {time.Second, time.Hour, stacksTime},
		"a short pause": {time.Second, 10 * time.Millisecond, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &run{job: Job{Plan: Plan{Ranks: ranks}}, exits: map[int]exit{3: {}}, relay: &relay{free: maxReports}}
				time.AfterFunc(0, func() { r.relay.Report(0, string(control.Stacks), nil) })
				time.AfterFunc(0, func() { r.relay.Report(2, "trace", nil) })
				time.AfterFunc(k.last-time.Nanosecond, func() { r.relay.Report(2, string(control.Stacks), nil) })
				if got := r.awaitStacks(v, k.pause); got != k.want {
					t.Errorf("waited %v, want %v", got, k.want)
				}
				time.Sleep(k.last)
			})
		})
	}
}

// TestForgotten: the remaining ranks continue from memory even if the next group is lost before
// it has formed. The new processes of that group have no shards.
func TestForgotten(t *testing.T) {
	ranks := []Placed{{Rank: 0}, {Rank: 1}, {Rank: 2}}
	for _, k := range []struct {
		kind   rank.Kind
		formed bool
		heals  int
		fresh  []int
		exits  map[int]exit
		want   string
	}{
		{kind: rank.Killed, formed: true},
		{kind: rank.Blamed, formed: true},
		{kind: rank.Killed, formed: true, exits: map[int]exit{2: {signal: 9}}},
		{kind: rank.Killed, formed: true, exits: map[int]exit{2: {}}, want: "rank 2 has done its work"},
		{kind: rank.Killed, formed: true, exits: map[int]exit{0: {code: 1}, 2: {code: 1}}, want: "no rank is left"},
		{kind: rank.Failed, formed: true, want: "the other ranks cannot continue from memory"},
		{kind: rank.Killed, want: "nothing was in memory yet"},
		{kind: rank.Killed, heals: 1, fresh: []int{1}},
		{kind: rank.Killed, heals: 1, fresh: []int{2}},
		{kind: rank.Killed, heals: 1, fresh: []int{0, 2}, want: "no rank is left"},
		{kind: rank.Absent, heals: 1, fresh: []int{1}, want: "not all have met again"},
	} {
		r := &run{job: Job{Plan: Plan{Ranks: ranks}}, exits: k.exits, fresh: k.fresh, heals: k.heals, relay: &relay{formed: k.formed}}
		got := r.forgotten(&rank.Verdict{Kind: k.kind, Rank: 1})
		if !strings.HasPrefix(got, k.want) || (got == "") != (k.want == "") {
			t.Errorf("%+v: %q", k, got)
		}
	}
}
