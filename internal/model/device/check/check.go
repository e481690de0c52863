//go:build gpu

package check

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/nccl"
)

// limit bounds one check.
const limit = 5 * time.Minute

// errLate ends a run.
var errLate = fmt.Errorf("it did not end within %s; the remaining checks were not run", limit)

// errSkipped is wrapped by the error of a check that cannot run here.
var errSkipped = errors.New("skipped")

func skip(reason string) error { return fmt.Errorf("%w: %s", errSkipped, reason) }

// run is a run of all checks.
type run struct {
	Report
	progress func(Result)
	late     bool
}

// Run runs all checks. progress is called after each. An error means that there is no device
// to check.
func Run(program string, files cuda.Files, libnccl nccl.Config, progress func(Result)) (Report, error) {
	library, err := cuda.Open(files)
	if err != nil {
		return Report{}, err
	}
	host, _ := os.Hostname()
	r := &run{progress: progress, Report: Report{
		Program: program, Host: host, Time: time.Now().UTC(), CUDA: fmt.Sprintf("%d.%d", library.Version/1000, library.Version%1000/10),
		Libraries: libraries.Find(files),
	}}
	if v, err := inventory.Here(); err == nil {
		r.Inventory = &v
	} else {
		r.add(Result{Name: "inventory", Outcome: Skipped, Text: err.Error()})
	}
	for i := range library.Devices {
		r.device(library, i)
	}
	r.between(library, libnccl)
	return r.Report, nil
}

func (r *run) add(x Result) {
	r.Results = append(r.Results, x)
	r.progress(x)
}

// measured is what a check returns: a line for the reader, and measurements.
type measured struct {
	text   string
	values map[string]float64
}

// device runs the checks of one device until it fails.
func (r *run) device(library *cuda.Library, i int) {
	d, err := library.Device(i)
	if err != nil {
		r.add(Result{Name: "open", On: fmt.Sprint("device ", i), Outcome: Failed, Text: err.Error()})
		return
	}
	type check struct {
		name string
		f    func() (measured, error)
	}
	all := []check{
		{"kernels", func() (measured, error) { return kernels(d) }},
		{"memory", func() (measured, error) { return memory(d) }},
		{"parity", func() (measured, error) { return trainings(library, i) }},
	}
	if i == 0 {
		all = append(all, check{"PyTorch", func() (measured, error) { return torch(library, i) }})
	}
	for _, x := range all {
		err := r.check(x.name, d.String(), x.f)
		if failed := new(cuda.Error); errors.As(err, &failed) || r.late {
			return // its memory cannot be freed
		}
	}
	if err := d.Close(); err != nil {
		r.add(Result{Name: "close", On: d.String(), Outcome: Failed, Text: err.Error()})
	}
}

// check runs one check and adds its result.
func (r *run) check(name, on string, f func() (measured, error)) error {
	if r.late {
		return errLate
	}
	began, done := time.Now(), make(chan func() (measured, error), 1)
	go func() {
		m, err := f()
		done <- func() (measured, error) { return m, err }
	}()
	var m measured
	var err error
	select {
	case result := <-done:
		m, err = result()
	case <-time.After(limit):
		err, r.late = errLate, true
	}
	x := Result{Name: name, On: on, Outcome: Passed, Seconds: time.Since(began).Seconds(), Text: m.text, Values: m.values}
	switch {
	case errors.Is(err, errSkipped):
		x.Outcome, x.Text = Skipped, strings.TrimPrefix(err.Error(), errSkipped.Error()+": ")
	case err != nil:
		x.Outcome = Failed
		x.Text, _, _ = strings.Cut(err.Error(), "\n") // others follow from the first
	}
	r.add(x)
	return err
}
