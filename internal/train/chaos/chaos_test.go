package chaos

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// TestTexts parses each line of testdata/specs.txt that begins with "> " and prints its
// plan in a world of 8 ranks, or the error.
func TestTexts(t *testing.T) {
	b, err := os.ReadFile("testdata/specs.txt")
	fatal.If(t, err)
	var out strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
		text, ok := strings.CutPrefix(line, "> ")
		if !ok {
			if line == "" || line[0] == '#' {
				fmt.Fprintln(&out, line)
			}
			continue
		}
		fmt.Fprintln(&out, line)
		s, err := Parse(text)
		if err == nil {
			err = s.Validate(8)
		}
		if err != nil {
			fmt.Fprintln(&out, err)
			continue
		}
		for _, f := range s.Plan(1, 8) {
			fmt.Fprintf(&out, "  %v\n", f)
		}
	}
	golden.Check(t, "specs.txt", out.String())
}

func must(t *testing.T, text string) Spec {
	s, err := Parse(text)
	fatal.If(t, err)
	return s
}

func TestInjector(t *testing.T) {
	plan := must(t, "slow:3x@1@step10,slow:2x@1,stop:2s@1@1s,kill:1@step5,cut:0-1@step3,diskfull@step7").Plan(1, 2)
	in, other := NewInjector(plan, 1), NewInjector(plan, 0)
	if a, b := in.Slow(9, 0), in.Slow(10, 0); a != 2 || b != 6 || other.Slow(10, 0) != 1 {
		t.Errorf("slow %v before step 10 and %v from it on, want 2 and 6", a, b)
	}
	if d, n := in.Stop(4, time.Second-1); d != 0 || n != -1 {
		t.Errorf("stops for %v before its time", d)
	}
	if d, n := in.Stop(4, time.Second); d != 2*time.Second || n != 2 {
		t.Errorf("stops for %v by fault %d", d, n)
	}
	if d, _ := in.Stop(5, time.Hour); d != 0 {
		t.Errorf("stops again for %v", d)
	}
	if p, _ := in.Cut(3, 0); p != 0 {
		t.Errorf("cut from rank %d", p)
	}
	if p, _ := other.Cut(4, 0); p != 1 {
		t.Errorf("the other side is cut from rank %d", p)
	}
	if a, b := in.DiskFull(6, 0), in.DiskFull(20, 0); a != -1 || b != 5 {
		t.Errorf("disk full by fault %d before step 7, %d after", a, b)
	}
	again := NewInjector(plan, 1)
	again.Skip(3)
	if a, b := in.Kill(6, 0), again.Kill(6, 0); a != 3 || b != -1 {
		t.Errorf("killed by fault %d, and after a restart by %d", a, b)
	}
	var none *Injector
	if _, n := none.Stop(1, 0); none.Slow(1, 0) != 1 || n != -1 || none.Kill(1, 0) != -1 {
		t.Error("a nil injector injects")
	}
}

func TestPlanIsSeeded(t *testing.T) {
	s := must(t, "random:200@step5000,kill:any@step3,cut:any-2@1s")
	a, b, c := s.Plan(1, 4), s.Plan(1, 4), s.Plan(2, 4)
	if !reflect.DeepEqual(a, b) || reflect.DeepEqual(a, c) {
		t.Error("a plan depends on its seed and on nothing else")
	}
	if len(a) != 202 {
		t.Errorf("%d faults", len(a))
	}
	count := map[Kind]int{}
	for _, f := range a {
		count[f.Kind]++
		if f.Rank < 0 || f.Rank > 3 || f.Kind == Cut && (f.Peer < 0 || f.Peer > 3 || f.Peer == f.Rank) || f.When.Step > 5000 {
			t.Errorf("drew %v", f)
		}
	}
	for _, k := range []Kind{Stop, Kill, Cut} {
		if count[k] < 40 {
			t.Errorf("%d of %s among 200", count[k], k)
		}
	}
}

func TestInjectorAllocatesNothing(t *testing.T) {
	in := NewInjector(must(t, "slow:3x@1,kill:0@step5").Plan(1, 2), 1)
	step := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		step++
		in.Slow(step, 0)
		in.Kill(step, 0)
		in.Stop(step, 0)
	}); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("slow:3x@5,stop:2s@7,kill:3@step100,cut:2-3@10s,diskfull@step50,random:2@step9")
	f.Add("diskfull@any@1h,stop:1ms@any@step0,slow:1.5x@any")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Fatalf("%q is read as %q, and that as %q: %v", text, s, again, err)
		}
		if s.Validate(8) == nil {
			s.Plan(1, 8)
		}
	})
}

func TestMissed(t *testing.T) {
	plan := must(t, "kill:1@step100000,slow:3x@1,slow:2x@0@step900,cut:0-1@step5,diskfull@1h").Plan(1, 2)
	if got, want := Missed(plan, []int{3}, 200, time.Minute).String(), "kill:1@step100000,slow:2x@0@step900,diskfull@1h0m0s"; got != want {
		t.Errorf("missed %s, want %s", got, want)
	}
	if got := Missed(plan, []int{0, 3, 4}, 900, time.Minute); got != nil {
		t.Errorf("missed %v, want none", got)
	}
}
