//go:build gpu

package device

import (
	"math"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/device/parity"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/trace"
)

// TestBrokenNormsAreCaught breaks the kernels of batch normalisation.
func TestBrokenNormsAreCaught(t *testing.T) {
	broken(t, "TestParityWithTheCPU/batch_norm,_2_ranks", map[string]string{
		"no last row of a stretch":     "for (u32 r = from; r < to; r++) {\nfor (u32 r = from; r + 1 < to; r++) {",
		"squares around 0":             "v = v * v;\nv = (double)ON(a.x)[at] * ON(a.x)[at];",
		"no last stretch":              "= (float)sum;\n= (float)(sum - ON(a.partial)[(a.chunks - 1) * a.cols + col]);",
		"products without a deviation": "v = ON(a.dy)[at] * d * inv;\nv = ON(a.dy)[at] * d + 0 * inv;",
		"no shift":                     " * ON(a.scale)[col] + ON(a.shift)[col];\n * ON(a.scale)[col];",
		"the scale of the first unit":  "ON(a.inv)[col] * ON(a.scale)[col]\nON(a.inv)[col] * ON(a.scale)[0]",
		"the mean is constant":         " - ON(a.mean_dy)[col] - \n - ",
		"the deviation is constant":    " - xhat * ON(a.mean_dyx)[col];\n - 0 * xhat;",
		"the scale is 1 in backward":   "ON(a.scale)[col] * inv * rest\ninv * rest",
	})
}

// TestNormOfABatchThatIsNotFinite: the rank that repeats the batch on the CPU does not wait for
// the other, which has no rows and is past its sums.
func TestNormOfABatchThatIsNotFinite(t *testing.T) {
	c, l := parity.Model(func(c *config.Config) { c.Model.BatchNorm = true })
	var failed error
	err := mem.Run(2, 2, func(comm *collective.Comm) error {
		tr, err := step.NewTrainer(comm, trace.New(0), c, l, step.Tables{})
		if err == nil {
			err = use(tr, comm.Rank(), c, l)
		}
		if err != nil {
			return err
		}
		b := parity.Batches(c, 0, 1)[0]
		b.Dense[5] = float32(math.NaN())
		if comm.Rank() == 1 {
			b = &encode.Batch{Sparse: make([]encode.Jagged, len(b.Sparse))}
			for f := range b.Sparse {
				b.Sparse[f].Offsets = []int32{0}
			}
		}
		if _, err = tr.Step(step.Input{N: 1, Rate: 1, Batches: []*encode.Batch{b}}); comm.Rank() == 0 {
			failed = err
		}
		return err
	})
	if err == nil || failed == nil || !strings.HasSuffix(failed.Error(), "dense input d1 of row 2 is NaN") {
		t.Errorf("rank 0: %v; all: %v", failed, err)
	}
}
