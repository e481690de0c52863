package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
)

// TestBatchNormOnASortedFile: the order of the records in a file does not matter, even with
// batch normalisation.
func TestBatchNormOnASortedFile(t *testing.T) {
	path := traintest.Clicks(t, 6000)
	lines := bytes.SplitAfter(read(t, path), []byte{'\n'})
	slices.SortStableFunc(lines[1:len(lines)-1], func(a, b []byte) int { return int(a[0]) - int(b[0]) })
	sorted := filepath.Join(t.TempDir(), "sorted.csv")
	fatal.If(t, os.WriteFile(sorted, bytes.Join(lines, nil), 0o644))
	var auc [2]float64
	for i, p := range []string{path, sorted} {
		res := runJob(t, 1, Options{Config: traintest.ClicksConfig(t, p, ", batch_norm: true", ""), Set: []string{"data.test=[" + path + "]"}})
		auc[i] = *res.TestAUC
	}
	if auc[1] < auc[0]-.006 || auc[0] < .7 {
		t.Errorf("AUC %.4f on the shuffled file, %.4f on the sorted one", auc[0], auc[1])
	}
}

// rewritten writes a checkpoint again in one part, with the sections that edit returns, and returns its folder.
func rewritten(t *testing.T, from *checkpoint.Checkpoint, edit func(name string, b []byte) []byte) (dir string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), checkpoint.Folder)
	w, err := checkpoint.Create(root, from.Step(), 0, 1)
	fatal.If(t, err)
	for _, name := range from.Names() {
		b, err := save.Read(from, name)
		fatal.If(t, err)
		b = edit(name, b)
		fatal.If(t, w.Section(name, func(out io.Writer) error { _, err := out.Write(b); return err }))
	}
	file, err := w.Close()
	if err == nil {
		err = checkpoint.Commit(root, checkpoint.Manifest{Step: from.Step(), Files: []checkpoint.File{file}})
	}
	fatal.If(t, err)
	return checkpoint.Dir(root, from.Step())
}

// formerCheckpoint converts a checkpoint to the form of a version whose cursor did not have a key.
func formerCheckpoint(t *testing.T, from *checkpoint.Checkpoint, key string) (dir string) {
	t.Helper()
	return rewritten(t, from, func(name string, b []byte) []byte {
		switch name {
		case save.SectionCursor:
			var c map[string]any
			if err := json.Unmarshal(b, &c); err != nil || c[key] == nil {
				t.Fatal(c, err)
			}
			delete(c, key)
			c["lanes"] = 256
			b, err := json.Marshal(c)
			fatal.If(t, err)
			return b
		case save.SectionConfig:
			b = bytes.Replace(b, []byte("  shuffle: true\n"), []byte("  shuffle: true\n  shuffle_window: 131072\n  lanes: 256\n"), 1)
			if !bytes.Contains(b, []byte("lanes")) {
				t.Fatal(string(b))
			}
		}
		return b
	})
}

// TestCheckpointsKeepTheirValidationRows: a checkpoint of a version that held out records by position
// alone is resumed with the same validation rows, and a new one with a share of each class.
func TestCheckpointsKeepTheirValidationRows(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 1000)
	c := traintest.ClicksConfig(t, path, "", "")
	c.Data.ValidFraction, c.Data.Valid = 0.2, nil
	whole := runJob(t, 1, Options{Config: c})
	file := filepath.Join(whole.RunDir, checkpoint.Folder)
	dir := checkpoint.Dir(file, whole.Steps/3)
	samples := map[string]int64{}
	for what, from := range map[string]string{"new": dir, "former": formerCheckpoint(t, open(t, dir), "by_label")} {
		r := runJob(t, 2, Options{Resume: from, Out: t.TempDir()})
		samples[what] = r.Valid.Samples
	}
	d, err := data.Open(c.Data, input.SchemaOf(c), []string{path})
	fatal.If(t, err)
	fatal.If(t, d.HoldOut(0.2, c.Train.Seed))
	counts, err := d.Scan(t.Context(), 0, 1, nil, nil)
	fatal.If(t, err)
	fatal.If(t, d.Use(counts))
	if all := d.Rows(data.All); samples["new"] != whole.Valid.Samples || samples["former"] != d.Rows(data.Valid) || samples["new"] == samples["former"] || samples["new"] < all/5-2 || samples["new"] > all/5+2 {
		t.Errorf("%v of %d rows, want %d and %d", samples, all, whole.Valid.Samples, d.Rows(data.Valid))
	}
}

// TestLossOfAFormerCheckpoint: the training loss of an epoch that an earlier version began, which did not
// keep the sum of the weights, counts the batches before.
func TestLossOfAFormerCheckpoint(t *testing.T) {
	t.Parallel()
	whole := runJob(t, 1, Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 1000), "", ""), Set: []string{"train.epochs=2"}})
	inside := open(t, checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), 20))
	var loss []float64
	for _, key := range []string{"last_loss", "weight_sum"} { // the first is not needed
		loss = append(loss, runJob(t, 1, Options{Resume: formerCheckpoint(t, inside, key), Out: t.TempDir()}).TrainLogLoss)
	}
	if whole.Steps/2 >= 20 || math.Abs(loss[0]-loss[1]) > 1e-12 {
		t.Errorf("training loss %v without the sum of the weights, want %v", loss[1], loss[0])
	}
}

// TestCheckpointsOfTheFormerOrder: a checkpoint of a version that ordered samples differently
// can be resumed at the end of an epoch and is rejected inside one.
func TestCheckpointsOfTheFormerOrder(t *testing.T) {
	path := traintest.Clicks(t, 1000)
	whole := runJob(t, 1, Options{Config: traintest.ClicksConfig(t, path, "", "")})
	steps := whole.Steps / 3
	root := filepath.Join(whole.RunDir, checkpoint.Folder)
	end := formerCheckpoint(t, open(t, checkpoint.Dir(root, steps)), "order")
	if err := Check(t.Context(), Options{Resume: end}, 1); err != nil {
		t.Error(err)
	}
	again := runJob(t, 1, Options{Resume: end})
	if again.Steps != whole.Steps || *again.TestLogLoss != *whole.TestLogLoss {
		t.Errorf("%d steps, log-loss %v, want %d and %v", again.Steps, *again.TestLogLoss, whole.Steps, *whole.TestLogLoss)
	}
	inside := formerCheckpoint(t, open(t, checkpoint.Dir(root, 20)), "order")
	if c := open(t, inside); steps == 20 || c.Step() != 20 {
		t.Fatalf("%d steps per epoch", steps)
	}
	for what, err := range map[string]error{
		"check": Check(t.Context(), Options{Resume: inside}, 1), "run": failed(t, 1, Options{Resume: inside}),
	} {
		want := fmt.Sprintf("the checkpoint of step 20 is inside an epoch, after row %d of ", (20-steps)*64)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "restart the epoch") {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
}
