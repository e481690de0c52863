//go:build gpu

package device

import (
	"fmt"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/dense"
	bench "github.com/wdlrun/wdlrun/internal/bench/step"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/device/parity"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/trace"
)

// TestCopiedBytes: a device counts the bytes that the stand-in of the driver copies.
func TestCopiedBytes(t *testing.T) {
	var d *Device
	in, out := uint64(0), uint64(0)
	c, l := parity.Model(func(c *config.Config) { c.Train.ClipNorm = 1 })
	err := mem.Run(1, 2, func(comm *collective.Comm) error {
		_, err := parity.Train(comm, c, l, 6, func(t *step.Trainer) error {
			return t.ComputeOn(false, func(a *dense.Arena) (_ step.Device, err error) {
				d, err = openFor(a, 0, c, l)
				in, out = standin.Copied()
				return d, err
			})
		})
		return err
	})
	fatal.If(t, err)
	toDevice, fromDevice := standin.Copied()
	if to, from := d.Copied(); to == 0 || uint64(to) != toDevice-in || uint64(from) != fromDevice-out {
		t.Errorf("%d bytes to the device and %d from it, the driver copied %d and %d", to, from, toDevice-in, fromDevice-out)
	}
}

// BenchmarkCopies counts the bytes that a step of w1 copies to the device and from it, with
// the sum of the gradients in host memory, and measures what the host does before and after:
// pool-ms fills the memory to copy, keys-ms stores the gradients of rows.
func BenchmarkCopies(b *testing.B) {
	w, _ := bench.NewWorkload("w1")
	c := &config.Config{}
	c.Label.Field, c.Model.Kind, c.Model.EmbeddingDim, c.Model.Hidden = "label", "wide_deep", w.Dim, []int{256, 256, 256}
	c.Train.Optimizer = config.Optimizer{Dense: optim.Rule{Kind: "adagrad"}, Deep: optim.Rule{Kind: "adagrad"}}
	var columns []encode.SparseColumn
	for f := range w.Values() {
		name := fmt.Sprint("c", f)
		c.Features = append(c.Features, schema.Feature{Name: name, Field: name, Encode: "id"})
		columns = append(columns, encode.SparseColumn{Name: name, Table: name, Wide: true, Deep: true})
	}
	c.Fill()
	l := layout.New(c, columns, nil)
	tr, err := step.NewTrainer(collective.New(mem.New(1, 2)[0]), trace.New(16), c, l, step.Tables{})
	if err == nil {
		err = use(tr, 0, c, l)
	}
	fatal.If(b, err)
	defer tr.Close()
	next := step.Input{Rate: 1, Batches: []*encode.Batch{w.Batch(0, 16384)}}
	take := func() {
		next.N++
		if _, err := tr.Step(next); err != nil {
			b.Fatal(err)
		}
	}
	take() // copies the parameters
	in, out := standin.Copied()
	spent := tr.Spent()
	for b.Loop() {
		take()
	}
	toDevice, fromDevice := standin.Copied()
	b.ReportMetric(float64(toDevice-in)/float64(b.N)/1e6, "MB-in/op")
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 / float64(b.N) }
	b.ReportMetric(ms(tr.Spent().Pool-spent.Pool), "pool-ms/op")
	b.ReportMetric(ms(tr.Spent().Keys-spent.Keys), "keys-ms/op")
	b.ReportMetric(float64(fromDevice-out)/float64(b.N)/1e6, "MB-out/op")
}
