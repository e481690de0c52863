//go:build gpu

package device

import (
	"errors"
	"fmt"
	"path"
	"unsafe"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/optim"
)

// Device computes the dense part of a model. It implements step.Device.
type Device struct {
	device          *cuda.Device
	compute, copies *cuda.Stream
	computed        [3]*cuda.Event // results of the compute stream: logits, dx, gradients
	copied          *cuda.Event    // copies of the results that Compute returns
	work            work

	arena  *dense.Arena
	params []*param
	own    memory // memory of the parameters
	values region // of all parameters
	states region // of the optimizer; only Apply reads them
	grads  region
	norms  struct {
		region
		partial cuda.Buffer // sums of one parameter
	}
	upload upload
	summed bool // the device has the sum of this step's gradients
	bucket int  // least number of floats that one call of NCCL sums

	labels  []label
	bags    kernel.Bags
	columns []uint32 // content of bags.Column
	weigh   bool
	batch   memory // memory of a batch
	have    capacity
	room    step.DeviceBatch
	staged  staged
	users   func() string // lists other processes on the device; nil: unknown
}

// upload contains, for each region, the version of the arena on the device; 0: none. They differ
// if the device computes gradients and the CPU applies them.
type upload struct{ values, states uint64 }

// label computes one tower.
type label struct {
	net   *layers // nil: wide model only
	bias  *param  // bias of the wide model; nil: none
	kind  kernel.LossKind
	share float64
}

// Open returns a Device for a trainer's arena on an opened device, which Close closes. c must
// be filled.
func Open(on *cuda.Device, a *dense.Arena, c *config.Config, l layout.Layout) (_ *Device, err error) {
	d := &Device{device: on, arena: a, weigh: c.Weighted(), bucket: bucketFloats}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%v: %w", on, err), d.Close())
		}
	}()
	on.Operands = map[string]cuda.Operands{"tf32": cuda.TF32, "bf16": cuda.BF16}[c.Train.Precision]
	if err := on.Multiplies(on.Operands); err != nil {
		return nil, fmt.Errorf("train.precision: %s: %w: use fp32", c.Train.Precision, err)
	}
	if d.work.Set, err = kernel.Load(on); err != nil {
		return nil, err
	}
	for _, s := range []**cuda.Stream{&d.compute, &d.copies} {
		if *s, err = on.Stream(); err != nil {
			return nil, err
		}
	}
	d.work.on = d.compute
	for _, e := range []**cuda.Event{&d.computed[0], &d.computed[1], &d.computed[2], &d.copied} {
		if *e, err = on.Event(); err != nil {
			return nil, err
		}
	}
	if err := d.place(c); err != nil {
		return nil, err
	}
	if err := d.build(c, l); err != nil {
		return nil, err
	}
	for n := range d.normals() {
		n.place(d.own)
	}
	return d, nil
}

// lengthsOf returns the numbers of floats that the parameters need on a device, and rest for norms
// of gradients and the statistics of batches.
func lengthsOf(a *dense.Arena, c *config.Config) (values, states, norms, partials, rest int) {
	for _, p := range a.Params() {
		values += cuda.Room(len(p.Value))
		states += cuda.Room(len(p.State))
	}
	if c.Train.ClipNorm != 0 {
		for _, p := range a.Params() {
			partial, total := kernel.NormSums(len(p.Value))
			norms += cuda.Room(2 * total)
			partials = max(partials, cuda.Room(2*partial))
		}
	}
	rest = norms + partials
	for _, x := range a.Statistics() { // two for each layer
		rest += normFloats / 2 * cuda.Room(len(x.Value))
	}
	return values, states, norms, partials, rest
}

// need returns the bytes that a Device needs for batches of this number of rows, in which each
// feature has one value and no key repeats.
func need(a *dense.Arena, c *config.Config, l layout.Layout, rows int) (int64, error) {
	d := &Device{arena: a, weigh: c.Weighted()}
	for _, p := range a.Params() {
		d.params = append(d.params, &param{of: p})
	}
	if err := d.build(c, l); err != nil {
		return 0, err
	}
	if err := countable(a); err != nil {
		return 0, err
	}
	z := step.LikelySize(l, rows)
	if c, _ := d.sizes(z); c.largest > kernel.MaxElements {
		return 0, d.tooLarge(z, c)
	}
	values, states, _, _, rest := lengthsOf(a, c)
	batch, _ := d.sizes(larger(z))
	return 4 * (int64(2*values+states+rest) + int64(batch.device)), nil
}

// countable returns an error for a parameter with more elements than a kernel counts.
func countable(a *dense.Arena) error {
	for _, p := range a.Params() {
		if n := p.Rows * p.Cols; n > kernel.MaxElements {
			return fmt.Errorf("parameter %s has %d elements, and the kernels count to %d: use train.device: cpu, or narrower layers", p.Name, n, kernel.MaxElements)
		}
	}
	return nil
}

// place allocates memory of the device and divides the part that the parameters use.
func (d *Device) place(c *config.Config) (err error) {
	if err := countable(d.arena); err != nil {
		return err
	}
	values, states, norms, partials, rest := lengthsOf(d.arena, c)
	if d.own, err = newMemory(d.device, 2*values+states+rest); err != nil {
		return err
	}
	d.values, d.states, d.grads, d.norms.region = d.own.cut(values), d.own.cut(states), d.own.cut(values), d.own.cut(norms)
	d.norms.partial = d.own.pool.Cut(partials)
	at, of := 0, 0
	for _, p := range d.arena.Params() {
		end, stateEnd := at+len(p.Value), of+len(p.State)
		d.params = append(d.params, &param{of: p, value: d.values.on.Part(at, end), grad: d.grads.on.Part(at, end), state: d.states.on.Part(of, stateEnd)})
		at, of = at+cuda.Room(len(p.Value)), of+cuda.Room(len(p.State))
	}
	return nil
}

// build makes the networks.
func (d *Device) build(c *config.Config, l layout.Layout) error {
	b := &builder{arena: d.arena, params: map[string]*param{}, seed: c.Train.Seed, widest: 1}
	for _, p := range d.params {
		b.params[p.of.Name] = p
	}
	labels := schema.Schema{Label: c.Label, Labels: c.Labels}
	for i, of := range labels.All() {
		x := label{share: of.Share()}
		switch {
		case of.IsPoisson():
			x.kind = kernel.PoissonLoss
		case of.IsNumber():
			x.kind = kernel.SquaredLoss
		}
		if *c.Model.Wide {
			name := "wide/bias"
			if i > 0 {
				name += "/" + of.Field
			}
			b.prefix = ""
			x.bias = b.param(name)
		}
		if *c.Model.Deep {
			if i > 0 {
				b.prefix = step.TowerPrefix(of)
			}
			x.net = b.network(c, l)
		}
		d.labels = append(d.labels, x)
	}
	d.work.widest = b.widest
	d.bags, d.columns = bagsOf(l)
	d.bags.Labels = len(d.labels)
	return b.err
}

// bagsOf returns what all batches have in common.
func bagsOf(l layout.Layout) (b kernel.Bags, columns []uint32) {
	b = kernel.Bags{Features: len(l.Features), Tables: len(l.Tables), Width: l.Width, Inputs: len(l.Dense)}
	for _, t := range l.Tables {
		width := 0
		for _, p := range t.Parts {
			width += p.Dim
		}
		b.Widest = max(b.Widest, width)
	}
	for f, x := range l.Features {
		for i := 0; x.DeepPart >= 0 && i < l.Tables[x.Table].Parts[x.DeepPart].Dim; i++ {
			columns = append(columns, uint32(f))
		}
	}
	for i := range l.Dense {
		columns = append(columns, uint32(len(l.Features)+i))
	}
	return b, columns
}

// network builds the layers of the operations of a network. The last one is a perceptron, or the
// sum of one and another part.
func (b *builder) network(c *config.Config, l layout.Layout) *layers {
	n := &layers{}
	spec, err := network.New(c.Model, l.Shape())
	if err != nil {
		b.err = err
		return n
	}
	for i := 0; i < len(spec.Ops) && b.err == nil; {
		o, end, fits := &spec.Ops[i], i+1, true
		switch {
		case !o.Supports().Device:
			fits = false
		case o.Part != "":
			end = spec.Chain(i, func(x *network.Op) bool { return x.Part == o.Part })
			stacked := n.cross != nil && n.out == nil && o.In[0] == i-1
			fits = n.mlp == nil && (stacked || o.In[0] == network.Input)
			n.mlp = b.mlp(spec.Ops[i:end])
		case o.Kind == network.FM:
			n.fm = &fm{FM: kernel.FM{Fields: len(spec.Shape.Fields), Embed: spec.Shape.Embed(), Width: l.Width}}
		case o.Kind == network.CINLayer:
			b.cinLayer(n, spec, o)
		case o.Kind == network.CrossLayer:
			b.crossLayer(n, o)
		case o.Kind == network.Linear:
			fits = n.out == nil
			n.out = b.linear(o.Name, true, kernel.Identity)
		default:
			fits = o.Kind == network.CINSums || o.Kind == network.Add
		}
		if !fits && b.err == nil {
			b.err = fmt.Errorf("device: there is no kernel for the operation %v of %s: use train.device: cpu", o, c.Model.Kind)
		}
		i = end
	}
	return n
}

// layerOf returns the name of the layer of a parameter.
func layerOf(p network.Param) string { return path.Dir(p.Name) }

func (b *builder) cinLayer(n *layers, spec *network.Network, o *network.Op) {
	in := len(spec.Shape.Fields)
	if n.cin == nil {
		n.cin = &cin{CIN: kernel.CIN{Fields: in, Embed: spec.Shape.Embed(), Width: spec.Shape.Width()}, most: cinProducts}
	} else {
		in = n.cin.layers[len(n.cin.layers)-1].out
	}
	n.cin.layers = append(n.cin.layers, cinLayer{w: b.param(o.Params[0].Name), in: in, out: o.Maps})
	n.cin.Out += o.Maps
}

func (b *builder) crossLayer(n *layers, o *network.Op) {
	if n.cross == nil {
		n.cross = &cross{width: o.Cols}
		b.widest = max(b.widest, o.Cols)
	}
	var l crossLayer
	if o.Rank > 0 {
		l.narrow = b.linear(layerOf(o.Params[0]), false, kernel.Identity)
	}
	l.mix = b.linear(o.Name, false, kernel.Identity)
	l.bias = b.param(o.Name + "/bias")
	n.cross.layers = append(n.cross.layers, l)
}

// Close frees the memory on the device and closes the device.
func (d *Device) Close() error {
	freed, err := d.work.ranks.close()
	if !freed {
		return nil
	}
	all := []error{err}
	for _, s := range []*cuda.Stream{d.compute, d.copies} {
		if s != nil {
			all = append(all, s.Close())
		}
	}
	for _, e := range append(d.computed[:], d.copied) {
		if e != nil {
			all = append(all, e.Close())
		}
	}
	if d.work.Set != nil {
		all = append(all, d.work.Set.Close())
	}
	return errors.Join(append(all, d.own.close(), d.batch.close(), d.device.Close())...)
}

// refresh copies a region to the device if the arena has changed. known is its version there, of
// returns its part of a parameter.
func (d *Device) refresh(r region, known *uint64, of func(*dense.Param) []float32) error {
	if *known == d.arena.Version() {
		return nil
	}
	if err := d.compute.Wait(); err != nil { // an earlier copy may still read the pinned memory
		return err
	}
	d.each(r, of, stage)
	*known = d.arena.Version()
	return d.compute.CopyIn(r.on, r.at)
}

func (d *Device) refreshValues() error { return d.refresh(d.values, &d.upload.values, valueOf) }

// ready copies what Apply reads.
func (d *Device) ready() error {
	return errors.Join(d.refreshValues(), d.refresh(d.states, &d.upload.states, stateOf))
}

func valueOf(p *dense.Param) []float32 { return p.Value }
func stateOf(p *dense.Param) []float32 { return p.State }
func gradOf(p *dense.Param) []float32  { return p.Grad }

// Fetch implements step.Device.
func (d *Device) Fetch() error {
	if err := errors.Join(d.compute.CopyOut(d.values.at, d.values.on), d.compute.CopyOut(d.states.at, d.states.on), d.compute.Wait()); err != nil {
		return err
	}
	d.each(d.values, valueOf, fetch)
	d.each(d.states, stateOf, fetch)
	d.arena.Changed()
	d.upload = upload{d.arena.Version(), d.arena.Version()}
	return nil
}

// Gradients implements step.Device.
func (d *Device) Gradients() error {
	if d.Sums() {
		return nil
	}
	if err := d.copies.Wait(); err != nil {
		return err
	}
	d.each(d.grads, gradOf, fetch)
	return nil
}

// each calls f with the part of each parameter in the arena and in the pinned memory of a region.
func (d *Device) each(r region, of func(*dense.Param) []float32, f func(arena, staged []float32)) {
	at := r.at
	for _, p := range d.params {
		part := of(p.of)
		f(part, at)
		at = at[cuda.Room(len(part)):]
	}
}

func fetch(arena, staged []float32) { copy(arena, staged) }
func stage(arena, staged []float32) { copy(staged, arena) }

// sum makes the sum of the gradients available on the device: it copies the sum from the
// arena unless the devices have computed it.
func (d *Device) sum() error {
	if d.Sums() {
		return d.ready()
	}
	if d.summed {
		return nil
	}
	// After an empty batch, the copy of the previous step may still be reading the pinned
	// memory.
	if err := errors.Join(d.ready(), d.compute.Wait()); err != nil {
		return err
	}
	d.each(d.grads, gradOf, stage)
	d.summed = true
	return d.compute.CopyIn(d.grads.on, d.grads.at)
}

// NormSq implements step.Device.
func (d *Device) NormSq(scale float32) (float64, error) {
	d.work.do(d.sum())
	at := 0
	for _, p := range d.params {
		_, n := kernel.NormSums(p.grad.Len)
		d.work.do(d.work.SquareSums(d.compute, d.norms.on.Part(at, at+2*n), d.norms.partial, p.grad, p.value, scale, d.arena.L2(p.of)))
		at += cuda.Room(2 * n)
	}
	d.work.do(d.compute.CopyOut(d.norms.at, d.norms.on))
	d.work.do(d.compute.Wait())
	if err := d.fault(); err != nil {
		return 0, err
	}
	sum := 0.0
	at = 0
	for _, p := range d.params {
		_, n := kernel.NormSums(p.grad.Len)
		for _, x := range unsafe.Slice((*float64)(unsafe.Pointer(&d.norms.at[at])), n) {
			sum += x
		}
		at += cuda.Room(2 * n)
	}
	return sum, nil
}

// Apply implements step.Device.
func (d *Device) Apply(at optim.Step) error {
	d.work.do(d.sum())
	i := 0
	d.arena.Updates(at, func(p *dense.Param, u *optim.Update) {
		x := d.params[i]
		rule, constants := u.Constants(d.arena.L2(p))
		d.work.do(d.work.Update(d.compute, rule, constants, x.value, x.grad, x.state))
		i++
	})
	d.summed = false
	return d.fault()
}

// Copied returns the number of bytes copied to the device and from it.
func (d *Device) Copied() (in, out int64) { return d.device.Copied() }

// fault returns the first error since the last call of fault.
func (d *Device) fault() error {
	err := d.work.err
	d.work.err = nil
	if err != nil {
		err = fmt.Errorf("train.device: gpu: %v: %w", d.device, err)
	}
	return err
}
