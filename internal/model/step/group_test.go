package step

import (
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/data/encode"
)

// onRanks runs f on every rank of a group of goroutines and fails the test on an error.
func onRanks(t testing.TB, size int, f func(*collective.Comm) error) {
	t.Helper()
	if err := mem.Run(size, 2, f); err != nil {
		t.Error(err)
	}
}

func single() *collective.Comm { return collective.New(mem.New(1, 2)[0]) }

// coming returns step n on a batch; next is nil if the following batch is not known.
func coming(n int64, b, next *encode.Batch) Input {
	c := Input{N: n, Rate: 1, Batches: []*encode.Batch{b}}
	if next != nil {
		c.Next = []*encode.Batch{next}
	}
	return c
}
