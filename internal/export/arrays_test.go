package export_test

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// readArrays computes the logit of each key from a safetensors file, independently of this
// module, and compares the file with .npy files.
const readArrays = `
import json, sys, numpy as np
def safetensors(path):
    b = open(path, "rb").read()
    n = int.from_bytes(b[:8], "little")
    head = json.loads(b[8:8+n])
    meta = head.pop("__metadata__")
    kinds = {"F32": "<f4", "U64": "<u8"}
    out = {}
    for name, x in head.items():
        lo, hi = x["data_offsets"]
        out[name] = np.frombuffer(b[8+n+lo:8+n+hi], kinds[x["dtype"]]).reshape(x["shape"])
    assert max(x["data_offsets"][1] for x in head.values()) == len(b) - 8 - n
    return out, meta
tensors, meta = safetensors(sys.argv[1])
assert json.load(open(sys.argv[2] + "/parts.json")) == meta
for name, x in tensors.items():
    y = np.load(sys.argv[2] + "/" + name.replace("/", ".") + ".npy")
    assert x.dtype == y.dtype and x.shape == y.shape and (x == y).all(), name
keys, rows = tensors["table/color/keys"], tensors["table/color/rows"]
assert (np.diff(keys.astype(object)) > 0).all()
assert meta["table/color/parts"] == "deep:2 wide:1", meta
d = lambda name: tensors["dense/" + name]
x = np.concatenate([rows[:, :2], np.full((len(keys), 1), 0.5, np.float32)], axis=1)
hidden = np.maximum(x @ d("deep/linear0/weight") + d("deep/linear0/bias"), 0)
logit = d("wide/bias") + rows[:, 2] + (hidden @ d("deep/out/weight") + d("deep/out/bias"))[:, 0]
for k, y in zip(keys, logit):
    print(int(k), repr(float(y)))
`

// TestNumpyReadsArrays: numpy finds the same arrays in safetensors and npy, and computes the
// logits of the model from them.
func TestNumpyReadsArrays(t *testing.T) {
	patient.Long(t)
	python := numpy(t)
	m := small(t)
	dir := t.TempDir()
	file, npy := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "m")
	for i, err := range []error{
		export.WriteSafetensors(context.Background(), source(m), file),
		export.WriteNPY(context.Background(), source(m), npy),
	} {
		if err != nil {
			t.Fatal(i, err)
		}
	}
	out, err := exec.Command(python, "-c", readArrays, file, npy).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	scorer, err := write(t, m, "").NewScorer()
	fatal.If(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 7 {
		t.Fatalf("%s", out)
	}
	for _, line := range lines {
		var key uint64
		var logit float64
		if _, err := fmt.Sscan(line, &key, &logit); err != nil {
			t.Fatal(line, err)
		}
		want, err := scorer.Score(&encode.Batch{Rows: 1, Dense: []float32{0.5}, Sparse: []encode.Jagged{{Values: []uint64{key}, Offsets: []int32{0, 1}}}})
		if err != nil || math.Abs(float64(want[0])-logit) > 1e-6 || scorer.Unknown()[0] != 0 {
			t.Errorf("key %d: numpy computes %v, the model %v, %v", key, logit, want, err)
		}
	}
	if err := export.WriteNPY(context.Background(), source(m), npy); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// numpy returns a Python that has numpy.
func numpy(t *testing.T) string {
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import numpy").Run() == nil {
			return p
		}
	}
	t.Skip("no python3 with numpy on this machine")
	return ""
}
