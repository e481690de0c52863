package train

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// TestSlotsGiveTheSameBits: trainings in slots have the same bits on 1, 2, 4 and 8 ranks,
// with all settings that keep state between steps, and when resumed on another number of
// ranks.
func TestSlotsGiveTheSameBits(t *testing.T) {
	path := traintest.Clicks(t, 1500)
	for _, name := range []string{"rows", "dropout"} {
		t.Run(name, func(t *testing.T) {
			if name != "rows" {
				everyday(t)
				patient.Long(t)
			}
			t.Parallel()
			recipe := recipes[name]
			if name == "dropout" {
				recipe = [2]string{", dropout: 0.3", ", l2: {deep: 0.01, wide: 0.01, dense: 0.001, mode: dense}"}
			}
			train := func(size int, opt Options) report.Result { return runJob(t, size, opt) }
			fresh := Options{Config: traintest.ClicksConfig(t, path, recipe[0], recipe[1]), Set: []string{"train.slots=8", "train.epochs=2"}}
			one := train(1, fresh)
			if in := one.Input; in.Depth < 1 || in.Threads < 1 || in.WorkShare <= 0 {
				t.Errorf("the input is reported as %+v", in)
			}
			last := func(r report.Result) *checkpoint.Checkpoint {
				return open(t, checkpoint.Dir(filepath.Join(r.RunDir, checkpoint.Folder), r.Steps))
			}
			for _, size := range []int{2, 4, 8} {
				sameContents(t, last(train(size, fresh)), last(one))
			}
			middle := checkpoint.Dir(filepath.Join(one.RunDir, checkpoint.Folder), 20)
			sameContents(t, last(train(4, Options{Resume: middle})), last(one))
			by := train(1, Options{Config: traintest.ClicksConfig(t, path, recipe[0], recipe[1]), Set: []string{"train.epochs=2"}})
			if d := *by.TestAUC - *one.TestAUC; d > 0.0015 || d < -0.0015 {
				t.Errorf("AUC %.5f in slots, %.5f without slots", *one.TestAUC, *by.TestAUC)
			}
		})
	}
}

func TestSlotsThatCannotBe(t *testing.T) {
	path := traintest.Clicks(t, 300)
	for says, opt := range map[string]Options{
		"3 slots on 3 ranks":     {Config: traintest.ClicksConfig(t, path, "", ", slots: 3")},
		"4 slots on 3 ranks":     {Config: traintest.ClicksConfig(t, path, "", ", slots: 4")},
		"model.batch_norm":       {Config: traintest.ClicksConfig(t, path, ", batch_norm: true", ", slots: 4")},
		"train.clip_norm":        {Config: traintest.ClicksConfig(t, path, "", ", slots: 4, clip_norm: 1")},
		"mode speculate assigns": {Config: traintest.ClicksConfig(t, path, "", ", slots: 4, mode: speculate")},
	} {
		opt.Out = t.TempDir()
		errs := make([]error, 3)
		traintest.OnRanks(t, 3, func(comm *collective.Comm) error {
			_, err := NewJob(comm, trace.New(0), opt).Run(context.Background())
			errs[comm.Rank()] = err
			if err != nil {
				comm.Abort(err)
			}
			return nil
		})
		if errs[0] == nil || !strings.Contains(errs[0].Error(), says) {
			t.Errorf("want %q: %v", says, errs[0])
		}
	}
}
