package timeline

import (
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/trace"
)

// spansOf returns consecutive spans, in seconds from one second on.
func spansOf(all ...any) (spans []Span) {
	at := int64(1e9)
	for i := 0; i < len(all); i += 2 {
		s := Span{Start: at, End: at + int64(all[i+1].(int))*1e9, Phase: all[i].(trace.Phase)}
		if inStep(s.Phase) {
			s.Step = 1
		}
		at, spans = s.End, append(spans, s)
	}
	return spans
}

// TestTimeOfAJob: one rank scans, the other plans, and both end after an evaluation of which one
// rank has less.
func TestTimeOfAJob(t *testing.T) {
	ranks := []*Rank{
		{Header: trace.Header{Rank: 0, Size: 2}, Spans: spansOf(trace.Wait, 10, trace.Plan, 4, trace.Input, 1, trace.Compute, 14, trace.Update, 1, trace.Eval, 4)},
		{Header: trace.Header{Rank: 1, Size: 2}, Spans: spansOf(trace.Scan, 10, trace.Wait, 4, trace.Input, 2, trace.Compute, 13, trace.Update, 1, trace.Eval, 3, trace.Wait, 1)},
	}
	a := newTimeline(ranks, nil).Analyse()
	want := Job{Seconds: 34, Alone: 15, Parts: []Part{{"scan", 5, 10}, {"wait", 7.5, 0}, {"plan", 2, 4}, {"steps", 16, 0}, {"eval", 3.5, 1}}}
	if a.Job == nil || !reflect.DeepEqual(*a.Job, want) {
		t.Fatalf("%+v, want %+v", a.Job, want)
	}
	var b strings.Builder
	if err := a.Write(&b); err != nil || !strings.Contains(b.String(), "the whole job: 34 s; for 44 % of it one rank worked and the others waited, which more ranks do not shorten\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
	ranks[1].Dropped = 1
	if a := newTimeline(ranks, nil).Analyse(); a.Job != nil {
		t.Errorf("a job whose start is not recorded: %+v", a.Job)
	}
	ranks[0].Size, ranks = 1, ranks[:1]
	if a := newTimeline(ranks, nil).Analyse(); a.Job == nil || a.Job.Alone != 0 || strings.Contains(text(t, &a), "one rank") {
		t.Errorf("one rank: %+v", a.Job)
	}
}

func text(t *testing.T, a *Analysis) string {
	t.Helper()
	var b strings.Builder
	if err := a.Write(&b); err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(b.String(), "the whole job")
	return after
}
