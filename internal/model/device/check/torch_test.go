//go:build gpu

package check

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

var standin cudatest.Files

// python is the variable that makes this program a python3 of a test.
const python = "CHECK_PYTHON"

func TestMain(m *testing.M) {
	if how := os.Getenv(python); how != "" {
		if err := fake(how); err != nil {
			fmt.Fprintln(os.Stderr, "Traceback\nFakeError:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv("STANDIN_MEMORY", "20000000") // few samples are measured
	os.Exit(cudatest.Main(kernel.PTX, func(f cudatest.Files) int {
		standin = f
		return m.Run()
	}, cudatest.Watched))
}

// fake answers as the script does.
func fake(how string) error {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var q torchRequest
	if err := json.Unmarshal(line, &q); err != nil {
		return err
	}
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	switch how {
	case "none":
		fmt.Println(`{"skip": "python3 cannot import torch: No module named 'torch'"}`)
		return nil
	case "text":
		fmt.Println("Hello")
		return nil
	case "endless":
		for err == nil {
			_, err = os.Stdout.WriteString(strings.Repeat("x", 1<<16))
		}
		return err
	case "fails":
		return errors.New("the GPU is too new")
	}
	a := torchAnswer{Torch: "9.9", Seconds: .25, Compiled: true}
	var results []float32
	if q.Times == 0 {
		a.Loss, results = twin(q, raw.Of[float32](b))
	}
	if how == "wrong" {
		results[len(results)-1] += .01
	}
	if line, err = json.Marshal(a); err != nil {
		return err
	}
	if how == "short" {
		results = results[1:]
	}
	_, err = os.Stdout.Write(append(append(line, '\n'), raw.Bytes(results)...))
	return err
}

// twin takes a step in float64, as the definitions of its parts say.
func twin(q torchRequest, x []float32) (loss float64, results []float32) {
	cut := func(n int) []float32 { y := x[:n]; x = x[n:]; return y }
	y, logit, label := cut(q.Rows*q.Layers[0][0]), cut(q.Rows), cut(q.Rows)
	var w, b [][]float32
	for _, l := range q.Layers {
		w, b = append(w, cut(l[0]*l[1])), append(b, cut(l[1]))
	}
	gradW, gradB, dx := make([][]float64, len(w)), make([][]float64, len(w)), []float64(nil)
	for k, l := range q.Layers {
		gradW[k], gradB[k] = make([]float64, l[0]*l[1]), make([]float64, l[1])
	}
	for r := range q.Rows {
		var acts [][]float64
		in := make([]float64, q.Layers[0][0])
		for i := range in {
			in[i] = float64(y[r*len(in)+i])
		}
		for k, l := range q.Layers {
			acts = append(acts, in)
			out := make([]float64, l[1])
			for j := range out {
				out[j] = float64(b[k][j])
				for i, v := range in {
					out[j] += v * float64(w[k][i*l[1]+j])
				}
				if k < len(w)-1 {
					out[j] = math.Tanh(out[j])
				}
			}
			in = out
		}
		z, t := in[0]+float64(logit[r]), float64(label[r])
		loss += math.Log1p(math.Exp(-z)) + (1-t)*z
		dy := []float64{1/(1+math.Exp(-z)) - t}
		for k := len(w) - 1; k >= 0; k-- {
			l, din := q.Layers[k], make([]float64, q.Layers[k][0])
			for j, g := range dy {
				gradB[k][j] += g
				for i, v := range acts[k] {
					gradW[k][i*l[1]+j] += g * v
					din[i] += g * float64(w[k][i*l[1]+j])
				}
			}
			for i, v := range acts[k] {
				if k > 0 {
					din[i] *= 1 - v*v
				}
			}
			dy = din
		}
		dx = append(dx, dy...)
	}
	for _, v := range dx {
		results = append(results, float32(v))
	}
	update := func(p []float32, grad []float64) {
		for i, g := range grad {
			g /= float64(q.Rows)
			results = append(results, float32(float64(p[i])-q.Rate*g/(math.Sqrt(q.Accumulator+g*g)+q.Epsilon)))
		}
	}
	for k := range w {
		update(w[k], gradW[k])
		update(b[k], gradB[k])
	}
	return loss, results
}

// TestTorch: a step agrees with one of another program, and what that program lacks or does
// wrong is named.
func TestTorch(t *testing.T) {
	library, err := cuda.Open(cuda.Files{CUDA: standin.CUDA, CUBLAS: standin.CUBLAS})
	fatal.If(t, err)
	own, err := os.Executable()
	fatal.If(t, err)
	dir := t.TempDir()
	fatal.If(t, os.Symlink(own, filepath.Join(dir, "python3")))
	for how, want := range map[string]string{
		"right":   "",
		"wrong":   "after one step the value 0 of deep/out/bias is ",
		"none":    "skipped: python3 cannot import torch: No module named 'torch'",
		"text":    "skipped: python3: invalid character 'H' looking for beginning of value",
		"short":   "skipped: python3: unexpected EOF",
		"endless": "skipped: python3: ",
		"fails":   "skipped: python3: exit status 1: FakeError: the GPU is too new",
		"missing": "skipped: there is no python3 in PATH",
	} {
		t.Setenv(python, how)
		t.Setenv("PATH", dir)
		if how == "missing" {
			t.Setenv("PATH", t.TempDir())
		}
		is, err := torch(library, 0)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", how, err, want)
		case want != "" && errors.Is(err, errSkipped) != strings.HasPrefix(want, "skipped"):
			t.Errorf("%s: %v", how, err)
		case want == "" && (!strings.Contains(is.text, "250.00 ms in PyTorch 9.9 (compiled)") || is.values["step_seconds"] <= 0 || is.values["relative_difference"] > 1e-5):
			t.Errorf("%s %v", is.text, is.values)
		}
	}
}
