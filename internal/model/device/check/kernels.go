//go:build gpu

package check

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

const (
	// areas are the buffers of a comparison, of areaFloats each. The last one contains no
	// negative numbers, as the state of optimizers.
	areas, areaFloats = 8, 1 << 14
	// rows and cols are the shape of most arguments: several blocks of threads, and an odd
	// number of partial sums.
	rows, cols = 150, 37
)

// use launches kernels on buffers. Their contents before and after are compared.
type use struct {
	name string
	fill func(x []float32) // if not nil: replaces the first buffer's contents before
	run  func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error
}

// uses launch every kernel.
func uses() (all []use) {
	const n = rows * cols
	matrix := func(b cuda.Buffer) cuda.Buffer { return b.Part(0, n) }
	row := func(b cuda.Buffer) cuda.Buffer { return b.Part(0, cols) }
	column := func(b cuda.Buffer) cuda.Buffer { return b.Part(0, rows) }
	add := func(name string, run func(*kernel.Set, *cuda.Stream, []cuda.Buffer) error) {
		all = append(all, use{name: name, run: run})
	}
	for act := kernel.Identity; act <= kernel.Sigmoid; act++ {
		add(fmt.Sprint("activation ", act), func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
			return errors.Join(s.BiasAct(on, matrix(b[0]), row(b[1]), cols, act), s.ActGrad(on, matrix(b[2]), matrix(b[0]), act))
		})
	}
	add("dropout", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		return s.Dropout(on, matrix(b[0]), matrix(b[1]), b[2].Part(0, 2*rows), cols, kernel.Mask{Batch: 7, Keep: 3 << 30, Scale: 4. / 3})
	})
	add("sums of columns", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		return s.ColumnSums(on, row(b[0]), matrix(b[1]), b[2], rows, cols)
	})
	add("sum", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		return s.Add(on, matrix(b[0]), matrix(b[1]))
	})
	add("batch normalisation", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		part := func(i int) cuda.Buffer { return b[3].Part(i*cols, (i+1)*cols) }
		n := kernel.Norm{Rows: rows, Cols: cols, Mean: part(0), InvStd: part(1), MeanDy: part(2), MeanDyX: part(3), Scale: part(4), Shift: part(5), Partial: b[4]}
		return errors.Join(n.Sums(s, on, part(6), matrix(b[0])), n.Squares(s, on, part(7), matrix(b[0])), n.Products(s, on, part(8), matrix(b[1]), matrix(b[0])),
			n.Forward(s, on, matrix(b[2]), matrix(b[0])), n.Backward(s, on, matrix(b[1]), matrix(b[0])))
	})
	for kind := kernel.LogLoss; kind <= kernel.PoissonLoss; kind++ {
		add(fmt.Sprint("loss ", kind), func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
			return s.Loss(on, kernel.Losses{Logit: column(b[0]), Net: column(b[1]), Bias: b[2].Part(0, 1), Label: column(b[3]), Weight: column(b[4]),
				DLogit: column(b[5]), Loss: column(b[6]), Share: .7, Kind: kind})
		})
	}
	add("cross network", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		return errors.Join(s.CrossForward(on, matrix(b[0]), matrix(b[1]), row(b[2]), matrix(b[3]), matrix(b[4])),
			s.CrossBackward(on, matrix(b[5]), matrix(b[6]), matrix(b[0]), matrix(b[3]), matrix(b[1]), false))
	})
	add("factorization machine", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		f := kernel.FM{Rows: rows, Fields: 5, Embed: 6, Width: cols}
		return errors.Join(f.Forward(s, on, column(b[0]), b[1], b[2], matrix(b[3])), f.Backward(s, on, matrix(b[4]), column(b[0]), matrix(b[3]), b[1]))
	})
	add("interaction network", interactions)
	for _, u := range []f32.Update{
		{Rule: f32.SGD, Rate: .3},
		{Rule: f32.Adagrad, Rate: .05, Epsilon: 1e-10},
		{Rule: f32.Adam, Rate: .001, Beta1: .9, Beta2: .999, Unbias1: 1 / .19, Unbias2: 1 / .001999, Epsilon: 1e-8, Keep: .99999},
		{Rule: f32.FTRL, Rate: .1, Beta: 1, L1: .5, L2: .25},
	} {
		constants := u.Constants(f32.Gradient{Scale: 1. / 3, Decay: .01, Clip: .9})
		add(fmt.Sprint("update rule ", u.Rule), func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
			return s.Update(on, u.Rule, constants, matrix(b[0]), matrix(b[1]), b[areas-1])
		})
	}
	add("sums of squares", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		return s.SquareSums(on, b[0], b[3], matrix(b[1]), matrix(b[2]), .5, .25)
	})
	return append(all, use{"pooling", fillBags, bags})
}

// interactions launches the kernels of the compressed interaction network.
func interactions(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
	const fields, embed, maps, out = 5, 6, 3, 4
	c := kernel.CIN{Rows: rows, Fields: fields, Embed: embed, Width: cols, Out: out}
	return errors.Join(
		c.Transpose(s, on, b[0], b[1]),
		c.Products(s, on, b[2], b[3], b[0], rows*embed, maps),
		c.Sums(s, on, b[4], b[3], maps, 1),
		c.Spread(s, on, b[3], b[4], maps, 1, true),
		c.MapsGrad(s, on, b[5], b[2], b[0], rows*embed, maps, true),
		c.FieldsGrad(s, on, b[6], b[2], b[3], rows*embed, maps, false),
		c.AddTransposed(s, on, b[1], b[6]),
	)
}

// kernels compares the bits that each kernel leaves in memory with its twin's.
func kernels(d *cuda.Device) (is measured, err error) {
	set, err := kernel.Load(d)
	if err != nil {
		return is, err
	}
	m, err := newRoom(d, areas*areaFloats)
	if err != nil {
		return is, err
	}
	own := make([]float32, len(m.host))
	twins := kernel.Twins(m.device.At, own)
	all := uses()
	for _, u := range all {
		fill(m.host)
		if u.fill != nil {
			u.fill(m.host[:areaFloats])
		}
		copy(own, m.host)
		var b []cuda.Buffer
		for i := range areas {
			b = append(b, m.device.Part(i*areaFloats, (i+1)*areaFloats))
		}
		if err := errors.Join(m.stream.CopyIn(m.device, m.host), u.run(set, m.stream, b), m.stream.CopyOut(m.host, m.device), m.stream.Wait()); err != nil {
			return is, fmt.Errorf("%s: %w", u.name, err)
		}
		if err := u.run(twins, nil, b); err != nil {
			return is, err
		}
		if err := sameBits(m.host, own); err != nil {
			return is, fmt.Errorf("%s: %w", u.name, err)
		}
	}
	if unused := twins.Unused(); len(unused) > 0 {
		return is, fmt.Errorf("not compared: %s", strings.Join(unused, ", "))
	}
	is.text = "all kernels give the same bits as their CPU versions"
	return is, errors.Join(m.close(), set.Close())
}

// fill sets x to the same random numbers each time.
func fill(x []float32) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
		if i >= (areas-1)*areaFloats {
			x[i] = max(x[i], -x[i])
		}
	}
}

// sameBits compares the memory of a device with the twins'.
func sameBits(got, want []float32) error {
	first, n := -1, 0
	for i, x := range got {
		if math.Float32bits(x) != math.Float32bits(want[i]) {
			if n++; first < 0 {
				first = i
			}
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d values differ from the CPU's: value %d of buffer %d is %v, want %v", n, first%areaFloats, first/areaFloats, got[first], want[first])
}
