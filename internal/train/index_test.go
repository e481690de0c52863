package train

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// runIndex makes a feature index on size ranks.
func runIndex(t *testing.T, size int, opt IndexOptions) (res IndexResult) {
	t.Helper()
	fatal.If(t, CheckIndex(opt))
	traintest.OnRanks(t, size, func(comm *collective.Comm) error {
		r, err := NewIndexing(comm, trace.New(0), opt).Run(context.Background())
		if comm.Rank() == 0 {
			res = r
		}
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	return res
}

// TestTrainingWithAnIndex: the index is the same for any number of ranks. A training with it has
// the bits of one without, and its checkpoints contain it.
func TestTrainingWithAnIndex(t *testing.T) {
	path := traintest.Clicks(t, 1500)
	c := traintest.ClicksConfig(t, path, "", "")
	c.Features[0].Encode, c.Features[0].MinCount = "vocabulary", 3
	c.Features[1].Encode, c.Features[1].MaxSize = "vocabulary", 9
	var first []byte
	var file string
	for size := 1; size <= 3; size++ {
		file = filepath.Join(t.TempDir(), "ctr.index")
		res := runIndex(t, size, IndexOptions{Config: c, Out: file})
		if v := res.Vocabularies; res.Records != 1500 || len(v) != 2 || v[1].Distinct != 12 || v[1].Kept != 9 || v[1].Unknown == 0 {
			t.Errorf("%+v", res)
		}
		b := read(t, file)
		if first == nil {
			first = b
		}
		if !bytes.Equal(b, first) {
			t.Errorf("%d ranks make a different index", size)
		}
	}
	whole := runJob(t, 2, Options{Config: c})
	again := runJob(t, 2, Options{Config: c, Set: []string{"data.index=" + file, "features[0].min_count=1"}})
	if *again.TestAUC != *whole.TestAUC || again.TrainLogLoss != whole.TrainLogLoss {
		t.Errorf("with an index %+v, without %+v", again, whole)
	}
	if n := whole.TrainUnknown["tags"]; n == 0 || again.TrainUnknown["tags"] != n || whole.TestUnknown["tags"] == 0 {
		t.Errorf("unknown with an index %v, without %v", again.TrainUnknown, whole.TrainUnknown)
	}
	os.Remove(file)
	kept, err := input.LoadIndex(again.RunDir)
	fatal.If(t, err)
	if got, _ := kept.Marshal(); !bytes.Equal(got, first) {
		t.Error("the checkpoint does not contain the index")
	}
	if _, err := input.LoadIndex(file); err == nil || !strings.Contains(err.Error(), "data index makes one") {
		t.Errorf("a missing index: %v", err)
	}
	runJob(t, 1, Options{Resume: checkpoint.Dir(filepath.Join(again.RunDir, checkpoint.Folder), 20)}) // needs no index
}

func TestIndexRefuses(t *testing.T) {
	path := traintest.Clicks(t, 200)
	c := traintest.ClicksConfig(t, path, "", "")
	here := filepath.Join(t.TempDir(), "here.index")
	fatal.If(t, os.WriteFile(here, []byte("{}"), 0o644))
	plain := c.Clone()
	plain.Features, plain.Crosses = plain.Features[:2], nil
	for _, x := range []struct {
		c    *config.Config
		out  string
		want string
	}{
		{c, "", "-out FILE"},
		{c, here, "exists"},
		{plain, filepath.Join(t.TempDir(), "new"), "no feature takes anything from the data"},
	} {
		if err := CheckIndex(IndexOptions{Config: x.c, Out: x.out}); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
	}
	for _, x := range []struct{ set, want string }{
		{"data.index=" + here, "it is \"\", not a wdlrun feature index"},
		{"data.index=" + here + "x", "makes one"},
	} {
		if err := Check(t.Context(), Options{Config: c, Set: []string{x.set}}, 1); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", x.set, err, x.want)
		}
	}
	file := filepath.Join(t.TempDir(), "quantiles.index")
	runIndex(t, 1, IndexOptions{Config: c, Out: file})
	other := c.Clone()
	other.Features[0].Encode = "vocabulary"
	err := Check(t.Context(), Options{Config: other, Set: []string{"data.index=" + file}}, 1)
	if err == nil || !strings.Contains(err.Error(), "it has no vocabulary of field site") {
		t.Errorf("an index without the feature: %v", err)
	}
}
