package wdl

import (
	"context"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
	"github.com/wdlrun/wdlrun/trace"
)

// TestADivergingTrainingFails with the same error on any number of ranks, after 100
// steps or at its end.
func TestADivergingTrainingFails(t *testing.T) {
	t.Parallel()
	path := clicks(t, 600)
	for epochs, want := range map[string]string{"2": "step 16: the training diverges", "30": "step 101: the training diverges"} {
		for _, size := range []int{1, 3} {
			c := clicksConfig(t, path, "", ", optimizer: {dense: {learning_rate: 1e5}, deep: {learning_rate: 1e5}, wide: {learning_rate: 1e5}}")
			if err := config.Set(c, "train.epochs", epochs); err != nil {
				t.Fatal(err)
			}
			err := make(chan error, size)
			onRanks(t, size, func(comm *collective.Comm) error {
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

// TestASwingingTrainingFails: predictions that are certain and swing between the classes
// are right for a step now and then.
func TestASwingingTrainingFails(t *testing.T) {
	t.Parallel()
	path := clicks(t, 600)
	for _, size := range []int{1, 3} {
		c := clicksConfig(t, path, "", ", optimizer: {dense: {learning_rate: 1000}, deep: {learning_rate: 1000}}")
		err := make(chan error, size)
		onRanks(t, size, func(comm *collective.Comm) error {
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
	j := &job{}
	for n := 1; n <= 55; n++ {
		j.cursor.Step++
		j.cursor.Divergence.observe(j.cursor.Step, step.Outcome{Rows: 64, Loss: 64 * map[bool]float64{true: 0.6, false: 60}[n%6 == 1]})
	}
	if j.diverged(divergedSteps) != nil || j.diverged(j.cursor.Step/2) == nil {
		t.Error("a training with a loss of 60 in five steps of six is taken for sound at its end, or not before")
	}
}

// TestSoundTrainingsDoNotDiverge: outliers, inputs on a large scale and a rough start.
func TestSoundTrainingsDoNotDiverge(t *testing.T) {
	for name, lossOf := range map[string]func(n int) float64{
		"outliers":                              func(n int) float64 { return map[bool]float64{true: 1e9, false: 0.5}[n%3 == 0] },
		"large scale":                           func(n int) float64 { return 1e6 / float64(n) },
		"every second step":                     func(n int) float64 { return map[bool]float64{true: 1e9, false: 0.5}[n%2 == 0] },
		"rough start":                           func(n int) float64 { return map[bool]float64{true: 1e5, false: 0.5}[n > 1 && n < 90] },
		"no better than random, and sure of it": func(n int) float64 { return 15 },
	} {
		j := &job{}
		for n := 1; n <= 1000; n++ {
			j.cursor.Step++
			j.cursor.Divergence.observe(j.cursor.Step, step.Outcome{Rows: 64, Loss: 64 * lossOf(n)})
			if err := j.diverged(divergedSteps); err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
		if err := j.diverged(j.cursor.Step / 2); err != nil {
			t.Errorf("%s: at the end: %v", name, err)
		}
	}
}
