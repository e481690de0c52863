package jobs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestEarlierRelease: a run directory and an exported version that a build before the packages were moved
// has written give the same bits: those of predict, eval, export, serve and of two more epochs.
// testdata/earlier/README has the commands.
func TestEarlierRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fatal.If(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "earlier"))))
	const columns = "-label -logit -columns user,item,tags,price,age"
	want := readScored(t, filepath.Join(dir, "scores.csv"))
	must(t, dir, "-np 2 predict -resume run -data clicks.csv "+columns+" -out got.csv")
	sameLogits(t, "predict", readScored(t, filepath.Join(dir, "got.csv")).logits, want.logits)

	type metrics struct {
		Samples int64
		LogLoss float64 // version 0.1.0 counted the AUC in bins
	}
	var before, now metrics
	b, err := os.ReadFile(filepath.Join(dir, "eval.json"))
	fatal.If(t, err)
	fatal.If(t, json.Unmarshal(b, &before))
	fatal.If(t, json.Unmarshal([]byte(must(t, dir, "eval -resume run -data clicks.csv --json").stdout), &now))
	if now != before || now.Samples == 0 {
		t.Errorf("eval: %+v, want %+v", now, before)
	}

	versions, err := filepath.Glob(filepath.Join(dir, "models", "ctr", "*"))
	fatal.If(t, err)
	must(t, dir, "export -resume run -out again -name ctr")
	compared := 0
	for _, pattern := range []string{"table-*.bin", "dense.bin"} {
		files, _ := filepath.Glob(filepath.Join(versions[0], pattern))
		for _, file := range files {
			a, err := os.ReadFile(file)
			fatal.If(t, err)
			b, err := os.ReadFile(filepath.Join(dir, "again", "ctr", filepath.Base(versions[0]), filepath.Base(file)))
			if compared++; err != nil || !bytes.Equal(a, b) {
				t.Errorf("export: %s differs, %v", filepath.Base(file), err)
			}
		}
	}
	if compared < 2 {
		t.Errorf("export: only %d files were compared", compared)
	}
	s := startServer(t, dir, "-model", "ctr=models/ctr")
	sameLogits(t, "serve", restLogits(t, s.rest, want, len(want.rows)), want.logits)
	if o := s.stop(); o.code != 0 {
		t.Errorf("serve: %+v", o)
	}

	train(t, dir, 2, "-resume", "run", "-set", "train.epochs=4")
	must(t, dir, "predict -resume run -data clicks.csv "+columns+" -out got4.csv")
	sameLogits(t, "train -resume", readScored(t, filepath.Join(dir, "got4.csv")).logits, readScored(t, filepath.Join(dir, "scores4.csv")).logits)
}
