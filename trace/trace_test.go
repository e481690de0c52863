package trace

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// clock is a time source that the test advances.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }
func (c *clock) pass(d time.Duration) {
	c.t = c.t.Add(d)
}

// TestTotalsAndNow: Now returns the current step and phase, and Totals the time of each phase.
func TestTotalsAndNow(t *testing.T) {
	c := &clock{t: time.Unix(0, 0)}
	r := newAt(8, c.now)
	c.pass(time.Second)
	r.Step(1)
	r.Enter(Input)
	c.pass(2 * time.Second)
	r.Enter(Compute)
	c.pass(3 * time.Second)
	r.Enter(Input)
	c.pass(4 * time.Second)
	if step, p, in := r.Now(); step != 1 || p != Input || in != 4*time.Second {
		t.Fatalf("Now = step %d, %v for %v; want step 1, input for 4s", step, p, in)
	}
	tot := r.Totals()
	if tot[Start] != time.Second || tot[Input] != 2*time.Second || tot[Compute] != 3*time.Second {
		t.Fatalf("Totals = %v", tot)
	}
}

// TestChromeTraceHoldsTheLastSpansInOrder: a timeline contains the last spans in order.
func TestChromeTraceHoldsTheLastSpansInOrder(t *testing.T) {
	c := &clock{t: time.Unix(0, 0)}
	r := newAt(3, c.now)
	for i := range 7 {
		r.Step(int64(i))
		c.pass(time.Millisecond)
		r.Enter(Phase(i % Phases))
	}
	var b strings.Builder
	fatal.If(t, r.WriteChrome(&b, Source{Rank: 5, Size: 6, Host: "a\"b"}))
	var events []struct {
		Name string
		Ph   string
		Ts   float64
		Dur  float64
		Pid  int
		Args struct{ Step int64 }
	}
	if err := json.Unmarshal([]byte(b.String()), &events); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	if len(events) != 5 {
		t.Fatalf("%d events, want the header, the name and 3 spans", len(events))
	}
	for i, e := range events[2:] {
		if want := Phase(3 + i); e.Name != want.String() || e.Dur != 1000 || e.Ts != float64(4+i)*1000 || e.Pid != 6 {
			t.Errorf("span %d = %+v, want %v at %d µs", i, e, want, (4+i)*1000)
		}
	}
}

// TestEnterAllocatesNothing: entering a phase and recording an exchange allocate no memory.
func TestEnterAllocatesNothing(t *testing.T) {
	r, seq := New(16), uint64(0)
	n := testing.AllocsPerRun(100, func() {
		r.Enter(Input)
		r.Enter(Compute)
		seq++
		r.Exchange(seq)
	})
	if n != 0 {
		t.Fatalf("%v allocations per two phases and an exchange", n)
	}
}

// TestExchangesAreInTheirSpans: exchanges are written in their spans, even after both rings have
// dropped their oldest entries.
func TestExchangesAreInTheirSpans(t *testing.T) {
	c := &clock{t: time.Unix(0, 0)}
	r := newAt(2, c.now)
	for i := range 3 {
		r.Enter(Sync)
		for k := range 2 {
			c.pass(time.Millisecond)
			r.Exchange(uint64(10*i + k))
		}
		c.pass(time.Millisecond)
		r.Enter(Update)
		c.pass(time.Millisecond)
	}
	r.Enter(Input)
	var b strings.Builder
	fatal.If(t, r.WriteChrome(&b, Source{Size: 2, Host: "a"}))
	var events []struct {
		Name string
		Args struct {
			Header
			Calls []float64
		}
	}
	if err := json.Unmarshal([]byte(b.String()), &events); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	if got := strings.Count(b.String(), `"step":0`); got != 1 {
		t.Errorf("%d spans of two name the same step\n%s", got, b.String())
	}
	if h := events[0].Args.Header; events[0].Name != HeaderName || h.Size != 2 || h.Host != "a" || h.Dropped != 5 {
		t.Errorf("header %+v of\n%s", h, b.String())
	}
	if got := events[2]; got.Name != "sync" || !slices.Equal(got.Args.Calls, []float64{20, 1000, 21, 2000}) {
		t.Errorf("the last sync is %+v, of\n%s", got, b.String())
	}
}

// TestWorkConcurrentWithPhases: the work of the reader and of the checkpoint is in separate
// lanes. The bytes and rows of a phase are arguments of its span.
func TestWorkConcurrentWithPhases(t *testing.T) {
	c := &clock{t: time.Unix(0, 0)}
	r := newAt(16, c.now) // a recorder that keeps two spans of other goroutines
	at := func(ms int) time.Time { return r.origin.Add(time.Duration(ms) * time.Millisecond) }
	r.Step(7)
	r.Enter(Pull)
	r.Count(100, 3)
	r.Count(20, 1)
	c.pass(time.Millisecond)
	r.Enter(Compute)
	c.pass(time.Millisecond)
	r.Enter(Sync)
	r.Background(Sync, 1, 400, at(1), at(2))
	r.Count(600, 0)
	r.Enter(Input)
	done := make(chan bool)
	go func() {
		for i := range 3 { // the first span is dropped
			r.Background(Input, 10+i, 0, at(i), at(i+1))
		}
		r.Background(Checkpoint, 1, 0, at(1), at(4))
		done <- true
	}()
	<-done
	var b strings.Builder
	fatal.If(t, r.WriteChrome(&b, Source{Size: 1}))
	for _, want := range []string{
		`{"name":"pull","ph":"X","ts":0.0,"dur":1000.0,"pid":1,"tid":1,"args":{"step":7,"bytes":120,"rows":4}}`,
		`{"name":"compute","ph":"X","ts":1000.0,"dur":1000.0,"pid":1,"tid":1}`,
		`{"name":"sync, bucket 1","ph":"X","ts":1000.0,"dur":1000.0,"pid":1,"tid":2,"args":{"step":7,"bytes":400}}`,
		`{"name":"sync","ph":"X","ts":2000.0,"dur":0.0,"pid":1,"tid":1,"args":{"bytes":600}}`,
		`{"name":"read","ph":"X","ts":2000.0,"dur":1000.0,"pid":1,"tid":4,"args":{"step":7,"batches":12}}`,
		`{"name":"write","ph":"X","ts":1000.0,"dur":3000.0,"pid":1,"tid":5,"args":{"step":7}}`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
	if strings.Count(b.String(), `"tid":4`) != 1 || !json.Valid([]byte(b.String())) {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	r.WriteChrome(&b, Source{Size: 1, Last: 3}) // the spans from the compute phase on, which starts at 1 ms
	if strings.Contains(b.String(), "pull") || !strings.Contains(b.String(), `"tid":4`) {
		t.Errorf("wrong last span: %s", b.String())
	}
}

// TestWriteLast compares the text of the last spans with the expected one.
func TestWriteLast(t *testing.T) {
	now := time.Unix(0, 0)
	r := newAt(2, func() time.Time { return now })
	for i, p := range []Phase{Input, Pull, Compute, Push} {
		r.Step(int64(i / 2))
		now = now.Add(time.Second)
		r.Enter(p)
	}
	now = now.Add(500 * time.Millisecond)
	var b strings.Builder
	fatal.If(t, r.WriteLast(&b, 10))
	want := `    step  phase           began s       took s
       1  push           4.000000     0.500000  so far
       1  compute        3.000000     1.000000
       0  pull           2.000000     1.000000
`
	if b.String() != want {
		t.Errorf("%s, want\n%s", b.String(), want)
	}
}

// TestOnlySomeSteps: only spans of the selected steps are recorded, and only the last ones are
// written.
func TestOnlySomeSteps(t *testing.T) {
	c := &clock{t: time.Unix(0, 0)}
	r := newAt(8, c.now)
	r.Only(3, 5)
	for i := range 9 {
		r.Step(int64(i))
		c.pass(time.Millisecond)
		r.Enter(Sync)
		r.Exchange(uint64(i))
	}
	var b strings.Builder
	fatal.If(t, r.WriteChrome(&b, Source{Size: 1, Last: 2}))
	var events []struct {
		Args struct {
			Header
			Step  int64
			Calls []float64
		}
	}
	if err := json.Unmarshal([]byte(b.String()), &events); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	if len(events) != 4 || events[0].Args.Dropped != 1 || events[2].Args.Step != 4 || events[3].Args.Step != 5 || !slices.Equal(events[3].Args.Calls, []float64{5, 0}) {
		t.Errorf("%s", b.String())
	}
	if !r.Keeps() || New(0).Keeps() {
		t.Error("Keeps reports the wrong recorders")
	}
}

// TestOriginOfAProcessWithoutACore: a pause between two clock readings does not change the
// origin.
func TestOriginOfAProcessWithoutACore(t *testing.T) {
	c := &clock{t: time.Unix(0, 0)}
	r := newAt(0, c.now)
	c.pass(time.Second)
	pauses := 0
	got := r.monotonicOrigin(func() int64 {
		c.pass(time.Microsecond)
		at := 7e9 + c.t.Sub(r.origin)
		if pauses++; pauses%3 != 2 {
			c.pass(5 * time.Millisecond)
		}
		c.pass(time.Microsecond)
		return int64(at)
	})
	if got != 7e9 {
		t.Errorf("the origin is at %d, want 7e9", got)
	}
}

// TestSpansOfALaneDoNotOverlap: each phase begins exactly where the previous one ends, whether a
// reader computes in microseconds or cuts times to nanoseconds.
func TestSpansOfALaneDoNotOverlap(t *testing.T) {
	c, random := &clock{t: time.Unix(0, 0)}, rand.New(rand.NewPCG(1, 2))
	r := newAt(1<<12, c.now)
	for i := range 4000 {
		c.pass(time.Duration(random.Int64N(1 << (i % 24))))
		r.Enter(Input + Phase(i%6))
	}
	var b strings.Builder
	fatal.If(t, r.WriteChrome(&b, Source{Rank: 2, Size: 3}))
	var events []struct {
		Ph       string
		Ts, Dur  float64
		Pid, Tid int
	}
	fatal.If(t, json.Unmarshal([]byte(b.String()), &events))
	end, spans := 0.0, 0
	for _, e := range events {
		if e.Pid != 3 {
			t.Fatalf("%+v of rank 2 is in process %d, want 3", e, e.Pid)
		}
		if e.Ph != "X" {
			continue
		}
		if e.Tid != 1 || spans > 0 && (e.Ts != end || int64(e.Ts*1000) != int64(end*1000)) {
			t.Fatalf("span %d from %v in lane %d, want lane 1 and from %v, where the previous one ends", spans, e.Ts, e.Tid, end)
		}
		end = e.Ts + e.Dur
		spans++
	}
	if spans != 4000 {
		t.Errorf("%d spans, want 4000", spans)
	}
}
