package restart

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// happenings are the events of TestPromise: a job of four ranks on the hosts a (0, 1) and b (2, 3).
var happenings = []string{"step", "rank 0 fails", "a is lost", "b is lost", "a refuses the login", "the lock is held", "b leaves", "11 minutes pass"}

// counts is what the promise depends on, counted apart from the policy.
type counts struct {
	used    int           // restarts since progress
	drained bool          // a host has left since progress
	waits   time.Duration // time since the first attempt to start, without a run in between; -1: none
}

// TestPromise: in every conversation of up to six events, five without -whole, a job that can continue does. It ends only after
// more restarts without progress than its budget, or after waiting for Config.Wait. Refused logins, a held lock
// and the first host that leaves cost no restart. Only ranks that an event has named are left out, and never
// more than Min allows. Two generations never run at once: each restart lists ranks of the last one only.
func TestPromise(t *testing.T) {
	for _, c := range []Config{{Size: 4, Budget: 1}, {Size: 4, Min: 2, Budget: 2}, {Size: 4, Min: 1, Least: 3, Budget: 1}, {Size: 4, Wait: 12 * time.Minute, Budget: 3}} {
		for _, free := range []bool{false, true} {
			script := make([]int, patient.Size(5, 6))
			for more := true; more; more = next(script) {
				if fault := hear(c, free, script); fault != "" {
					var names []string
					for _, e := range script {
						names = append(names, happenings[e])
					}
					t.Fatalf("%+v, free=%t, %q: %s", c, free, names, fault)
				}
			}
		}
	}
}

// next sets the script that follows, and reports whether there is one.
func next(script []int) bool {
	for i := range script {
		if script[i]++; script[i] < len(happenings) {
			return true
		}
		script[i] = 0
	}
	return false
}

// talk is a conversation with a policy.
type talk struct {
	counts
	p     *Policy
	free  bool
	now   time.Duration
	step  int64
	alive []int
}

// hear runs one conversation and returns how the policy breaks its promise, "" if it does not.
func hear(c Config, free bool, script []int) (fault string) {
	k := &talk{p: New(c), free: free, alive: []int{0, 1, 2, 3}, counts: counts{waits: -1}}
	for i, event := range script {
		v, named, ends := k.happens(event)
		if v == nil {
			continue
		}
		if v.Plan == GiveUp {
			if !ends {
				return fmt.Sprintf("event %d ends the job: %s", i, v.Text)
			}
			return ""
		}
		least := k.p.cfg.Min
		if event == 6 && k.p.cfg.Least > 0 {
			least = min(least, k.p.cfg.Least)
		}
		for _, r := range k.alive {
			if !slices.Contains(v.Ranks, r) && !slices.Contains(named, r) {
				return fmt.Sprintf("event %d leaves out rank %d, which it does not name: %s", i, r, v.Text)
			}
		}
		if len(v.Ranks) < least || v.After < 0 || v.After > max(MaxPause, leaveTime, k.p.cfg.Wait) {
			return fmt.Sprintf("event %d: ranks %v after %v: %s", i, v.Ranks, v.After, v.Text)
		}
		for _, r := range v.Ranks {
			if !slices.Contains(k.alive, r) {
				return fmt.Sprintf("event %d starts rank %d, which the job has left out: %s", i, r, v.Text)
			}
		}
		k.alive = v.Ranks
		k.now += v.After
	}
	return ""
}

// happens tells the policy of an event and returns its answer, the ranks that the event names, and whether
// the event may end the job. v is nil if there is no answer.
func (k *talk) happens(event int) (v *Recovery, named []int, ends bool) {
	of := func(host ...int) (ranks []int) {
		return slices.DeleteFunc(host, func(r int) bool { return !slices.Contains(k.alive, r) })
	}
	named = [...][]int{1: of(0), 2: of(0, 1), 3: of(2, 3), 4: of(0, 1), 6: of(2, 3), 7: nil}[event]
	if len(named) == 0 && event > 1 && event != 5 && event != 7 {
		return nil, nil, false // the job has left the host out
	}
	ends = k.used >= k.p.cfg.Budget
	var answer Recovery
	switch event {
	case 0:
		k.step++
		k.p.Progress(k.step)
		k.counts = counts{waits: -1}
		return nil, nil, false
	case 7:
		k.now += 11 * time.Minute
		return nil, nil, false
	case 1:
		answer = k.p.Failed(k.now, 0, false)
		k.used, k.waits = k.used+1, -1
	case 2, 3:
		answer = k.p.HostFailed(k.now, []string{2: "a", 3: "b"}[event], named, k.free)
		k.used, k.waits = k.used+1, -1
	case 4, 5:
		if k.waits < 0 {
			k.waits = k.now
		}
		ends = k.now-k.waits >= k.p.cfg.Wait
		answer = k.p.Unreached(k.now, []string{4: "a", 5: ""}[event], named, k.free, "refused")
	case 6:
		answer = k.p.HostsLeft([]string{"b"}, named, k.free)
		ends = ends && k.drained
		if k.drained {
			k.used++
		}
		k.drained, k.waits = true, -1
	}
	return &answer, named, ends
}
