// Package patient lets tests of time limits pass on a machine of any speed, and gives long
// tests two lengths.
package patient

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Longest is how long a test waits for what must come, before it calls it missing:
// no machine is so busy. What comes is not waited for any longer than it takes.
const Longest = 2 * time.Minute

// factor is how much longer each limit is than the one before.
const factor = 8

// Try runs a test whose outcome depends on the machine keeping up with a time
// limit, such as who of several is called silent. It begins with a limit that a
// machine at rest keeps, and gives a busy one longer and longer limits, up to half
// a minute at least. Only what fails with all of them fails t.
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

// Size returns how many cases a long test tries: everyday ones, or all of them with -whole,
// which .ci/run gives.
func Size(everyday, all int) int {
	if *whole {
		return all
	}
	return everyday
}

// Tests are the tests of a package, or what else runs as they do.
type Tests interface{ Run() int }

// Settled is tests for goleak.VerifyTestMain, which looks for goroutines that they
// leave for less than half a second: those that only end later, on a machine that
// stood still meanwhile, are waited for.
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
