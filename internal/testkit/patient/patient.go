// Package patient makes tests of time limits pass on a machine of any speed, and gives
// long tests two lengths.
package patient

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Longest is the maximum time that a test waits for an event before it fails: longer than
// any busy machine needs. It does not slow down tests that pass.
const Longest = 2 * time.Minute

// factor is the ratio of each limit to the one before.
const factor = 8

// Try runs a test whose outcome depends on the machine meeting a time limit, such as which
// rank is reported as silent. It starts with a limit for an idle machine, and repeats with
// longer limits, up to at least half a minute. t fails only if the test fails with all of
// them.
func Try(t testing.TB, limit time.Duration, test func(limit time.Duration) error) {
	t.Helper()
	for ; ; limit *= factor {
		err := test(limit)
		if err == nil {
			return
		}
		if limit >= Longest/4 {
			t.Fatalf("with a limit of %v: %v", limit, err)
		}
		t.Logf("with a limit of %v: %v", limit, err)
	}
}

var whole = flag.Bool("whole", false, "run long tests at their full length")

// Size returns the number of cases of a long test: everyday, or all with -whole. .ci/run
// sets the flag for the test functions that call Size or Long themselves.
func Size(everyday, all int) int {
	if *whole {
		return all
	}
	return everyday
}

// Long skips a test that takes many seconds, or is one variant of many, except with -whole
// and under the race detector.
func Long(t testing.TB) {
	t.Helper()
	if !*whole && !race {
		t.Skip("takes long: -whole runs it")
	}
}

// Tests are the tests of a package, or anything run in the same way.
type Tests interface{ Run() int }

// Settled returns tests for goleak.VerifyTestMain, which waits less than half a second for
// goroutines to end. Settled waits longer, for a machine that was paused.
func Settled(tests Tests) Tests { return settled{tests} }

type settled struct{ Tests }

func (s settled) Run() int {
	code := s.Tests.Run()
	for end := time.Now().Add(Longest / 4); code == 0 && time.Now().Before(end); {
		if goleak.Find() == nil {
			break
		}
	}
	return code
}
