package main

import (
	"fmt"
	"io"
	"math"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
)

// The tables, and the parts of their rows.
const (
	users = iota
	items
	tables

	factors = 0
	bias    = 1
)

// model is one rank's side of the factorisation.
type model struct {
	comm  *collective.Comm
	store *sparse.Store
	o     options
	mu    float32
	steps int64

	current, next batch
}

// batch is this rank's share of a step: by table its rows, and their gradients.
type batch struct {
	lookup     *sparse.Lookup
	ratings    []rating
	bags       []sparse.Bags
	rows, grad [tables]values
}

// values are B×K factors and B biases.
type values struct{ factors, bias []float32 }

func newModel(comm *collective.Comm, o options, mu float32) (*model, error) {
	part := func(name string, dim int) sparse.Part {
		return sparse.Part{
			Name: name, Dim: dim, L2: o.l2, Rule: optim.Rule{Kind: "adagrad", LearningRate: o.rate},
			Init: sparse.Init{Kind: "normal", Scale: 0.1},
		}
	}
	parts := []sparse.Part{factors: part("factors", o.dim), bias: part("bias", 1)}
	cfg := sparse.Config{Seed: 1, Tables: []sparse.Table{users: {Name: "user", Parts: parts}, items: {Name: "item", Parts: parts}}}
	store, err := sparse.Open(comm, cfg)
	if err != nil {
		return nil, err
	}
	if comm.Size() > 1 {
		if err := store.Pipeline().Start(comm.Channel(1)); err != nil {
			return nil, err
		}
	}
	m := &model{comm: comm, store: store, o: o, mu: mu}
	m.current.lookup, m.next.lookup = store.NewLookup(), store.NewLookup()
	return m, nil
}

// pass reads the ratings once, training or not, and returns the RMSE of the
// predictions over all ranks. While a step is computed, the keys of the next one
// are on their way.
func (m *model) pass(all []rating, train bool) (float64, error) {
	var squares float64
	steps := (len(all) + m.o.batch - 1) / m.o.batch
	if err := m.prepare(&m.next, all, 0, train); err != nil {
		return 0, err
	}
	for i := range steps {
		m.current, m.next = m.next, m.current
		if err := m.store.Pipeline().Complete(m.current.lookup); err != nil {
			return 0, err
		}
		if i+1 < steps {
			if err := m.prepare(&m.next, all, i+1, train); err != nil {
				return 0, err
			}
		}
		squares += m.forward(&m.current)
		if !train {
			continue
		}
		if err := m.backward(&m.current); err != nil {
			return 0, err
		}
	}
	return rmse(m.comm, squares, m.share(len(all)))
}

// share is how many of n ratings are this rank's: those at its number modulo P.
func (m *model) share(n int) int {
	return (n - m.comm.Rank() + m.comm.Size() - 1) / m.comm.Size()
}

// prepare begins to bring the rows of this rank's share of batch i.
func (m *model) prepare(b *batch, all []rating, i int, train bool) error {
	b.ratings = b.ratings[:0]
	lo, hi := i*m.o.batch, min((i+1)*m.o.batch, len(all))
	for k := lo; k < hi; k++ {
		if k%m.comm.Size() == m.comm.Rank() {
			b.ratings = append(b.ratings, all[k])
		}
	}
	if b.bags == nil {
		b.bags = make([]sparse.Bags, tables)
	}
	for t := range b.bags {
		x := &b.bags[t]
		x.Table, x.Values, x.Offsets = t, x.Values[:0], append(x.Offsets[:0], 0)
		for _, r := range b.ratings {
			x.Values = append(x.Values, [tables]uint64{users: r.user, items: r.item}[t])
			x.Offsets = append(x.Offsets, int32(len(x.Values)))
		}
	}
	return m.store.Pipeline().Prepare(b.lookup, b.bags, train)
}

// forward predicts the ratings and returns the sum of squared errors; b.grad
// gets its gradient, halved.
func (m *model) forward(b *batch) (squares float64) {
	n, k := len(b.ratings), m.o.dim
	for t := range tables {
		x, g := &b.rows[t], &b.grad[t]
		x.resize(n, k)
		g.resize(n, k)
		b.lookup.Pool(t, factors, x.factors, k, false)
		b.lookup.Pool(t, bias, x.bias, 1, false)
	}
	u, v := &b.rows[users], &b.rows[items]
	for i, r := range b.ratings {
		p, q := u.factors[i*k:(i+1)*k], v.factors[i*k:(i+1)*k]
		guess := m.mu + u.bias[i] + v.bias[i]
		for d := range p {
			guess += float32(p[d] * q[d])
		}
		e := guess - r.stars
		squares += float64(float64(e) * float64(e))
		for d := range p {
			b.grad[users].factors[i*k+d], b.grad[items].factors[i*k+d] = e*q[d], e*p[d]
		}
		b.grad[users].bias[i], b.grad[items].bias[i] = e, e
	}
	return squares
}

// backward sends the gradients to the owners of the rows and takes a step with
// their sum over the ratings of the batch, of all ranks.
func (m *model) backward(b *batch) error {
	for t := range tables {
		b.lookup.PoolGrad(t, factors, b.grad[t].factors, m.o.dim)
		b.lookup.PoolGrad(t, bias, b.grad[t].bias, 1)
	}
	if err := m.store.Push(b.lookup); err != nil {
		return err
	}
	m.steps++
	return m.store.Apply(sparse.Step{N: m.steps})
}

func (v *values) resize(n, k int) {
	if cap(v.bias) < n {
		v.factors, v.bias = make([]float32, n*k), make([]float32, n)
	}
	v.factors, v.bias = v.factors[:n*k], v.bias[:n]
}

// report adds up what the ranks hold and have sent.
func (m *model) report(out io.Writer) error {
	c := m.store.Counters()
	x := []int64{c.RowsHeld, c.BytesSent(), c.KeysPulled, c.RemoteUniqueKeys}
	if err := collective.AllReduce(m.comm, x, collective.Sum); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d rows; %d bytes on the wire: of %d keys looked up, %d were of another rank and distinct in their batch\n", x[0], x[1], x[2], x[3])
	return nil
}

type options struct {
	ratings       string
	dim           int
	epochs, batch int
	rate, l2      float64
}

// rmse is the root of the mean of squares over all ranks.
func rmse(comm *collective.Comm, squares float64, n int) (float64, error) {
	x := []float64{squares, float64(n)}
	if err := collective.AllReduce(comm, x, collective.Sum); err != nil {
		return 0, err
	}
	return math.Sqrt(x[0] / math.Max(x[1], 1)), nil
}
