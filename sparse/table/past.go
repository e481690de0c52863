package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/wdlrun/wdlrun/optim"
)

// Past records the steps that tables with a DenseL2 part have taken. A new row first takes
// these steps with zero gradients. Frameworks with dense gradients decay it from the first
// step on, so the row takes the same steps in total. Tables that take the same steps share
// one Past ([Table.Share]).
type Past struct {
	spans []span
	last  int64 // last step
}

// span is a sequence of consecutive steps that differ only in their numbers.
type span struct {
	first, n int64
	at       optim.Step // the first step
}

const (
	spanBytes = 8 + 8 + 8 + 4 + 4 + 8 + 4
	maxSpans  = 1 << 28
)

// Add records a step unless it is not later than the last one.
func (p *Past) Add(at optim.Step) {
	if at.N <= p.last {
		return
	}
	at = at.Default()
	if n := len(p.spans); n > 0 {
		s := &p.spans[n-1]
		next := s.at
		next.N = s.first + s.n
		if next == at {
			s.n, p.last = s.n+1, at.N
			return
		}
	}
	p.spans, p.last = append(p.spans, span{at.N, 1, at}), at.N
}

// withRate returns a recorded step to take: files store optim.ZeroRate as 0.
func withRate(at optim.Step) optim.Step {
	if at.Rate == 0 {
		at.Rate = optim.ZeroRate
	}
	return at
}

// each calls f with the recorded steps before a step.
func (p *Past) each(before int64, f func(at optim.Step)) {
	for _, s := range p.spans {
		for at := s.at; at.N < min(s.first+s.n, before); at.N++ {
			f(at)
		}
	}
}

// Save writes the steps, little-endian. For each span of equal steps: number of the
// first step (8 bytes), number of steps (8), Rate (8), Scale (4), Clip (4), Samples
// (8), Batch (4).
func (p *Past) Save(w io.Writer) error {
	le := binary.LittleEndian
	b := make([]byte, 0, len(p.spans)*spanBytes)
	for _, s := range p.spans {
		b = le.AppendUint64(b, uint64(s.first))
		b = le.AppendUint64(b, uint64(s.n))
		b = le.AppendUint64(b, math.Float64bits(s.at.Rate))
		b = le.AppendUint32(b, math.Float32bits(s.at.Scale))
		b = le.AppendUint32(b, math.Float32bits(s.at.Clip))
		b = le.AppendUint64(b, math.Float64bits(s.at.Samples))
		b = le.AppendUint32(b, s.at.Batch)
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("table: past steps: %w", err)
	}
	return nil
}

// Load replaces the recorded steps by those that Save wrote. It reads to the end of r.
func (p *Past) Load(r io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(r, maxSpans*spanBytes+1))
	if err == nil && len(b)%spanBytes != 0 {
		err = errors.New("they end inside a span, or are too many: the file is damaged")
	}
	var read Past
	le := binary.LittleEndian
	for ; err == nil && len(b) > 0; b = b[spanBytes:] {
		s := span{first: int64(le.Uint64(b)), n: int64(le.Uint64(b[8:]))}
		s.at = optim.Step{N: s.first, Rate: math.Float64frombits(le.Uint64(b[16:])), Scale: math.Float32frombits(le.Uint32(b[24:])), Clip: math.Float32frombits(le.Uint32(b[28:])),
			Samples: math.Float64frombits(le.Uint64(b[32:])), Batch: le.Uint32(b[40:])}
		if s.first <= read.last || s.n < 1 || s.n > math.MaxInt64-s.first || s.at.Validate() != nil {
			err = fmt.Errorf("%d steps from step %d on, after step %d: the file is damaged", s.n, s.first, read.last)
			break
		}
		read.spans, read.last = append(read.spans, s), s.first+s.n-1
	}
	if err != nil {
		return fmt.Errorf("table: past steps: %w", err)
	}
	*p = read
	return nil
}

// deferred describes the steps that rows without a gradient have not taken yet. A step of a DenseL2
// part changes every row. Most rows are not read before their next gradient, so a row takes the
// steps that it has missed, one after the other, when it is read. The bits are those of one step
// at a time. A row is then in the processor's cache for all of them, and a step need not
// visit every row.
type deferred struct {
	off   bool  // rows take each step when it is made
	begun bool  // Apply was called since Open, Reset or the load
	taken int64 // last step that a row must have taken before it is read
	base  int64 // every row has taken the steps up to this one
	all   int64 // every row has taken the steps up to taken if it equals taken
}
