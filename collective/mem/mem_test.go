package mem

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	colltest.Run(t, func(t *testing.T, size int) []collective.Transport {
		var ts []collective.Transport
		for _, tr := range New(size, 2) {
			ts = append(ts, tr)
		}
		return ts
	})
}
