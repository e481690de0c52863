package train

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
)

// TestEvaluationsKeepDistributions: each evaluation of the validation data writes one line, also
// in a training that resumes before the last one. The lines count every row, some gradients, and
// every sample.
func TestEvaluationsKeepDistributions(t *testing.T) {
	t.Parallel()
	c := traintest.ClicksConfig(t, traintest.Clicks(t, 1200), "", ", eval_steps: 20")
	res := runJob(t, 2, Options{Config: c})
	read := func() []metrics.Distributions {
		r, err := runs.Read(res.RunDir)
		fatal.If(t, err)
		all := r.Distributions()
		if len(r.Faults) > 0 || len(all) != len(r.Valid) || len(all) < 2 {
			t.Fatalf("%d lines, %d evaluations, faults %q", len(all), len(r.Valid), r.Faults)
		}
		return all
	}
	all := read()
	sum := func(h metrics.Histogram) (n int64) {
		for _, x := range h.Counts {
			n += x
		}
		return n
	}
	last := all[len(all)-1]
	for i, x := range last.Tables {
		if of := res.Tables[i]; x.Table != of.Name || sum(x.Embeddings) != of.Rows {
			t.Errorf("table %s: %d norms of %d rows", x.Table, sum(x.Embeddings), of.Rows)
		}
		if first := all[0].Tables[i]; sum(first.Gradients) == 0 {
			t.Errorf("table %s: no gradients until step %d", x.Table, all[0].Step)
		}
	}
	if pr := last.PR[0]; len(last.PR) != 1 || !slices.IsSortedFunc(pr.Positive, func(a, b float64) int { return cmp.Compare(b, a) }) || pr.Positive[0]+pr.Negative[0] != float64(lines(t, res.RunDir, "valid")[0].Metrics.Samples) {
		t.Errorf("%d curves: %v", len(last.PR), pr)
	}
	later, err := filepath.Glob(filepath.Join(res.RunDir, checkpoint.Folder, "step-*"))
	for _, dir := range later {
		if filepath.Base(dir) > "step-000000020" {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err != nil || len(later) < 2 {
		t.Fatalf("checkpoints %q, %v", later, err)
	}
	runJob(t, 2, Options{Resume: res.RunDir})
	again := read()
	for i := range all {
		if len(again) != len(all) || again[i].Step != all[i].Step || !reflect.DeepEqual(again[i].PR, all[i].PR) {
			t.Fatalf("resumed: evaluation %d of %d and %d differs", i, len(again), len(all))
		}
	}
}
