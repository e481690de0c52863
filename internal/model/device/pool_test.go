//go:build gpu

package device

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/model/device/parity"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// observed is a Device that calls see after each batch.
type observed struct {
	*Device
	see func(*Device) error
}

func (o observed) Compute(n int64) (float64, error) {
	loss, err := o.Device.Compute(n)
	if err == nil {
		err = o.see(o.Device)
	}
	return loss, err
}

// read copies floats of a device.
func (d *Device) read(b cuda.Buffer) ([]float32, error) {
	p, err := d.device.Pin(b.Len)
	if err != nil {
		return nil, err
	}
	h := p.Cut(b.Len)
	err = errors.Join(d.compute.CopyOut(h, b), d.compute.Wait())
	return slices.Clone(h), errors.Join(err, p.Close())
}

// sameBits compares two results.
func sameBits(what string, got, want []float32) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i, x := range got {
		if math.Float32bits(x) != math.Float32bits(want[i]) {
			return fmt.Errorf("%s: value %d of %d is %v, want %v", what, i, len(got), x, want[i])
		}
	}
	return nil
}

// pooling compares what a device pools with what the CPU pools from the rows of l.
type pooling struct {
	layout layout.Layout
	batch  *encode.Batch
	rows   *sparse.Lookup
}

func (p pooling) compare(d *Device) error {
	l, b := p.layout, p.batch
	want := make([]float32, b.Rows*l.Width)
	for i := range b.Rows {
		copy(want[(i+1)*l.Width-len(l.Dense):], b.Dense[i*len(l.Dense):(i+1)*len(l.Dense)])
	}
	logit := make([]float32, b.Rows*len(d.labels))
	for f, x := range l.Features {
		if x.DeepPart >= 0 {
			p.rows.Pool(f, x.DeepPart, want[x.DeepCol:], l.Width, false)
		}
		for t := 0; x.WidePart >= 0 && t < len(d.labels); t++ {
			p.rows.Pool(f, x.WidePart+t, logit[t*b.Rows:][:b.Rows], 1, true)
		}
	}
	got, err := d.read(d.work.x)
	if d.labels[0].net == nil {
		want = nil
		for t := range d.labels {
			bias, failed := d.read(d.labels[t].bias.value)
			if err = errors.Join(err, failed); err != nil {
				return err
			}
			for i := range b.Rows {
				logit[t*b.Rows+i] += bias[0]
			}
		}
		err = sameBits("logits", d.staged.logit.at, logit)
	}
	if err = errors.Join(err, sameBits("input", got, want)); err != nil {
		return err
	}
	return p.gradients(d)
}

// gradients compares the gradients of the distinct rows.
func (p pooling) gradients(d *Device) error {
	dx, err := d.read(d.work.dx)
	dlogit, failed := d.read(d.work.dlogit)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	for f, x := range p.layout.Features {
		for t := 0; x.WidePart >= 0 && t < len(d.labels); t++ {
			p.rows.PoolGrad(f, x.WidePart+t, dlogit[t*p.batch.Rows:], 1)
		}
		if x.DeepPart >= 0 {
			p.rows.PoolGrad(f, x.DeepPart, dx[x.DeepCol:], p.layout.Width)
		}
	}
	v := p.rows.Values(0)
	return errors.Join(sameBits("rows", d.staged.rows.at, v.Rows), sameBits("gradients of rows", d.staged.grads.at, v.Grads))
}

// keys returns the keys of a batch as a trainer pulls them.
func (p pooling) keys() (all []sparse.Bags) {
	for f, x := range p.layout.Features {
		j := p.batch.Sparse[f]
		all = append(all, sparse.Bags{Table: x.Table, Values: j.Values, Offsets: j.Offsets, Weights: j.Weights, Pooling: x.Pooling})
	}
	return all
}

// poolingModel returns a model of features of several widths, of which two share a table.
func poolingModel(pool, strategy string, change func(*config.Config)) (*config.Config, layout.Layout) {
	c := &config.Config{}
	c.Model.EmbeddingDim, c.Model.Hidden, c.Label.Field, c.Model.Init.Scale = 4, []int{8}, "y", .5
	if change != nil {
		change(c)
	}
	columns := []encode.SparseColumn{}
	for _, x := range [][2]string{{"a", "one"}, {"b", "two"}, {"c", "one"}, {"d", "three"}} {
		c.Features = append(c.Features, schema.Feature{Name: x[0], Field: x[0], Encode: "id", Table: x[1], Wide: c.Model.Wide, Separator: "|"})
	}
	c.Tables = []config.Table{{Name: "one", Pooling: pool, Strategy: strategy}, {Name: "two", Dim: 7}, {Name: "three", Dim: 1, Pooling: pool}}
	if c.Model.Deep != nil && !*c.Model.Deep {
		c.Tables[1].Dim, c.Tables[2].Dim = 0, 0
	}
	c.Fill()
	for _, f := range c.Features {
		columns = append(columns, encode.SparseColumn{Name: f.Name, Table: f.Table, Wide: *c.Model.Wide, Deep: *c.Model.Deep})
	}
	return c, layout.New(c, columns, []string{"d0", "d1", "d2"})
}

// poolingBatch returns a random batch. Bags have from least to most values, of few keys, so that
// one key has more values than a kernel loads at once.
func poolingBatch(c *config.Config, rng *rand.Rand, rows, least, most int, weights bool) *encode.Batch {
	b := &encode.Batch{Rows: rows, Labels: make([][]float32, len(c.Labels))}
	for range c.Features {
		j := encode.Jagged{Offsets: []int32{0}}
		for range rows {
			for range least + rng.IntN(most-least+1) {
				j.Values = append(j.Values, rng.Uint64N(9)*rng.Uint64N(9))
				if weights {
					j.Weights = append(j.Weights, rng.Float32()-.3)
				}
			}
			j.Offsets = append(j.Offsets, int32(len(j.Values)))
		}
		b.Sparse = append(b.Sparse, j)
	}
	for i := range rows {
		b.RowID, b.Label = append(b.RowID, uint64(i)), append(b.Label, float32(rng.IntN(2)))
		for range 3 {
			b.Dense = append(b.Dense, float32(rng.NormFloat64()))
		}
		for t := range b.Labels {
			b.Labels[t] = append(b.Labels[t], rng.Float32())
		}
	}
	return b
}

// TestPoolingHasTheBitsOfTheCPU: the input of the networks, the wide logits, and the gradients
// of the distinct rows.
func TestPoolingHasTheBitsOfTheCPU(t *testing.T) {
	off := false
	for name, x := range map[string]struct {
		pool, strategy string
		change         func(*config.Config)
	}{
		"sum":    {},
		"mean":   {pool: "mean"},
		"owners": {pool: "sqrtn", strategy: "pooled"},
		"wide only": {change: func(c *config.Config) {
			c.Model.Deep, c.Labels = &off, []schema.Label{{Field: "n", Kind: "number"}}
		}},
		"deep only": {change: func(c *config.Config) { c.Model.Wide = &off }},
		"2 labels": {pool: "mean", change: func(c *config.Config) {
			c.Labels = []schema.Label{{Field: "n", Kind: "number", LossWeight: .1}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, l := poolingModel(x.pool, x.strategy, x.change)
			tr, err := step.NewTrainer(collective.New(mem.New(1, 2)[0]), trace.New(16), c, l, step.Tables{})
			fatal.If(t, err)
			p := pooling{layout: l}
			err = tr.ComputeOn(false, func(a *dense.Arena) (step.Device, error) {
				d, err := openFor(a, 0, c, l)
				return observed{d, func(d *Device) error { return p.compare(d) }}, err
			})
			fatal.If(t, err)
			rng := rand.New(rand.NewPCG(1, 2))
			for n, size := range []struct {
				rows, least, most int
				weights           bool
			}{{60, 1, 1, false}, {60, 0, 3, false}, {1, 0, 0, false}, {200, 0, 3, true}, {90, 0, 0, false}, {60, 1, 1, true}, {3, 0, 1, false}, {257, 1, 2, false}} {
				p.batch, p.rows = poolingBatch(c, rng, size.rows, size.least, size.most, size.weights), tr.Store().NewLookup()
				fatal.If(t, tr.Store().Pull(p.rows, p.keys(), true))
				if _, err := tr.Step(step.Input{N: int64(n) + 1, Rate: 1, Batches: []*encode.Batch{p.batch}}); err != nil {
					t.Errorf("batch %d, %+v: %v", n, size, err)
				}
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPoolingOnSeveralRanks: the parity of tables whose rows are pooled by owners.
func TestPoolingOnSeveralRanks(t *testing.T) {
	for _, strategy := range []string{"rows", "pooled"} {
		c, l := parity.Model(func(c *config.Config) {
			c.Tables = []config.Table{{Name: "f0", Strategy: strategy}, {Name: "f2", Strategy: strategy, Pooling: "mean"}}
		})
		if err := mem.Run(2, 2, func(comm *collective.Comm) error {
			want, err := train(comm, c, l, 16, false)
			if err != nil {
				return err
			}
			got, err := train(comm, c, l, 16, true)
			if err != nil {
				return err
			}
			if d := got.Difference(want); d.Relative > tolerance {
				return errors.New(d.String())
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", strategy, err)
		}
	}
}

// mutant is the variable with a change of the kernels for TestMain: what is replaced and by what,
// with a line break between.
const mutant = "DEVICE_MUTANT"

// TestBrokenPoolingIsCaught breaks the kernels of pooling.
func TestBrokenPoolingIsCaught(t *testing.T) {
	broken(t, "TestPoolingHasTheBitsOfTheCPU", map[string]string{
		"bags from last to first":              "ON(b->at)[x->first + v]\nON(b->at)[x->first + (x->offsets == none ? v : ON(b->offsets)[x->offsets + bag] + end - 1 - v)]",
		"no last value of a bag":               "for (; v < end; v++) {\nfor (; v + 1 < end; v++) {",
		"an empty bag has the value before it": "for (; v < end; v++) {\nfor (v -= v == end && v > 0; v < end; v++) {",
		"a search that ends too early":         "from[mid * stride] <= x\nfrom[mid * stride] < x",
		"no factors":                           "x->factors == none ? value\n1 ? value",
		"gradients without factors":            "a.factor ? ON\n0 ? ON",
		"gradients from last to first":         "p[k] = v + k < end ? at[v + k]\np[k] = v + k < end ? at[ON(a.start)[row] + end - 1 - v - k]",
		"no last value of a gradient":          "u32 end = ON(a.start)[row + 1];\nu32 end = ON(a.start)[row + 1] - 1;",
		"a gradient of one group only":         "v += ahead\nv += end",
		"the place of another row":             "ON(a.grad)[ON(a.place)[row] + col]\nON(a.grad)[ON(a.place)[0] + col]",
		"the wide weight of label 1":           "wide + i / a.rows\nwide",
		"the first dense input for all":        "bag * a.inputs + f - a.features\nbag * a.inputs",
	})
}

// broken runs a test with each change of the kernels. It must fail, or a kernel must read memory
// that is not the device's.
func broken(t *testing.T, test string, changes map[string]string) {
	t.Helper()
	own, err := os.Executable()
	fatal.If(t, err)
	name, _, _ := strings.Cut(test, "/")
	for what, change := range changes {
		cmd := exec.Command(own, "-test.run", "^"+strings.ReplaceAll(test, "/", "$/^")+"$", "-test.timeout", "60s")
		cmd.Env = append(os.Environ(), mutant+"="+change, "TMPDIR="+t.TempDir()) // a process that faults does not remove its folder
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: "+name) && err.Error() != "signal: segmentation fault" {
			t.Errorf("%s: the test passes, or does not run: %v\n%s", what, err, out)
		}
	}
}
