package simnet

import (
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
	for _, tr := range New(size, 2, Model{}) {
		ts = append(ts, tr)
	}
	return ts
}
