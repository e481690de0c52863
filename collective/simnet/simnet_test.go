package simnet

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
	"github.com/wdlrun/wdlrun/internal/patient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient.Settled(m)) }

func TestConformance(t *testing.T) {
	colltest.Run(t, func(t *testing.T, size int) []collective.Transport {
		var ts []collective.Transport
		for _, tr := range New(size, 2, Model{}) {
			ts = append(ts, tr)
		}
		return ts
	})
}
