package train

import (
	"context"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// TestADivergingTrainingFails: a diverging training fails with the same error on any number of
// ranks, after 100 steps or at its end.
func TestADivergingTrainingFails(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 600)
	for epochs, want := range map[string]string{"2": "step 16: the training diverges", "30": "step 101: the training diverges"} {
		for _, size := range []int{1, 3} {
			c := traintest.ClicksConfig(t, path, "", ", optimizer: {dense: {learning_rate: 1e5}, deep: {learning_rate: 1e5}, wide: {learning_rate: 1e5}}")
			fatal.If(t, config.Set(c, "train.epochs", epochs))
			err := make(chan error, size)
			traintest.OnRanks(t, size, func(comm *collective.Comm) error {
				_, e := NewJob(comm, trace.New(0), Options{Config: c, Out: t.TempDir()}).Run(context.Background())
				err <- e
				return nil
			})
			for range size {
				if e := <-err; e == nil || !strings.Contains(e.Error(), want) {
					t.Errorf("%s epochs, %d ranks: %v, want %s", epochs, size, e, want)
				}
			}
		}
	}
}

// TestASwingingTrainingFails: a training also fails if its confident predictions alternate
// between the classes and are occasionally right for a step.
func TestASwingingTrainingFails(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 600)
	for _, size := range []int{1, 3} {
		c := traintest.ClicksConfig(t, path, "", ", optimizer: {dense: {learning_rate: 1000}, deep: {learning_rate: 1000}}")
		err := make(chan error, size)
		traintest.OnRanks(t, size, func(comm *collective.Comm) error {
			_, e := NewJob(comm, trace.New(0), Options{Config: c, Out: t.TempDir()}).Run(context.Background())
			err <- e
			return nil
		})
		for range size {
			if e := <-err; e == nil || !strings.Contains(e.Error(), "the training diverges") {
				t.Errorf("%d ranks: %v", size, e)
			}
		}
	}
}
