package runs

import (
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// Read reads a run directory. It fails if dir is not one.
func Read(dir string) (*Run, error) {
	info, err := rundir.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("%w; to list the run directories in DIR: wdlrun runs DIR", err)
	}
	if !info.IsDir() || !IsRun(dir) {
		return nil, fmt.Errorf("%s is not a run directory: it has no %s, %s or %s; to list the run directories in DIR: wdlrun runs DIR", dir, rundir.FileConfig, rundir.FileMetrics, rundir.FileResult)
	}
	r := &Run{Summary: Summary{Dir: dir, Name: filepath.Base(absolute(dir)), Seconds: math.NaN()}}
	r.readConfig()
	r.readAbout()
	r.readMetrics()
	r.readResult()
	r.readDays()
	r.judge(rundir.Locked(dir))
	return r, nil
}

// judge determines the state, from the files and from whether a training holds the lock of
// the directory.
func (r *Run) judge(locked bool) {
	if n := len(r.Train); n > 0 {
		r.Step, r.Epoch, r.Began = r.Train[n-1].Step, r.Train[n-1].Epoch, r.Train[0].Time
		if d := r.Train[n-1].Time.Sub(r.Began); d > 0 {
			r.Seconds = d.Seconds()
		}
	}
	if at, err := time.ParseInLocation("20060102-150405", r.Name[:min(len(r.Name), 15)], time.Local); err == nil {
		r.Began = at
	}
	saved := int64(0)
	if found, err := checkpoint.List(filepath.Join(r.Dir, checkpoint.Folder)); err == nil && len(found) > 0 { // metrics are written less often
		saved = found[0].Step
		r.Step = max(r.Step, saved)
	}
	done := r.Result != nil && r.Result.Steps >= r.Step // otherwise it is the result of an earlier job
	failures, _ := filepath.Glob(filepath.Join(escaped(r.Dir), "failure-*"))
	switch {
	case locked:
		r.State = Running
	case done && r.Result.Stopped:
		r.State = Stopped
	case done && r.Result.unsaved(saved) != "":
		r.State, r.Failure = Failed, r.Result.unsaved(saved)
	case done:
		r.State = Finished
	case len(failures) > 0:
		r.State, r.Failure = Failed, r.verdict(failures[len(failures)-1])
	case len(r.Train) == 0 && len(r.Faults) > 0:
		r.State = Unknown
	default:
		r.State = Killed
	}
	if done {
		r.Step, r.Seconds = r.Result.Steps, r.Result.Seconds
	}
	if !done && r.State != Running {
		r.Result = nil
	}
	_, r.EvaluatedOn, r.Data = r.evaluation()
	if done && r.Result.Gate != nil {
		r.Rejected = r.Result.Gate.Rejected
	}
	r.Numbers = r.numbers()
}
