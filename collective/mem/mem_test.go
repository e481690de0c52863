package mem

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient.Settled(m)) }

// TestConformance: runs the conformance suite with two and three ranks.
func TestConformance(t *testing.T) { colltest.Run(t, group, 2, 3) }

// TestConformanceOfOtherSizes runs the suite with the sizes that TestConformance omits.
func TestConformanceOfOtherSizes(t *testing.T) {
	patient.Long(t)
	colltest.Run(t, group, 1, 4, 5, 8)
}

func group(_ *testing.T, size int) (ts []collective.Transport) {
	for _, tr := range New(size, 2) {
		ts = append(ts, tr)
	}
	return ts
}

// TestRun: the first error ends the group, and the error of each rank is returned.
func TestRun(t *testing.T) {
	err := Run(3, 1, func(c *collective.Comm) error {
		if c.Rank() == 1 {
			return errors.New("out of ink")
		}
		return collective.Barrier(c)
	})
	if err == nil || !strings.Contains(err.Error(), "rank 1: out of ink") || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("%v", err)
	}
	if err := Run(3, 1, func(c *collective.Comm) error { return collective.Barrier(c) }); err != nil {
		t.Error(err)
	}
}
