//go:build linux

package launcher

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/control/restart"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/rank"
)

// TestWith checks plans after changes: the hosts, and ranks numbered in the order of the hosts.
func TestWith(t *testing.T) {
	own, err := os.Hostname()
	fatal.If(t, err)
	p := number([]Host{{Name: "a"}, {Name: "localhost"}, {Name: "b"}}, []int{2, 1, 2})
	p.Each = Each{Bind: "core", Memory: 1}
	for _, x := range []struct {
		change Change
		want   string // -H, or the error
	}{
		{Change{Add: []string{"c"}}, "a:2,localhost:1,b:2,c:1"},
		{Change{Add: []string{"[fe80::1]:3", "c:1"}}, "a:2,localhost:1,b:2,[fe80::1]:3,c:1"},
		{Change{Add: []string{"A:3"}}, "a:5,localhost:1,b:2"},
		{Change{Add: []string{own + ":1"}}, "a:2,localhost:2,b:2"},
		{Change{Add: []string{"b"}}, "host b is in the job with 2 ranks: to add N more, give b:N"},
		{Change{Add: []string{"c:1", "c"}}, "host c is in the job with 1 rank: "},
		{Change{Add: []string{fmt.Sprint("c:", rank.MaxSize)}}, "and at most"},
		{Change{Drop: []string{"a"}}, "localhost:1,b:2"},
		{Change{Drop: []string{"a", "127.0.0.1"}}, "b:2"},
		{Change{Drop: []string{"b:1"}}, "a:2,localhost:1,b:1"},
		{Change{Drop: []string{"b:2"}}, "a:2,localhost:1"},
		{Change{Drop: []string{"b:3"}}, "host b has 2 ranks, and 3 are to be removed"},
		{Change{Drop: []string{"b:0"}}, `"0" is not a number of slots`},
		{Change{Add: []string{"-x"}}, `"-x" is not a name or address of a host`},
		{Change{Drop: []string{"d"}}, "host d is not in the job, whose hosts are a:2,localhost:1,b:2"},
		{Change{Drop: []string{"a", "localhost", "b"}}, "no rank would be left"},
	} {
		next, err := p.with(x.change)
		if err != nil {
			if !strings.Contains(err.Error(), x.want) {
				t.Errorf("%+v: %v, want %q", x.change, err, x.want)
			}
			continue
		}
		if next.Hosts() != x.want || next.Each != p.Each || next.Ranks[len(next.Ranks)-1].Rank != len(next.Ranks)-1 {
			t.Errorf("%+v: %s, want %s; %+v", x.change, next.Hosts(), x.want, next)
		}
	}
	if p.Hosts() != "a:2,localhost:1,b:2" {
		t.Errorf("the plan itself has changed: %s", p.Hosts())
	}
}

// TestExcept checks which hosts are examined before a change.
func TestExcept(t *testing.T) {
	old := number([]Host{{Name: "a"}, {Name: "b"}}, []int{2, 1})
	next := number([]Host{{Name: "b"}, {Name: "c"}, {Name: "d"}}, []int{3, 1, 2})
	if p, more := next.except(old); !more || p.Hosts() != "c:1,d:2" {
		t.Errorf("new hosts: %t, %s", more, p.Hosts())
	}
	if _, more := old.except(next.Only([]int{0, 3})); !more {
		t.Error("host a is not reported as new")
	}
	if _, more := next.except(next); more {
		t.Error("a host of the same plan is reported as new")
	}
}

// TestMoved: the ranks of a host that was lost three times move to free slots, but never to an
// excluded host.
func TestMoved(t *testing.T) {
	g := &generations{job: Job{Plan: number([]Host{{Name: "a"}, {Name: "b"}}, []int{2, 2}), Hosts: []Host{{Name: "a", Slots: 3}, {Name: "b", Slots: 2}, {Name: "c", Slots: 4}}}}
	if p, free := g.moved("b"); !free || p.Hosts() != "a:3,c:1" {
		t.Errorf("free slots: %t, hosts %s", free, p.Hosts())
	}
	g.excluded = []string{"c"}
	if p, free := g.moved("b"); free {
		t.Errorf("two ranks were moved to one free slot: %s", p.Hosts())
	}
	g.excluded, g.places = nil, []int{0, 1, 2, 3}
	g.policy = restart.New(restart.Config{Size: 4})
	g.job.Restarts = 3
	var last *restart.Recovery
	for step := range int64(3) {
		g.judge(Outcome{Verdict: &rank.Verdict{Kind: rank.Lost, Rank: -1, Host: "b", Together: "2 ranks"}, Status: rank.Status{Step: 2 + step}}, false)
		last = g.judged
	}
	if last.Plan != restart.Restore || last.Exclude != "b" {
		t.Errorf("the last plan is %+v", last)
	}
}

// TestUnfit: of ranks that are left out because the job cannot run with three, those on a host that has lost a rank
// go first.
func TestUnfit(t *testing.T) {
	fault := rank.Verdict{Kind: rank.Failed, Cause: "train.slots", Permanent: true}
	for lost, want := range map[int][]int{0: {2, 3}, 3: {0, 1}} {
		g := &generations{whole: number([]Host{{Name: "a"}, {Name: "b"}}, []int{2, 2}), policy: restart.New(restart.Config{Size: 4, Min: 2})}
		g.policy.Failed(0, lost, false)
		for place := range 4 {
			if place != lost {
				g.places = append(g.places, place)
			}
		}
		if g.judge(Outcome{Verdict: &fault}, false); g.judged.Plan != restart.Restore || !slices.Equal(g.judged.Ranks, want) {
			t.Errorf("without rank %d: %+v, want ranks %v", lost, *g.judged, want)
		}
		later := fault
		later.Step = 7
		if g.judge(Outcome{Verdict: &later}, false); g.judged.Plan != restart.GiveUp {
			t.Errorf("at step 7: %+v", *g.judged)
		}
	}
}

// growing runs ranks that end on request. A group of three ranks fails at once. ask requests
// changes while the job runs.
func growing(t *testing.T, restarts int, ask func(change func(Change) (string, error))) (o Outcome, turns string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	changes := make(chan Change)
	text := newText()
	job := Job{Plan: local(t, 1), Command: self("rank", "grow"), Stdout: text, Stderr: text, Quiet: true, Merged: true, Guard: self("guard"), Restarts: restarts, Changes: changes,
		Changed: func(x Turn) []string {
			fmt.Fprintf(text, "turn: generation %s on %s, failed %t\n", x.Result, x.Plan.Hosts(), x.Failed != nil)
			if string(x.Result) == "done" {
				return nil
			}
			return self("rank", "grow")
		}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel(Interrupted{endingSignals[1]})
		ask(func(c Change) (hosts string, err error) {
			done := make(chan struct{})
			c.Done = func(p Plan, why error) { hosts, err = p.Hosts(), why; close(done) }
			changes <- c
			<-done
			return hosts, err
		})
	}()
	o, err := Run(ctx, job)
	fatal.If(t, err)
	cancel(nil)
	<-done
	return o, text.String()
}

// TestChange adds and removes ranks of a running job without using up a restart. A change that
// fails returns to the previous ranks.
func TestChange(t *testing.T) {
	o, out := growing(t, 0, func(change func(Change) (string, error)) {
		for _, x := range []struct {
			c     Change
			hosts string
			err   string
		}{
			{Change{Drop: []string{"localhost"}}, "", "no rank would be left"},
			{Change{Add: []string{"localhost:1"}}, "localhost:2", ""},
			{Change{Add: []string{"localhost:1"}}, "", " failed: no place for three; the job returns to its previous hosts"},
			{Change{Drop: []string{"localhost:1"}}, "localhost:1", ""},
		} {
			hosts, err := change(x.c)
			switch {
			case x.err == "" && (err != nil || hosts != x.hosts):
				t.Errorf("%+v: %s, %v", x.c, hosts, err)
			case x.err != "" && (err == nil || !strings.Contains(err.Error(), x.err)):
				t.Errorf("%+v: %v, want %q", x.c, err, x.err)
			}
		}
	})
	want := "turn: generation 0 on localhost:2, failed false\nturn: generation 1 on localhost:3, failed false\nturn: generation  on localhost:2, failed true\nturn: generation 3 on localhost:1, failed false\n"
	var turns strings.Builder
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "turn: ") {
			turns.WriteString(line)
		}
	}
	if turns.String() != want {
		t.Errorf("turns\n%s, want\n%s\noutput:\n%s", turns.String(), want, out)
	}
	if o.Restarts != 0 || o.Size != 1 || o.Code != 143 {
		t.Errorf("restarts %d, size %d, exit code %d", o.Restarts, o.Size, o.Code)
	}
}

// TestChangeOfAnEndedJob: changes that come too late, after the work or after a failure, are
// answered with an error.
func TestChangeOfAnEndedJob(t *testing.T) {
	for env, want := range map[string]string{"done": errJobEnds.Error(), "fail": " failed: told to; try again"} {
		t.Run(env, func(t *testing.T) {
			t.Setenv("GROW", env)
			var err error
			o, out := growing(t, 0, func(change func(Change) (string, error)) { _, err = change(Change{Add: []string{"localhost:1"}}) })
			if err == nil || !strings.Contains(err.Error(), want) || o.Size != 1 {
				t.Errorf("%v, want %q; size %d\n%s", err, want, o.Size, out)
			}
		})
	}
}

// TestAChangeWaitsForTheNextGeneration: a job that has lost a rank when a change is to begin makes the change
// with the ranks of its next generation.
func TestAChangeWaitsForTheNextGeneration(t *testing.T) {
	c := &changes{calls: make(chan func(*run))}
	before, after := &run{job: Job{Plan: local(t, 2)}}, &run{job: Job{Plan: local(t, 1)}}
	ends := &run{job: after.job, interrupt: errJobEnds}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for _, r := range []*run{before, after, after, ends} { // each attempt asks for the plan, and then for the end of the ranks
			(<-c.calls)(r)
		}
	}()
	plan, err := c.carryOut(t.Context(), Job{}, Change{Add: []string{"localhost:2"}})
	if <-served; err != errJobEnds || plan.Hosts() != "localhost:1" {
		t.Errorf("%v on %s", err, plan.Hosts())
	}
}
