package dense

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/optim"
)

// Init is the distribution of a parameter's initial values: uniform in [Low, High), or Low
// if the two are equal. The zero value is zeros.
type Init struct{ Low, High float32 }

// Param is one trained matrix or vector. Its slices are views of the arena and nil until
// Build.
type Param struct {
	Name       string // "deep/linear0/weight": unique in the arena
	Rows, Cols int    // a vector has one row
	Init       Init
	Decay      bool      // L2 applies: weights, not biases
	Uses       int       // multiplications by it per sample; 0 means 1
	Value      []float32 // Rows·Cols, row-major
	Grad       []float32 // Rows·Cols: the sum over the batch
	State      []float32 // state of the group's rule; empty without groups

	group int
	at    int // offset of Grad in the gradients of the arena
}

// Group sets the update rule and L2 strength of the parameters whose names begin with
// Prefix. The longest matching prefix applies; the empty one matches all. For a rule with
// state per row (rowwise_adagrad), each parameter is one row.
type Group struct {
	Prefix string
	Rule   optim.Rule
	L2     float64 // adds L2·w to the gradient of the mean loss, ½·L2·‖w‖² to the loss
}

// Config is the configuration of Build. The zero value makes an arena for evaluation only:
// without groups there is no optimizer state and no Apply.
type Config struct {
	Seed   uint64
	Groups []Group
	// Tail is the number of floats reserved after the gradients for the caller's own sums
	// (samples, loss, flags), which are part of the same allreduce. A float32 counts
	// exactly up to 2²⁴.
	Tail int
	// Memory allocates the buffer of gradients and tail, n zeroed floats. Nil means make.
	// Another function may return memory that other ranks can see.
	Memory func(n int) []float32
}

// maxFloats bounds a model, so that a wrong configuration (a width of 10⁹) is reported
// instead of exhausting memory. 2³⁰ floats are 4 GiB of values.
const maxFloats = 1 << 30

// Arena holds the parameters of a model: one flat array of values, one of gradients, one of
// optimizer state. Add declares parameters and Build allocates them. The zero value is
// ready for Add.
type Arena struct {
	params  []*Param
	buffers []*buffer
	groups  []Group
	updates []optim.Update // one per group, for the current step
	seed    uint64
	built   bool
	of      *Arena // for an image: the arena that holds the values; else nil
	version uint64 // counts the changes of values
	final   func(from int)
	prefix  string      // prefix of the names declared from here on
	scratch f32.Scratch // buffers of the layers' products
	linears []*Linear   // in the order of declaration

	values  []float32 // of every parameter, then of every buffer
	grads   []float32 // of every parameter, then the tail
	state   []float32
	trained int // number of parameters in values and grads
}

// buffer is an array that is saved with the parameters but not trained: running statistics.
type buffer struct {
	name  string
	start float32
	value []float32
	size  int
}

// Add declares a parameter from p's Name, Rows, Cols, Init and Decay. It panics after
// Build. Build checks the names.
func (a *Arena) Add(p Param) *Param {
	if a.built {
		panic("dense: Arena.Add: " + p.Name + " comes after Build")
	}
	p.Name = a.prefix + p.Name
	p.Value, p.Grad, p.State = nil, nil, nil
	a.params = append(a.params, &p)
	return &p
}

// SetPrefix sets a prefix for all names declared from here on, so that two networks with
// the same layers have different names.
func (a *Arena) SetPrefix(prefix string) { a.prefix = prefix }

func (a *Arena) addBuffer(name string, n int, start float32) *buffer {
	b := &buffer{name: a.prefix + name, start: start, size: n}
	a.buffers = append(a.buffers, b)
	return b
}

// Size holds the numbers of floats that Build allocates.
type Size struct {
	Parameters int
	Values     int // parameters, and running statistics
	Gradients  int // gradients of the parameters, and the tail
	State      int // optimizer state
}

// Size returns the sizes that Build will allocate, or all errors in the declaration. It
// does not allocate them.
func (a *Arena) Size(c Config) (s Size, err error) {
	if s.State, err = a.plan(c); err != nil {
		return Size{}, err
	}
	s.Parameters, s.Values, s.Gradients = a.trained, a.trained, a.trained+c.Tail
	for _, b := range a.buffers {
		s.Values += b.size
	}
	return s, nil
}

// Build allocates the arena and sets every parameter to its initial value. It returns all
// errors in the declaration together. It must be called once.
func (a *Arena) Build(c Config) error {
	if a.built {
		panic("dense: Arena.Build: called twice")
	}
	size, err := a.Size(c)
	if err != nil {
		return err
	}
	a.built, a.seed, a.groups, a.updates = true, c.Seed, slices.Clone(c.Groups), make([]optim.Update, len(c.Groups))
	for i := range a.groups {
		a.groups[i].Rule = a.groups[i].Rule.Default()
	}
	memory := c.Memory
	if memory == nil {
		memory = func(n int) []float32 { return make([]float32, n) }
	}
	a.values, a.grads, a.state = make([]float32, size.Values), memory(size.Gradients), make([]float32, size.State)
	if len(a.grads) != size.Gradients {
		panic(fmt.Sprintf("dense: Arena.Build: Memory made %d floats of the %d asked for", len(a.grads), size.Gradients))
	}
	at, stateAt := 0, 0
	for _, p := range a.params {
		n := p.Rows * p.Cols
		p.Value, p.Grad, p.at = a.values[at:at+n:at+n], a.grads[at:at+n:at+n], at
		at += n
		if len(c.Groups) > 0 {
			s := c.Groups[p.group].Rule.StateLen(n)
			p.State = a.state[stateAt : stateAt+s : stateAt+s]
			stateAt += s
		}
	}
	for _, b := range a.buffers {
		b.value = a.values[at : at+b.size : at+b.size]
		at += b.size
	}
	a.reset()
	return nil
}

// Attach makes a an image of b, for a goroutine that works concurrently with others on the
// same model. It replaces Build. The parameters and statistics declared on a must be those
// of b, in the same order. They share b's values and have separate gradients. An image has
// no tail, no optimizer state and no Apply: the caller adds its Grads to b's before
// b.Apply. No goroutine may use the image while b's values change. Attach panics if b is
// not built or has other declarations.
func (a *Arena) Attach(b *Arena) {
	a.attach(b, "Attach", make([]float32, b.trained))
}

// View is Attach for evaluation only: a has no gradients, and Backward panics.
func (a *Arena) View(b *Arena) { a.attach(b, "View", nil) }

func (a *Arena) attach(b *Arena, call string, grads []float32) {
	if a.built || !b.built || b.of != nil || len(a.params) != len(b.params) || len(a.buffers) != len(b.buffers) {
		panic("dense: Arena." + call + ": not the declarations of a built arena")
	}
	a.built, a.of, a.seed, a.trained = true, b, b.seed, b.trained
	a.values, a.grads = b.values, grads
	at := 0
	for i, p := range a.params {
		q := b.params[i]
		if p.Name != q.Name || p.Rows != q.Rows || p.Cols != q.Cols {
			panic(fmt.Sprintf("dense: Arena.%s: %s %d×%d is declared where the other arena has %s %d×%d", call, p.Name, p.Rows, p.Cols, q.Name, q.Rows, q.Cols))
		}
		n := p.Rows * p.Cols
		p.Value, p.at = q.Value, at
		if grads != nil {
			p.Grad = grads[at : at+n : at+n]
		}
		at += n
	}
	for i, s := range a.buffers {
		s.value = b.buffers[i].value
	}
}

// Changed informs the layers that Values have changed, so that they pack their weights
// again. Build, Apply and Load call it.
func (a *Arena) Changed() { a.version++ }

// Version returns the number of calls of Changed, for an image the calls of its arena. A copy
// of the values is current as long as Version is the same.
func (a *Arena) Version() uint64 {
	if a.of != nil {
		return a.of.version
	}
	return a.version
}

// plan checks the declaration, assigns each parameter its group and counts floats.
func (a *Arena) plan(c Config) (stateLen int, err error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("dense: build: "+format, args...))
	}
	if c.Tail < 0 || c.Tail > maxFloats {
		fault("a tail of %d floats", c.Tail)
	}
	for _, g := range c.Groups {
		for _, f := range g.Rule.Validate() {
			fault("group %q: %w", g.Prefix, f)
		}
		if !(g.L2 >= 0 && g.L2 < 1e30) {
			fault("group %q: L2 %v is not a finite number of at least 0", g.Prefix, g.L2)
		}
	}
	total, seen := 0, map[string]bool{}
	declare := func(name string, rows, cols int) bool {
		if seen[name] || name == "" || len(name) > maxName {
			fault("name %q is empty, used twice or over %d bytes long", name, maxName)
		}
		seen[name] = true
		if rows < 0 || cols < 0 || cols > 0 && rows > (maxFloats-total)/cols {
			fault("%s of %d×%d makes the model larger than %d floats: use narrower layers", name, rows, cols, maxFloats)
			return false
		}
		total += rows * cols
		return true
	}
	for _, p := range a.params {
		if !declare(p.Name, p.Rows, p.Cols) || len(c.Groups) == 0 {
			continue
		}
		if p.group = groupOf(c.Groups, p.Name); p.group < 0 {
			fault("no group's prefix matches parameter %s: add one with an empty prefix", p.Name)
		} else if len(faults) == 0 {
			stateLen += c.Groups[p.group].Rule.StateLen(p.Rows * p.Cols)
		}
	}
	a.trained = total
	for _, b := range a.buffers {
		declare(b.name, 1, b.size)
	}
	return stateLen, errors.Join(faults...)
}

// groupOf returns the group with the longest prefix of name, or -1.
func groupOf(groups []Group, name string) int {
	best := -1
	for i, g := range groups {
		if strings.HasPrefix(name, g.Prefix) && (best < 0 || len(g.Prefix) > len(groups[best].Prefix)) {
			best = i
		}
	}
	return best
}

// reset sets values, running statistics and optimizer state to their initial values, and
// gradients and tail to zero.
func (a *Arena) reset() {
	for _, p := range a.params {
		s, width := stream(a.seed, p.Name), p.Init.High-p.Init.Low
		for i := range p.Value {
			// The conversion forbids a fused multiply-add, so that every machine computes
			// the same bits.
			p.Value[i] = p.Init.Low + float32(width*unit(f32.Mix(s+uint64(i+1)*f32.Golden)))
		}
		if len(a.groups) > 0 {
			a.groups[p.group].Rule.InitState(p.Value, p.State)
		}
	}
	for _, b := range a.buffers {
		for i := range b.value {
			b.value[i] = b.start
		}
	}
	a.Changed()
	a.ZeroGrad()
}

// Final sets f to be called while an MLP runs Backward. The gradients from index from on
// will not change any more in this pass. Layers run backward in the opposite order of their
// declaration, so Grads becomes final from its end. The MLP must be declared last.
func (a *Arena) Final(f func(from int)) { a.final = f }

// finish reports that the gradients of p from a row on, and of everything declared after p,
// are final.
func (a *Arena) finish(p *Param, row int) {
	if a.final != nil {
		a.final(p.at + row*p.Cols)
	}
}

// Params returns the parameters in the order of their declaration.
func (a *Arena) Params() []*Param { return a.params }

// Param returns the parameter with that name, or nil.
func (a *Arena) Param(name string) *Param {
	for _, p := range a.params {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Values returns the whole model: every parameter, then the running statistics. A copy of
// it is a snapshot. To restore the model, copy it back and call Changed.
func (a *Arena) Values() []float32 { return a.values }

// Statistic is one array of running statistics, which is saved with the parameters.
type Statistic struct {
	Name  string
	Value []float32
}

// Statistics returns the running statistics in the order of their declaration. Their values
// are views of the arena.
func (a *Arena) Statistics() (all []Statistic) {
	for _, b := range a.buffers {
		all = append(all, Statistic{b.name, b.value})
	}
	return all
}

// Grads returns the gradients of every parameter, followed by the tail. Ranks sum it in one
// allreduce.
func (a *Arena) Grads() []float32 { return a.grads }

// Tail returns the caller's own floats at the end of Grads.
func (a *Arena) Tail() []float32 { return a.grads[a.trained:] }

// ZeroGrad clears gradients and tail.
func (a *Arena) ZeroGrad() { clear(a.grads) }

// GradNormSq returns the squared norm of the gradient that Apply would use with
// this scale and no clip: scale·gradient + L2·value.
func (a *Arena) GradNormSq(scale float32) float64 {
	var sum float64
	for _, p := range a.params {
		l2 := a.L2(p)
		if l2 == 0 {
			sum += float64(float64(scale) * float64(scale) * f32.SumSquares(p.Grad))
			continue
		}
		for i, g := range p.Grad {
			v := float64(float32(scale*g) + float32(l2*p.Value[i]))
			sum += float64(v * v)
		}
	}
	return sum
}

// Apply takes one optimizer step for every parameter. It panics if the arena was built
// without groups or if the step has no number.
func (a *Arena) Apply(at optim.Step) {
	if len(a.groups) == 0 {
		panic("dense: Arena.Apply: the arena was built without groups, for evaluation")
	}
	if at.N < 1 {
		panic(fmt.Sprintf("dense: Arena.Apply: step %d: steps count from 1", at.N))
	}
	a.Changed()
	a.Updates(at, func(p *Param, u *optim.Update) { u.Apply(a.L2(p), p.Value, p.Grad, p.State) })
}

// Updates calls f for each parameter with the rule of the step that Apply would take. It
// takes no step: it is for parameters that are trained elsewhere.
func (a *Arena) Updates(at optim.Step, f func(p *Param, u *optim.Update)) {
	for i := range a.groups {
		a.updates[i] = a.groups[i].Rule.At(at)
	}
	for _, p := range a.params {
		f(p, &a.updates[p.group])
	}
}

// L2 returns the strength of L2 on p.
func (a *Arena) L2(p *Param) float32 {
	if !p.Decay || len(a.groups) == 0 {
		return 0
	}
	return float32(a.groups[p.group].L2)
}

// NonFinite returns the first parameter with a NaN or an infinity, and its index, or nil.
func (a *Arena) NonFinite() (*Param, int) {
	for _, p := range a.params {
		if i := f32.FirstNonFinite(p.Value); i >= 0 {
			return p, i
		}
	}
	return nil, -1
}
