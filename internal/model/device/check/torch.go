//go:build gpu

package check

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/model/device"
	"github.com/wdlrun/wdlrun/internal/model/device/parity"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/trace"
)

//go:embed step.py
var torchScript string

const (
	// torchLimit bounds a run of Python. PyTorch compiles the model in it.
	torchLimit = 2 * time.Minute
	// timedRows is the batch of the steps that are measured, or less if the device has less
	// free memory than bytesPerRow of it: activations here and in PyTorch take about a third.
	timedRows, bytesPerRow = 16384, 64 << 10
	timedSteps             = 10
	// maxHead bounds the first line of an answer, maxComplaint what is kept of an error.
	maxHead, maxComplaint = 4 << 10, 200
)

// subject is a step of a perceptron, on one device.
type subject struct {
	trainer *step.Trainer
	device  *device.Device
	room    *step.DeviceBatch
	layout  layout.Layout
	arena   *dense.Arena
	request torchRequest
	rule    optim.Step
}

type torchRequest struct {
	Device      string   `json:"device"`
	Rows        int      `json:"rows"`
	Layers      [][2]int `json:"layers"` // inputs and outputs
	Activation  string   `json:"activation"`
	Rate        float64  `json:"rate"`
	Epsilon     float64  `json:"epsilon"`
	Accumulator float64  `json:"accumulator"`
	Times       int      `json:"times"` // steps to measure; 0: take one and return its results
}

type torchAnswer struct {
	Skip     string  `json:"skip"` // why there is no result
	Torch    string  `json:"torch"`
	Compiled bool    `json:"compiled"`
	Loss     float64 `json:"loss"` // sum over the batch
	Seconds  float64 `json:"seconds"`
}

// newSubject opens a device for a model, with a random batch in its pinned memory.
func newSubject(library *cuda.Library, ordinal, rows int, change func(*config.Config)) (s *subject, err error) {
	off, small := false, 1e-6
	q := torchRequest{Device: fmt.Sprint("cuda:", ordinal), Rows: rows, Rate: .05, Epsilon: 1e-10, Accumulator: small}
	c, l := parity.Model(func(c *config.Config) {
		c.Model.Wide = &off
		c.Train.Optimizer.Dense = optim.Rule{Kind: "adagrad", LearningRate: q.Rate, Epsilon: q.Epsilon, Accumulator: &small}
		change(c)
	})
	q.Activation = c.Model.Activation
	s = &subject{layout: l, rule: optim.Step{N: 1, Scale: 1 / float32(rows)}.Default()}
	if s.trainer, err = step.NewTrainer(collective.New(mem.New(1, 2)[0]), trace.New(0), c, l, step.Tables{}); err != nil {
		return nil, err
	}
	err = s.trainer.ComputeOn(false, func(a *dense.Arena) (step.Device, error) {
		on, err := library.Device(ordinal)
		if err != nil {
			return nil, err
		}
		s.arena = a
		s.device, err = device.Open(on, a, c, l)
		return s.device, err
	})
	if err == nil {
		s.room, err = s.device.Begin(step.LikelySize(l, rows))
	}
	if err != nil {
		return nil, errors.Join(err, s.trainer.Close())
	}
	for _, p := range s.arena.Params() {
		if strings.HasSuffix(p.Name, "/weight") {
			q.Layers = append(q.Layers, [2]int{p.Rows, p.Cols})
		}
	}
	s.request = q
	s.fillRows()
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range rows {
		s.room.Label[i], s.room.Row[i] = float32(rng.IntN(2)), uint64(i)
	}
	return s, nil
}

// fillRows stores random rows, of which each sample has its own.
func (s *subject) fillRows() {
	fill(s.room.Rows)
	fill(s.room.Dense)
	x, at, n := &s.room.Index, uint32(0), uint32(0)
	for f, of := range s.layout.Features {
		width := uint32(s.layout.Tables[of.Table].Parts[of.DeepPart].Dim)
		x.Features[f] = step.DeviceFeature{First: n, Offsets: step.None, Factors: step.None, Deep: uint32(of.DeepCol), Wide: step.None}
		x.Tables[of.Table] = step.DeviceTable{Row: n, Width: width, Deep: width}
		for range s.request.Rows {
			x.Place[n], x.Start[n], x.Order[n] = at, n, n
			at, n = at+width, n+1
		}
	}
	x.Start[n] = n
}

// each calls f with the place in rows, the column of the input and the width of each row of
// sample i.
func (s *subject) each(i int, f func(at, col, width int)) {
	at := 0
	for _, of := range s.layout.Features {
		width := s.layout.Tables[of.Table].Parts[of.DeepPart].Dim
		f(at+i*width, of.DeepCol, width)
		at += s.request.Rows * width
	}
}

// input returns the input of the networks.
func (s *subject) input() []float32 {
	width, inputs := s.layout.Width, len(s.layout.Dense)
	x := make([]float32, s.request.Rows*width)
	for i := range s.request.Rows {
		row := x[i*width : (i+1)*width]
		s.each(i, func(at, col, n int) { copy(row[col:], s.room.Rows[at:at+n]) })
		copy(row[width-inputs:], s.room.Dense[i*inputs:])
	}
	return x
}

// take takes a step. The batch in pinned memory stays, but logits are replaced by its own.
func (s *subject) take() (loss float64, err error) {
	for i := range s.room.Logit {
		s.room.Logit[i] = float32(i%7) / 7
	}
	if loss, err = s.device.Compute(1); err != nil {
		return 0, err
	}
	return loss, errors.Join(s.device.Gradients(), s.device.Apply(s.rule))
}

// numbers returns the batch and the parameters, as the script reads them.
func (s *subject) numbers() (all [][]float32) {
	logit := make([]float32, s.request.Rows)
	for i := range logit {
		logit[i] = float32(i%7) / 7
	}
	all = append(all, s.input(), logit, slices.Clone(s.room.Label))
	for _, p := range s.arena.Params() {
		all = append(all, slices.Clone(p.Value))
	}
	return all
}

// seconds measures a step.
func (s *subject) seconds() (float64, error) {
	took := func(n int) (float64, error) {
		began := time.Now()
		for range n {
			if _, err := s.take(); err != nil {
				return 0, err
			}
		}
		err := s.device.Fetch() // waits
		return time.Since(began).Seconds() / float64(n), err
	}
	if _, err := took(1); err != nil {
		return 0, err
	}
	return took(timedSteps)
}

// runTorch runs the script on a subject. results are the floats that it returns.
func runTorch(q torchRequest, numbers [][]float32, results int) (a torchAnswer, x []float32, err error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return a, nil, skip("there is no python3 in PATH")
	}
	in, err := json.Marshal(q)
	if err != nil {
		return a, nil, err
	}
	in = append(in, '\n')
	for _, n := range numbers {
		in = append(in, raw.Bytes(n)...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), torchLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-c", torchScript)
	var complaint lastLine
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(in), &complaint, time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return a, nil, skip(err.Error())
	}
	r := bufio.NewReader(io.LimitReader(out, int64(maxHead+4*results)))
	head, failed := r.ReadBytes('\n')
	if failed == nil {
		failed = json.Unmarshal(head, &a)
	}
	if x = make([]float32, results); failed == nil && a.Skip == "" {
		_, failed = io.ReadFull(r, raw.Bytes(x))
	}
	io.Copy(io.Discard, io.LimitReader(out, maxHead))
	out.Close()
	err = cmd.Wait()
	switch {
	case failed == nil && err == nil && a.Skip == "":
		return a, x, nil
	case failed == nil && err == nil:
		return a, nil, skip(a.Skip)
	case err == nil:
		err = failed
	}
	if len(complaint) > 0 {
		err = fmt.Errorf("%w: %s", err, complaint)
	}
	return a, nil, skip(fmt.Sprintf("python3: %v", err))
}

// lastLine is the end of the last line that was written.
type lastLine []byte

func (l *lastLine) Write(p []byte) (int, error) {
	if text := bytes.TrimRight(p, "\n"); len(text) > 0 {
		if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
			*l, text = nil, text[i+1:]
		}
		*l = append(*l, text...)
		*l = (*l)[max(0, len(*l)-maxComplaint):]
	}
	return len(p), nil
}

// torch compares the results and the time of a step with PyTorch's.
func torch(library *cuda.Library, ordinal int) (is measured, err error) {
	worst, err := torchResults(library, ordinal)
	if err != nil {
		return is, err
	}
	d, err := library.Device(ordinal)
	if err != nil {
		return is, err
	}
	free, _, err := d.Memory()
	if err = errors.Join(err, d.Close()); err != nil {
		return is, err
	}
	rows := int(max(1, min(timedRows, free/bytesPerRow)))
	s, err := newSubject(library, ordinal, rows, func(c *config.Config) {
		c.Model.EmbeddingDim, c.Model.Hidden, c.Model.Activation = 200, []int{256, 256, 256}, "relu"
	})
	if err != nil {
		return is, err
	}
	q, numbers := s.request, s.numbers()
	own, err := s.seconds()
	if err = errors.Join(err, s.trainer.Close()); err != nil {
		return is, err
	}
	q.Times = timedSteps
	a, _, err := runTorch(q, numbers, 0)
	if err != nil {
		return is, err
	}
	how := "not compiled"
	if a.Compiled {
		how = "compiled"
	}
	is.text = fmt.Sprintf("a step of %d samples takes %.2f ms, and %.2f ms in PyTorch %s (%s); results differ by at most %.1e", rows, own*1e3, a.Seconds*1e3, a.Torch, how, worst)
	is.values = map[string]float64{"rows": float64(rows), "step_seconds": own, "torch_step_seconds": a.Seconds, "relative_difference": worst}
	return is, nil
}

// torchResults returns the greatest difference of loss, gradients and parameters after one
// step, and an error if it is too great.
func torchResults(library *cuda.Library, ordinal int) (worst float64, err error) {
	s, err := newSubject(library, ordinal, 70, func(c *config.Config) { c.Model.Activation = "tanh" })
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.trainer.Close()) }()
	numbers := s.numbers()
	results := len(numbers[0])
	for _, x := range numbers[3:] {
		results += len(x)
	}
	a, want, err := runTorch(s.request, numbers, results)
	if err != nil {
		return 0, err
	}
	loss, err := s.take()
	if err = errors.Join(err, s.device.Fetch()); err != nil {
		return 0, err
	}
	var d parity.Difference
	d.Consider(loss/70, a.Loss/70, func() string { return "loss" })
	compare := func(got, want []float32, name string) {
		for i, x := range got {
			d.Consider(float64(x), float64(want[i]), func() string { return fmt.Sprintf("value %d of %s", i, name) })
		}
	}
	for i := range s.request.Rows {
		s.each(i, func(at, col, n int) {
			compare(s.room.Grads[at:at+n], want[i*s.layout.Width+col:], "the gradient of a row")
		})
	}
	want = want[len(numbers[0]):]
	for _, p := range s.arena.Params() {
		compare(p.Value, want, p.Name)
		want = want[len(p.Value):]
	}
	if d.Relative > tolerance {
		return 0, fmt.Errorf("after one step %v, by PyTorch %s", d, a.Torch)
	}
	return d.Relative, nil
}
