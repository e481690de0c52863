//go:build gpu

package device

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
	"github.com/wdlrun/wdlrun/internal/gpu/nccltest"
	"github.com/wdlrun/wdlrun/internal/model/device/parity"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/nccl"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/trace"
)

// libnccl opens a stand-in of NCCL over the stand-in of the driver.
func libnccl(t *testing.T) *nccl.Library {
	t.Helper()
	path, err := nccltest.BuildOver(t.TempDir(), standin.CUDA)
	fatal.If(t, err)
	lib, err := nccl.Open(nccl.Config{Path: path, Cuda: standin.CUDA})
	fatal.If(t, err)
	return lib
}

// trainOverNCCL is train with sums between devices.
func trainOverNCCL(lib *nccl.Library, id nccl.ID, comm *collective.Comm, bucket int, c *config.Config, l layout.Layout, steps int) (parity.Trained, error) {
	var d *Device
	r, err := parity.Train(comm, c, l, steps, func(t *step.Trainer) error {
		return useNCCL(t, lib, id, comm.Rank(), comm.Size(), bucket, c, l, &d)
	})
	if err == nil {
		d.End()
	}
	return r, err
}

// useNCCL is use with sums between devices, in buckets of at least this number of floats.
func useNCCL(t *step.Trainer, lib *nccl.Library, id nccl.ID, rank, size, bucket int, c *config.Config, l layout.Layout, d **Device) error {
	return t.ComputeOn(false, func(a *dense.Arena) (_ step.Device, err error) {
		if *d, err = openFor(a, rank, c, l); err != nil {
			return nil, err
		}
		(*d).bucket = bucket
		comm, err := lib.Connect(context.Background(), id, rank, size, nccl.Context((*d).device.Context()))
		if err != nil {
			return nil, err
		}
		return *d, (*d).SumOver(comm)
	})
}

// TestSumsOverNCCL: two ranks compute the same bits as with sums in host memory, because a
// sum of two has only one order, whatever the size of the buckets. One of the batches is empty.
func TestSumsOverNCCL(t *testing.T) {
	lib := libnccl(t)
	for name, change := range map[string]func(*config.Config){
		"wide_deep": nil,
		"clipped, dropout, adam": func(c *config.Config) {
			c.Train.ClipNorm, c.Model.Dropout, c.Train.Optimizer.Dense = .01, .1, optim.Rule{Kind: "adam", LearningRate: .01}
		},
		"xdeepfm": func(c *config.Config) { c.Model.Kind, c.Model.CIN = "xdeepfm", []int{5, 3} },
		"dcn_v2": func(c *config.Config) {
			c.Model.Kind, c.Model.Cross = "dcn_v2", config.Cross{Layers: 2, Rank: 3, Structure: "parallel"}
		},
		"batch norm": func(c *config.Config) { c.Model.BatchNorm, c.Model.Activation = true, "tanh" },
		"2 labels":   func(c *config.Config) { c.Labels = []schema.Label{{Field: "n", Kind: "number", LossWeight: .1}} },
	} {
		for _, bucket := range []int{bucketFloats, 300, 1} {
			id, err := lib.NewID()
			fatal.If(t, err)
			c, l := parity.Model(change)
			if err := mem.Run(2, 2, func(comm *collective.Comm) error {
				want, err := train(comm, c, l, 8, true)
				if err != nil {
					return err
				}
				got, err := trainOverNCCL(lib, id, comm, bucket, c, l, 8)
				if err != nil {
					return err
				}
				return got.Same(want)
			}); err != nil {
				t.Errorf("%s, buckets of %d floats: %v", name, bucket, err)
			}
		}
	}
}

// TestASumThatFailsEndsTheStep: rank 1's call is rejected, and rank 0's never ends. Neither
// rank waits for it when it closes its device.
func TestASumThatFailsEndsTheStep(t *testing.T) {
	lib := libnccl(t)
	id, err := lib.NewID()
	fatal.If(t, err)
	t.Setenv(nccltest.Env, "fail=1@3")
	c, l := parity.Model(nil)
	err = mem.Run(2, 2, func(comm *collective.Comm) error {
		_, err := trainOverNCCL(lib, id, comm, bucketFloats, c, l, 8)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "AllReduce(sum) of ") || !strings.Contains(err.Error(), "float32 (dense gradients, bucket 1 of 1): invalid argument: the stand-in rejects this call") {
		t.Error(err)
	}
	if err := lib.Abort(errors.New("the test ends")); err != nil {
		t.Error(err)
	}
}

func TestSumsAllocateNothing(t *testing.T) {
	lib := libnccl(t)
	id, err := lib.NewID()
	fatal.If(t, err)
	var d *Device
	c, l := parity.Model(nil)
	tr, err := step.NewTrainer(collective.New(mem.New(1, 2)[0]), trace.New(16), c, l, step.Tables{})
	if err == nil {
		err = useNCCL(tr, lib, id, 0, 1, 1, c, l, &d)
	}
	fatal.If(t, err)
	next := step.Input{Rate: 1, Batches: parity.Batches(c, 0, 1)}
	take := func() {
		next.N++
		if _, err := tr.Step(next); err != nil {
			t.Fatal(err)
		}
	}
	take()
	take()
	if n := testing.AllocsPerRun(20, take); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
	d.End()
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

// TestSumsOverlapBackward: the sum of the last layer's gradients is launched before the
// gradients of the first layer are computed, and each sum after all its gradients.
func TestSumsOverlapBackward(t *testing.T) {
	lib := libnccl(t)
	for _, x := range []struct{ bucket, sums int }{{1, 7}, {bucketFloats, 1}} {
		id, err := lib.NewID()
		fatal.If(t, err)
		var d *Device
		c, l := parity.Model(nil)
		tr, err := step.NewTrainer(collective.New(mem.New(1, 2)[0]), trace.New(16), c, l, step.Tables{})
		if err == nil {
			err = useNCCL(tr, lib, id, 0, 1, x.bucket, c, l, &d)
		}
		fatal.If(t, err)
		var failed error
		work := standin.Enqueued(func() {
			_, failed = tr.Step(step.Input{N: 1, Rate: 1, Batches: parity.Batches(c, 0, 1)})
		})
		product := func(layer string) int {
			for _, p := range d.params {
				if p.of.Name == layer {
					return slices.Index(work, cudatest.Work{Name: "product", At: uint64(p.grad.At)})
				}
			}
			return -1
		}
		var sums []int
		for i, w := range work {
			if w.Name == "host function" {
				sums = append(sums, i)
			}
		}
		first, last := product("deep/linear0/weight"), product("deep/out/weight")
		if failed != nil || len(sums) != x.sums || last < 0 || first < last {
			t.Fatalf("sums %d, products of gradients %d and %d in %v: %v", sums, last, first, work, failed)
		}
		if overlaps := sums[0] < first; sums[0] < last || overlaps != (x.bucket == 1) || sums[len(sums)-1] < first {
			t.Errorf("buckets of %d floats: the sums are launched at %d, the gradient of the last layer is computed at %d, of the first at %d", x.bucket, sums, last, first)
		}
		d.End()
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestChoiceOfDevices(t *testing.T) {
	a, b := identity(1), identity(2)
	part := cuda.Identity{Device: [16]byte{3}, GPU: a.GPU}
	const device = "device 0 (A)"
	for _, x := range []struct {
		all         []choice
		fault, fail string
	}{
		{all: []choice{{ID: a}, {ID: b}}},
		{all: []choice{{ID: a, Sum: "nccl"}, {ID: b, Sum: "nccl"}}},
		{all: []choice{{ID: a, Device: device}, {ID: a, Device: device}}, fail: "ranks 0 and 1 have the same device 0 (A): start fewer ranks on its machine, or give -share-gpu"},
		{all: []choice{{ID: a, Share: true}, {ID: b}, {ID: a, Device: device}}, fault: "ranks 0 and 2 have the same device 0 (A)"},
		{all: []choice{{ID: a}, {ID: b, Fault: "no library"}}, fault: "rank 1: no library"},
		{all: []choice{{ID: a, Sum: "nccl"}, {ID: b, Fault: "no library"}}, fail: "-collective nccl: rank 1: no library"},
		{all: []choice{{ID: part}, {ID: b}, {ID: a}}, fault: "ranks 0 and 2 have instances of one GPU (MIG), which NCCL does not connect"},
		{all: []choice{{ID: part, Sum: "nccl"}, {ID: a}}, fail: "-collective nccl: ranks 0 and 1 have instances of one GPU (MIG), which NCCL does not connect"},
		{all: []choice{{ID: a, Sum: "host"}, {ID: b}}, fault: "-collective host"},
	} {
		fault, err := decide(x.all)
		if fault != x.fault || x.fail == "" && err != nil || x.fail != "" && (err == nil || err.Error() != x.fail) {
			t.Errorf("%+v: %q, %v, want %q, %q", x.all, fault, err, x.fault, x.fail)
		}
	}
}
