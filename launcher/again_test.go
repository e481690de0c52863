//go:build linux

package launcher

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/control/restart"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/rank"
)

// persist runs a shell script on 3 ranks with restarts. It returns the outcome and the output,
// with a line for each failure.
func persist(t *testing.T, ctx context.Context, script string, restarts, least int, failed func(Failure)) (Outcome, string) {
	t.Helper()
	out := newText()
	job := Job{Plan: local(t, 3), Command: []string{"sh", "-c", script}, Stdout: out, Merged: true, Quiet: true,
		Restarts: restarts, MinRanks: least, Again: func(f Failure) []string {
			fmt.Fprintf(out, "after %d: %v %v\n", f.Generation, f.Verdict.Kind, f.Next.Ranks)
			if failed != nil {
				failed(f)
			}
			return []string{"sh", "-c", script}
		}}
	o, err := Run(ctx, job)
	fatal.If(t, err)
	return o, out.String()
}

// TestReplaced: a rank that fails in two generations is replaced both times.
func TestReplaced(t *testing.T) {
	o, out := persist(t, t.Context(), `
		[ $WDLRUN_RANK = 1 ] && [ $WDLRUN_GENERATION -lt 2 ] && exit 3
		[ $WDLRUN_GENERATION = 2 ] || sleep 100
		echo $WDLRUN_RANK of $WDLRUN_SIZE`, 2, 0, nil)
	if o.Code != 0 || o.Restarts != 2 || o.Verdict != nil || o.Size != 3 {
		t.Errorf("outcome %+v", o)
	}
	for _, line := range []string{"after 0: exited [0 1 2]", "after 1: exited [0 1 2]", "0 of 3", "1 of 3", "2 of 3"} {
		if strings.Count(out, line+"\n") != 1 {
			t.Errorf("want %q once in\n%s", line, out)
		}
	}
}

// TestLeftOut: if the job can continue with fewer ranks, the remaining ranks are renumbered. The
// policy identifies them by their places.
func TestLeftOut(t *testing.T) {
	var texts []string
	o, out := persist(t, t.Context(), `
		[ $WDLRUN_GENERATION = 0 ] && [ $WDLRUN_RANK = 0 ] && exit 3
		[ $WDLRUN_GENERATION = 1 ] && [ $WDLRUN_RANK = 1 ] && kill -9 $$
		[ $WDLRUN_GENERATION = 2 ] || sleep 100
		echo $WDLRUN_RANK of $WDLRUN_SIZE, $WDLRUN_LOCAL_RANK of $WDLRUN_LOCAL_SIZE`, 5, 1, func(f Failure) { texts = append(texts, f.Next.Text) })
	if o.Code != 0 || o.Restarts != 2 || o.Size != 1 || !strings.Contains(out, "0 of 1, 0 of 1\n") {
		t.Errorf("outcome %+v\n%s", o, out)
	}
	if !strings.Contains(out, "after 0: exited [1 2]\nafter 1: killed [1]\n") {
		t.Error(out)
	}
	if len(texts) != 2 || !strings.HasPrefix(texts[1], "rank 1 was rank 2 at the start; rank 2 failed and is left out") {
		t.Errorf("%q", texts)
	}
}

// TestGivesUp: without progress the restarts are used up, and the outcome is the last failure.
func TestGivesUp(t *testing.T) {
	o, out := persist(t, t.Context(), `[ $WDLRUN_RANK = 2 ] && exit 7; sleep 100`, 2, 0, nil)
	if o.Code != 7 || o.Restarts != 2 || o.Verdict == nil || !strings.Contains(o.GaveUp, "2 restarts have brought no step") {
		t.Errorf("outcome %+v\n%s", o, out)
	}
}

// TestInterruptedPause: a job that is interrupted between two generations does not start again.
func TestInterruptedPause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	o, out := persist(t, ctx, `exit 1`, 5, 0, func(Failure) { cancel(Interrupted{endingSignals[1]}) })
	if o.Code != 143 || o.Restarts != 0 || strings.Contains(out, "after 1") {
		t.Errorf("outcome %+v\n%s", o, out)
	}
}

// TestPlanOnly: a plan of some of the ranks renumbers them and keeps the other settings.
func TestPlanOnly(t *testing.T) {
	p := number([]Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}, []int{2, 1, 2})
	p.Each = Each{Bind: "core", Memory: 1}
	if only := p.Only([]int{1}); only.Each != p.Each {
		t.Errorf("got %+v from %+v", only.Each, p.Each)
	}
	var got strings.Builder
	for _, r := range p.Only([]int{1, 3, 4}).Ranks {
		fmt.Fprintf(&got, "rank %d on %s, %d of %d\n", r.Rank, r.Host, r.LocalRank, r.LocalSize)
	}
	if want := "rank 0 on a, 0 of 1\nrank 1 on c, 0 of 2\nrank 2 on c, 1 of 2\n"; got.String() != want {
		t.Errorf("%s, want\n%s", got.String(), want)
	}
}

// TestRestartFlags: invalid numbers are rejected before a rank starts.
func TestRestartFlags(t *testing.T) {
	for want, job := range map[string]Job{
		"-1 restarts":            {Restarts: -1},
		"at least 4 ranks of 3":  {MinRanks: 4},
		"at least -1 ranks of 3": {MinRanks: -1},
	} {
		job.Plan, job.Command, job.Timeout = local(t, 3), []string{"true"}, time.Second
		if _, err := Run(t.Context(), job); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestPermanent: the job does not restart after an error that is reported as permanent, or that
// a rank reports twice in a row at the same step.
func TestPermanent(t *testing.T) {
	fault := rank.Verdict{Kind: rank.Failed, Rank: 1, Step: 7, Cause: "the loss is not finite"}
	otherStep, otherCause, killed := fault, fault, fault
	otherStep.Step, otherCause.Cause, killed.Kind = 8, "no space left", rank.Killed
	elsewhere := fault
	elsewhere.Rank = 0 // all ranks reported it, another one first
	for _, x := range []struct {
		name   string
		before *rank.Verdict
		want   restart.Plan
	}{{"first", nil, restart.Restore}, {"again", &fault, restart.GiveUp}, {"again, on another rank", &elsewhere, restart.GiveUp},
		{"another step", &otherStep, restart.Restore}, {"another error", &otherCause, restart.Restore}, {"after a signal", &killed, restart.Restore}} {
		g := &generations{policy: restart.New(restart.Config{Size: 2}), places: []int{0, 1}, begin: time.Now(), failed: x.before}
		if g.judge(Outcome{Verdict: &fault}, false); g.judged.Plan != x.want || g.failed != &fault {
			t.Errorf("%s: %+v, want plan %d", x.name, *g.judged, x.want)
		}
	}
	missing := rank.Verdict{Kind: rank.Failed, Cause: "no such file", Permanent: true}
	first := &generations{policy: restart.New(restart.Config{Size: 2}), places: []int{0, 1}, begin: time.Now()}
	if first.judge(Outcome{Verdict: &missing}, false); first.judged.Plan != restart.GiveUp || !strings.Contains(first.judged.Text, "fixed") {
		t.Errorf("a permanent error, reported once: %+v", *first.judged)
	}
	g := &generations{policy: restart.New(restart.Config{Size: 2}), places: []int{0, 1}, begin: time.Now(), failed: &killed}
	if g.judge(Outcome{Verdict: &killed}, false); g.judged.Plan != restart.Restore {
		t.Errorf("killed twice: %+v", *g.judged)
	}
}

// TestLostLink: a rank whose link was lost is not reported as failed.
func TestLostLink(t *testing.T) {
	for kind, want := range map[rank.Kind]string{rank.Blamed: "rank 1 lost a link; 2 ranks start again in ", rank.Killed: "rank 1 failed; 2 ranks start again in "} {
		g := &generations{policy: restart.New(restart.Config{Size: 2}), places: []int{0, 1}, begin: time.Now()}
		if g.judge(Outcome{Verdict: &rank.Verdict{Kind: kind, Rank: 1}}, false); !strings.HasPrefix(g.judged.Text, want) {
			t.Errorf("%s: %q, want %q …", kind, g.judged.Text, want)
		}
	}
}
