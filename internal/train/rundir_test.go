package train

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// TestARunDirectoryThatVanishes: if the run directory is deleted or moved after the first epoch,
// it is created again with its contents, and training continues.
func TestARunDirectoryThatVanishes(t *testing.T) {
	c := config.Default()
	c.Train.Epochs = 4
	undisturbed := runJob(t, 1, Options{Config: c})
	b, err := os.ReadFile(filepath.Join(undisturbed.RunDir, rundir.FileMetrics))
	fatal.If(t, err)
	want := strings.Count(string(b), `"event":"train"`)
	for name, vanish := range map[string]func(dir string) error{
		"deleted": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-elsewhere") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			var once sync.Once
			var warned []string
			res := runJob(t, 1, Options{Config: c, Out: out,
				Say: func(line string) {
					if strings.HasPrefix(line, "epoch 2") {
						once.Do(func() {
							found, _ := filepath.Glob(filepath.Join(out, "2*"))
							if err := vanish(found[0]); err != nil {
								t.Error(err)
							}
						})
					}
				},
				Warn: func(line string) { warned = append(warned, line) },
			})
			if n := len(warned); n == 0 || !strings.Contains(warned[0], "deleted or moved while the training ran") {
				t.Errorf("warnings %q", warned)
			}
			b, err := os.ReadFile(filepath.Join(res.RunDir, rundir.FileMetrics))
			if n := strings.Count(string(b), `"event":"train"`); err != nil || n != want {
				t.Errorf("%d lines of metrics, want %d, error %v", n, want, err)
			}
			if _, err := config.Load(filepath.Join(res.RunDir, rundir.FileConfig)); err != nil {
				t.Error(err)
			}
			if ck, _, err := checkpoint.Latest(filepath.Join(res.RunDir, checkpoint.Folder)); err != nil || ck.Step() != res.Steps {
				t.Errorf("the last checkpoint: %v, error %v", ck, err)
			}
		})
	}
}

// TestARankLostAtTheFirstMeeting: a rank lost at the first exchange leaves one run directory.
// Rank 0 reports it before the other ranks know it, and the next generation uses it.
func TestARankLostAtTheFirstMeeting(t *testing.T) {
	for _, replicas := range []int{0, 2} {
		out := t.TempDir()
		opt := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", ""), Out: out, Replicas: replicas}
		var memory *Memory
		traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
			if comm.Rank() == 1 {
				if replicas > 1 { // the ranks first exchange what they have in memory
					if err := collective.AllGather(comm, make([]int64, 10)); err != nil {
						return err
					}
				}
				comm.Abort(errDied)
				return nil
			}
			o := opt
			var reported []string
			var j *Job
			o.Began = func() { reported = append(reported, j.Status().RunDir) }
			j = NewJob(comm, trace.New(0), o)
			if _, err := j.Run(context.Background()); err == nil || !strings.Contains(err.Error(), errDied.Error()) {
				t.Errorf("replicas %d: %v, want the loss of rank 1", replicas, err)
			}
			if len(reported) != 1 || filepath.Dir(reported[0]) != out {
				t.Fatalf("replicas %d: %q is reported, want a directory in %s", replicas, reported, out)
			}
			if replicas > 1 {
				memory = j.TakeMemory(errDied)
			} else {
				opt.Again = reported[0]
			}
			return nil
		})
		traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
			j := NewJob(comm, trace.New(0), opt)
			if comm.Rank() == 0 {
				j.UseMemory(memory)
			}
			_, err := j.Run(context.Background())
			return err
		})
		dirs, err := os.ReadDir(out)
		if dirs = slices.DeleteFunc(dirs, rundir.IsLatest); err != nil || len(dirs) != 1 {
			t.Errorf("replicas %d: run directories %v, error %v; want one", replicas, dirs, err)
		}
	}
}

// TestTheLinkLatest: a training that finishes moves the link, one that is stopped does not.
func TestTheLinkLatest(t *testing.T) {
	out, c := t.TempDir(), config.Default()
	c.Train.Epochs = 1
	link := filepath.Join(out, rundir.Latest)
	first := runJob(t, 2, Options{Config: c, Out: out})
	if got := rundir.Real(link); got != first.RunDir {
		t.Errorf("after the first training the link leads to %s, want %s", got, first.RunDir)
	}
	traintest.OnRanks(t, 1, func(comm *collective.Comm) error {
		j := NewJob(comm, trace.New(100), Options{Config: c, Out: out})
		j.RequestStop()
		_, err := j.Run(context.Background())
		return err
	})
	if got := rundir.Real(link); got != first.RunDir {
		t.Errorf("after a training that was stopped the link leads to %s, want %s", got, first.RunDir)
	}
	second := runJob(t, 1, Options{Config: c, Out: out, From: rundir.Real(link)})
	if got := rundir.Real(link); got != second.RunDir || second.RunDir == first.RunDir {
		t.Errorf("after the second training the link leads to %s, want %s", got, second.RunDir)
	}
}
