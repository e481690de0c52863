package train

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
)

// TestResultReportsTheCostOfCheckpoints: the result contains the cost of checkpoints, on one
// rank and on two.
func TestResultReportsTheCostOfCheckpoints(t *testing.T) {
	for _, size := range []int{1, 2} {
		c := traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", "")
		fatal.If(t, config.Set(c, "train.checkpoint.every_steps", "3"))
		res := runJob(t, size, Options{Config: c})
		if stall, core := res.CheckpointStallSeconds, res.CheckpointStallCPUSeconds; stall <= 0 || core <= 0 || core > stall {
			t.Errorf("%d ranks: delayed by %v s, %v of them with a core", size, stall, core)
		}
		if res.CheckpointStepSeconds <= 0 || res.CheckpointStepSeconds > res.Seconds {
			t.Errorf("%d ranks: a step during a checkpoint took %v s of %v", size, res.CheckpointStepSeconds, res.Seconds)
		}
	}
}
