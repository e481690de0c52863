//go:build gpu

package device

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/model/device/parity"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/trace"
)

var standin cudatest.Files

// reused is the variable that names the folder of stand-ins that are built already.
const reused = "DEVICE_TEST_STANDINS"

func TestMain(m *testing.M) {
	kernels := kernel.PTX
	if from, to, broken := strings.Cut(os.Getenv(mutant), "\n"); broken && strings.Count(kernel.Source, from) == 1 {
		kernels = strings.Replace(kernel.Source, from, to, 1)
	} else if broken {
		fmt.Fprintf(os.Stderr, "the kernels have this %d times: %s\n", strings.Count(kernel.Source, from), from)
		os.Exit(1)
	}
	os.Setenv("STANDIN_DEVICES", "4")
	if folder := os.Getenv(reused); folder != "" {
		standin = cudatest.FilesIn(folder)
		os.Exit(m.Run())
	}
	os.Exit(cudatest.Main(kernels, func(f cudatest.Files) int {
		standin = f
		return m.Run()
	}))
}

// use makes a trainer compute on the device of a rank.
func use(t *step.Trainer, rank int, c *config.Config, l layout.Layout) error {
	return t.ComputeOn(false, func(a *dense.Arena) (step.Device, error) { return openFor(a, rank, c, l) })
}

func openFor(a *dense.Arena, rank int, c *config.Config, l layout.Layout) (*Device, error) {
	library, err := cuda.Open(cuda.Files{CUDA: standin.CUDA, CUBLAS: standin.CUBLAS})
	if err != nil {
		return nil, err
	}
	on, err := library.Device(rank)
	if err != nil {
		return nil, err
	}
	d, err := Open(on, a, c, l)
	if err == nil && d.labels[0].net != nil && d.labels[0].net.cin != nil {
		d.labels[0].net.cin.most = 2000 // several blocks of large batches
	}
	return d, err
}

// train trains on the CPU or on the device of the rank.
func train(comm *collective.Comm, c *config.Config, l layout.Layout, steps int, gpu bool) (parity.Trained, error) {
	return parity.Train(comm, c, l, steps, func(t *step.Trainer) error {
		if gpu {
			return use(t, comm.Rank(), c, l)
		}
		return nil
	})
}

// tolerance is the largest relative difference after all steps. Sums over a batch are rounded
// in another order.
const tolerance = 1e-5

// models are changes of parity.Model.
func models() map[string]func(*config.Config) {
	off := false
	return map[string]func(*config.Config){
		"wide_deep": nil,
		"deepfm":    func(c *config.Config) { c.Model.Kind = "deepfm" },
		// With relu, a sum near 0 may have another sign on the device after 200 steps, and a
		// parameter then differs by 3e-4.
		"xdeepfm": func(c *config.Config) {
			c.Model.Kind, c.Model.CIN, c.Model.Activation = "xdeepfm", []int{5, 3, 4}, "tanh"
		},
		"xdeepfm, one layer": func(c *config.Config) { c.Model.Kind, c.Model.CIN = "xdeepfm", []int{6} },
		"dcn_v2, stacked": func(c *config.Config) {
			c.Model.Kind, c.Model.Cross = "dcn_v2", config.Cross{Layers: 2}
		},
		"dcn_v2, parallel, rank 3": func(c *config.Config) {
			c.Model.Kind, c.Model.Cross = "dcn_v2", config.Cross{Layers: 3, Rank: 3, Structure: "parallel"}
		},
		"wide only":          func(c *config.Config) { c.Model.Deep = &off },
		"deep only, dropout": func(c *config.Config) { c.Model.Wide, c.Model.Dropout = &off, .3 },
		"tanh, dropout, L2, clipped": func(c *config.Config) {
			c.Model.Activation, c.Model.Dropout, c.Train.ClipNorm, c.Train.L2.Dense = "tanh", .1, .05, .01
		},
		"sigmoid, adam": func(c *config.Config) {
			c.Model.Activation, c.Train.Optimizer.Dense = "sigmoid", optim.Rule{Kind: "adam", LearningRate: .01}
		},
		"identity, sgd": func(c *config.Config) {
			c.Model.Activation, c.Train.Optimizer.Dense = "identity", optim.Rule{Kind: "sgd", LearningRate: .05}
		},
		"ftrl, 2 threads": func(c *config.Config) { c.Train.Optimizer.Dense, c.Train.Threads = optim.Rule{Kind: "ftrl"}, 2 },
		"3 labels, weights": func(c *config.Config) {
			c.Label.Weight = "w"
			c.Labels = []schema.Label{{Field: "n", Kind: "number", LossWeight: .1}, {Field: "count", Kind: "number", Loss: "poisson", LossWeight: .2}}
		},
		"batch norm": func(c *config.Config) { c.Model.BatchNorm, c.Model.Activation = true, "tanh" },
		"batch norm, dropout, 2 labels": func(c *config.Config) {
			c.Model.BatchNorm, c.Model.Dropout, c.Model.Activation, c.Model.Hidden = true, .2, "sigmoid", []int{24, 300, 9}
			c.Labels = []schema.Label{{Field: "n", Kind: "number", LossWeight: .1}}
		},
		"batch norm, identity, dcn_v2": func(c *config.Config) {
			c.Model.BatchNorm, c.Model.Activation, c.Model.Kind, c.Model.Cross = true, "identity", "dcn_v2", config.Cross{Layers: 2}
		},
		"negative rate": func(c *config.Config) { c.Data.NegativeRate = .25 },
		"4 slots":       func(c *config.Config) { c.Train.Slots = 4 },
	}
}

func TestParityWithTheCPU(t *testing.T) {
	steps := patient.Size(16, 300)
	for name, change := range models() {
		for _, size := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s, %d ranks", name, size), func(t *testing.T) {
				c, l := parity.Model(change)
				steps := steps
				if size == 4 {
					steps = 16 // later, with relu, a sum near 0 has another sign
				}
				err := mem.Run(size, 2, func(comm *collective.Comm) error {
					want, err := train(comm, c, l, steps, false)
					if err != nil {
						return err
					}
					got, err := train(comm, c, l, steps, true)
					if err != nil {
						return err
					}
					if d := got.Difference(want); d.Relative > tolerance {
						return errors.New(d.String())
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestStepsRepeat: two trainings have the same bits, although the stand-in runs threads and
// copies in any order.
func TestStepsRepeat(t *testing.T) {
	c, l := parity.Model(func(c *config.Config) { c.Model.Kind, c.Model.Cross = "dcn_v2", config.Cross{Layers: 2} })
	var runs [2]parity.Trained
	for i := range runs {
		fatal.If(t, mem.Run(1, 2, func(comm *collective.Comm) (err error) {
			runs[i], err = train(comm, c, l, 12, true)
			return err
		}))
	}
	if err := runs[0].Same(runs[1]); err != nil {
		t.Error(err)
	}
}

// TestPrecision: products in TF32 and bfloat16 differ from the CPU's by about the precision of
// their operands, and two trainings have the same bits.
func TestPrecision(t *testing.T) {
	t.Setenv("STANDIN_CAPABILITY", "80")
	for _, x := range []struct {
		precision   string
		least, most float64
	}{{"fp32", 0, 1e-5}, {"tf32", 1e-4, 2e-2}, {"bf16", 2e-3, .2}} {
		for _, kind := range []string{"wide_deep", "dcn_v2"} {
			change := func(precision string) func(c *config.Config) {
				return func(c *config.Config) {
					c.Model.Kind, c.Model.Activation, c.Train.Precision, c.Train.Device = kind, "tanh", precision, "gpu"
					if kind == "dcn_v2" {
						c.Model.Cross.Layers = 2
					}
				}
			}
			c, l := parity.Model(change("fp32"))
			reduced, _ := parity.Model(change(x.precision))
			fatal.If(t, mem.Run(1, 2, func(comm *collective.Comm) error {
				want, err := train(comm, c, l, 16, false)
				if err != nil {
					return err
				}
				var got [2]parity.Trained
				for i := range got {
					if got[i], err = train(comm, reduced, l, 16, true); err != nil {
						return err
					}
				}
				if d := got[0].Difference(want); d.Relative < x.least || d.Relative > x.most {
					t.Errorf("%s, %s: %v, want %v to %v", kind, x.precision, d, x.least, x.most)
				}
				return got[0].Same(got[1])
			}))
		}
	}
	t.Setenv("STANDIN_CAPABILITY", "75")
	_, _, err := one(t, func(c *config.Config) { c.Train.Precision, c.Train.Device = "tf32", "gpu" })
	if err == nil || !strings.Contains(err.Error(), "train.precision: tf32: cuda: the device has compute capability 7.5, and products in TF32 and bfloat16 need 8.0: use fp32") {
		t.Error(err)
	}
}

// one returns a trainer of one rank on the device and closes it at the end of the test.
func one(t *testing.T, change func(*config.Config)) (*step.Trainer, *config.Config, error) {
	t.Helper()
	c, l := parity.Model(change)
	tr, err := step.NewTrainer(collective.New(mem.New(1, 2)[0]), trace.New(16), c, l, step.Tables{})
	fatal.If(t, err)
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr, c, use(tr, 0, c, l)
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, kind := range []string{"wide_deep", "deepfm", "dcn_v2", "xdeepfm"} {
		tr, c, err := one(t, func(c *config.Config) {
			c.Model.Kind, c.Train.ClipNorm, c.Model.Dropout, c.Model.BatchNorm = kind, 1, .1, kind == "deepfm"
			if kind == "dcn_v2" {
				c.Model.Cross.Layers = 2
			}
			if kind == "xdeepfm" {
				c.Model.CIN = []int{5, 3}
			}
		})
		fatal.If(t, err)
		batches := parity.Batches(c, 0, 4) // of several sizes
		next := step.Input{Rate: 1}
		take := func() {
			next.Batches = batches[next.N%4:][:1]
			next.N++
			if _, err := tr.Step(next); err != nil {
				t.Fatal(err)
			}
		}
		for range 8 {
			take()
		}
		had := standin.Allocated()
		if n := testing.AllocsPerRun(20, take); n != 0 || standin.Allocated() != had {
			t.Errorf("%s: %v allocations a step, and %d in all on the device", kind, n, standin.Allocated()-had)
		}
	}
}

// TestNonFiniteLoss: the error names the place, as the CPU's does.
func TestNonFiniteLoss(t *testing.T) {
	tr, c, err := one(t, func(c *config.Config) { c.Train.Optimizer.Dense = optim.Rule{Kind: "sgd", LearningRate: 1e30} })
	fatal.If(t, err)
	for n, b := range parity.Batches(c, 0, 8) {
		_, err = tr.Step(step.Input{N: int64(n) + 1, Rate: 1, Batches: []*encode.Batch{b}})
		if err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "is not a finite number; a smaller learning rate or clip_norm may prevent it") {
		t.Error(err)
	}
}

func TestABatchThatDoesNotFit(t *testing.T) {
	t.Setenv("STANDIN_MEMORY", "100000")
	tr, c, err := one(t, nil)
	fatal.If(t, err)
	all := parity.Batches(c, 0, 4)
	wide := encode.Batch{Rows: 400, Label: make([]float32, 400), RowID: make([]uint64, 400), Dense: make([]float32, 800)}
	for range all[0].Sparse {
		wide.Sparse = append(wide.Sparse, encode.Jagged{Offsets: make([]int32, 401)})
	}
	_, err = tr.Step(step.Input{N: 1, Rate: 1, Batches: []*encode.Batch{&wide}})
	if err == nil || !strings.Contains(err.Error(), "train.device: gpu: device 0 (Stand-in 0): a batch of 400 rows does not fit: cuda: out of memory: ") {
		t.Fatal(err)
	}
	_, said, _ := strings.Cut(err.Error(), "give train.batch at most ")
	fit := 0
	if _, err := fmt.Sscan(said, &fit); err != nil || fit < all[0].Rows || fit >= 400 {
		t.Errorf("%q: %v", said, err)
	}
	wide.Rows = fit
	for f := range wide.Sparse {
		wide.Sparse[f].Offsets = wide.Sparse[f].Offsets[:fit+1]
	}
	wide.Label, wide.RowID, wide.Dense = wide.Label[:fit], wide.RowID[:fit], wide.Dense[:2*fit]
	if _, err = tr.Step(step.Input{N: 1, Rate: 1, Batches: []*encode.Batch{&wide}}); err != nil {
		t.Errorf("%d rows: %v", fit, err)
	}
	if _, _, err := one(t, func(c *config.Config) { c.Model.Hidden = []int{300, 300} }); err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("a model that does not fit: %v", err)
	}
}

// TestSizesThatKernelsCannotCount: a training and a plan name the batch or the parameter.
func TestSizesThatKernelsCannotCount(t *testing.T) {
	c, l := parity.Model(nil)
	a, err := step.DenseArena(c, l)
	fatal.If(t, err)
	d, err := openFor(a, 0, c, l)
	fatal.If(t, err)
	defer d.Close()
	hidden := 0
	for _, n := range c.Model.Hidden {
		hidden = max(hidden, n)
	}
	most := kernel.MaxElements / max(hidden, l.Width)
	for name, x := range map[string]struct {
		size step.DeviceSize
		want string
	}{
		"rows":   {step.DeviceSize{Rows: most + 1}, fmt.Sprintf("a batch of %d rows needs a buffer of %d elements, and the kernels count to 2147483647: give train.batch at most %d", most+1, (most+1)*max(hidden, l.Width), most)},
		"values": {step.DeviceSize{Rows: 1000, Values: kernel.MaxElements + 1}, "a batch of 1000 rows needs a buffer of 2147483648 elements"},
		"keys":   {step.DeviceSize{Rows: 1000, Keys: kernel.MaxElements/d.bags.Widest + 1}, "a batch of 1000 rows needs a buffer of "},
	} {
		if _, err := d.Begin(x.size); err == nil || !strings.HasPrefix(err.Error(), "train.device: gpu: device 0 (Stand-in 0): "+x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := need(a, c, l, most+1); err == nil || !strings.HasPrefix(err.Error(), "a batch of ") {
		t.Errorf("a plan: %v", err)
	}
	p := a.Params()[0]
	p.Rows = kernel.MaxElements/p.Cols + 1
	want := fmt.Sprintf("parameter %s has %d elements, and the kernels count to 2147483647: use train.device: cpu, or narrower layers", p.Name, p.Rows*p.Cols)
	if _, err := need(a, c, l, 10); err == nil || err.Error() != want {
		t.Errorf("a parameter: %v", err)
	}
	if _, err := openFor(a, 0, c, l); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("a parameter of a training: %v", err)
	}
}

// TestNeedIsWhatIsAllocated: a plan has the bytes that a training allocates.
func TestNeedIsWhatIsAllocated(t *testing.T) {
	off := false
	for name, change := range map[string]func(*config.Config){
		"wide_deep": nil,
		"clipped, dropout, adam, weights": func(c *config.Config) {
			c.Train.ClipNorm, c.Model.Dropout, c.Label.Weight, c.Train.Optimizer.Dense = 1, .1, "w", optim.Rule{Kind: "adam"}
		},
		"xdeepfm":   func(c *config.Config) { c.Model.Kind, c.Model.CIN = "xdeepfm", []int{5, 3} },
		"deepfm":    func(c *config.Config) { c.Model.Kind = "deepfm" },
		"dcn_v2":    func(c *config.Config) { c.Model.Kind, c.Model.Cross = "dcn_v2", config.Cross{Layers: 2, Rank: 3} },
		"wide only": func(c *config.Config) { c.Model.Deep = &off },
		"batch norm": func(c *config.Config) {
			c.Model.BatchNorm, c.Labels = true, []schema.Label{{Field: "n", Kind: "number"}}
		},
		"2 labels": func(c *config.Config) { c.Labels = []schema.Label{{Field: "n", Kind: "number"}} },
	} {
		c, l := parity.Model(change)
		m := Machine{Files: cuda.Files{CUDA: standin.CUDA, CUBLAS: standin.CUBLAS}}
		want, err := m.Need(c, l, 300)
		fatal.If(t, err)
		library, err := cuda.Open(m.Files)
		fatal.If(t, err)
		a, err := step.DenseArena(c, l)
		fatal.If(t, err)
		d, on, err := m.open(library, 0, a, c, l)
		fatal.If(t, err)
		_, err = d.Begin(step.LikelySize(l, 300))
		free, _, failed := on.Memory()
		fatal.If(t, errors.Join(err, failed, d.Close()))
		if got := want.FreeBytes - free; got != want.MemoryBytes {
			t.Errorf("%s: %d bytes are allocated, and %d planned", name, got, want.MemoryBytes)
		}
	}
}

// TestFaultsOfTheDevice: a call that fails ends the step with its name.
func TestFaultsOfTheDevice(t *testing.T) {
	for _, call := range []string{"cuMemcpyHtoDAsync", "cuLaunchKernel", "cublasGemmEx", "cuMemcpyDtoHAsync", "cuEventSynchronize", "cuStreamSynchronize"} {
		tr, c, err := one(t, nil)
		fatal.If(t, err)
		b := parity.Batches(c, 0, 1)
		if _, err := tr.Step(step.Input{N: 1, Rate: 1, Batches: b}); err != nil {
			t.Fatal(err)
		}
		standin.Fault(call, 0, 719)
		if _, err := tr.Step(step.Input{N: 2, Rate: 1, Batches: b}); err == nil || !strings.Contains(err.Error(), "cuda: "+call+": ") {
			t.Errorf("%s: %v", call, err)
		}
	}
}
