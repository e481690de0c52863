package control

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// TestABusyRankIsHeard: heartbeats are not delayed by computations on all threads of a rank's
// process, or by garbage collections.
func TestABusyRankIsHeard(t *testing.T) {
	patient.Try(t, 400*time.Millisecond, func(timeout time.Duration) error {
		s := serve(t, Config{Size: 1, Timeout: timeout})
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(append(os.Environ(), world(s, 0).Env()...), "CONTROL_TEST_RANK=busy", "GOMAXPROCS=2")
		out, err := child.CombinedOutput()
		if v := s.Verdict(); v != nil {
			return v
		}
		if err != nil || !strings.Contains(string(out), "was busy") {
			t.Fatalf("%v: %s", err, out)
		}
		return nil
	})
}

// busy computes on all threads, and collects garbage, for longer than a rank may be silent.
func busy(s *Session) {
	s.Watch(func() rank.Status { return rank.Status{} })
	until := time.Now().Add(3 * min(s.Timeout(), rank.SilentAfter))
	var running []chan float64
	for range 2 * runtime.GOMAXPROCS(0) {
		sum := make(chan float64, 1)
		running = append(running, sum)
		go func() {
			x := 0.0
			for time.Now().Before(until) {
				for i := range 20_000_000 {
					x += float64(i & 7)
				}
			}
			sum <- x
		}()
	}
	for time.Now().Before(until) {
		runtime.GC()
	}
	total := 0.0
	for _, sum := range running {
		total += <-sum
	}
	fmt.Println("was busy", total > 0)
}
