//go:build gpu

package check

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/nccl"
)

// limits bound the checks.
var limits = map[string]time.Duration{
	"libraries": time.Minute, "settings": time.Minute, "inventory": time.Minute, "open": time.Minute,
	"kernels": 2 * time.Minute, "collectives": 2 * time.Minute, "NCCL bandwidth": 2 * time.Minute,
	"memory": 2 * time.Minute, "parity": 5 * time.Minute, "PyTorch": 5 * time.Minute, "abort": time.Minute,
}

// errLate is wrapped by the error of a check that did not end.
var errLate = errors.New("it did not end")

// errSkipped is wrapped by the error of a check that cannot run here. errAdvice is wrapped by one that only
// has advice.
var errSkipped, errAdvice = errors.New("skipped"), errors.New("advice")

func skip(reason string) error { return fmt.Errorf("%w: %s", errSkipped, reason) }

// Setup describes a run.
type Setup struct {
	Program  string // version of wdlrun
	Files    cuda.Files
	NCCL     nccl.Config
	Getenv   func(string) string
	File     string       // where the caller writes the report; "": nowhere
	Progress func(Report) // called before and after each check
}

// run is a run of all checks.
type run struct {
	Setup
	Report
	late bool
}

// open opens a device.
func (r *run) open(library *cuda.Library, i int, d **cuda.Device) bool {
	return r.check("open", fmt.Sprint("device ", i), func() (is measured, err error) {
		x, err := library.Device(i)
		if err == nil {
			*d, is.text = x, x.String()
		}
		return is, err
	}) == nil
}

// each runs a check of one device. It returns false if the device can no longer be used: its memory
// cannot be freed.
func (r *run) each(d *cuda.Device, name string, f func(*cuda.Device) (measured, error)) bool {
	err := r.check(name, d.String(), func() (measured, error) { return f(d) })
	failed := new(cuda.Error)
	return !errors.As(err, &failed) && !r.late
}

func (r *run) add(x Result) {
	r.Results, r.Running = append(r.Results, x), ""
	r.Progress(r.Report)
}

// measured is what a check returns: a line for the reader, and measurements.
type measured struct {
	text   string
	values map[string]float64
}

// check runs one check and adds its result.
func (r *run) check(name, on string, f func() (measured, error)) error {
	if r.late {
		return errLate
	}
	r.Running = strings.TrimSpace(name + " " + on)
	r.Progress(r.Report)
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
	case <-time.After(limits[name]):
		err, r.late = fmt.Errorf("%w within %s; the remaining checks were not run", errLate, limits[name]), true
	}
	x := Result{Name: name, On: on, Outcome: Passed, Seconds: time.Since(began).Seconds(), Text: m.text, Values: m.values}
	switch {
	case errors.Is(err, errSkipped):
		x.Outcome, x.Text = Skipped, strings.TrimPrefix(err.Error(), errSkipped.Error()+": ")
	case errors.Is(err, errAdvice):
		x.Outcome, x.Text = Advice, strings.TrimPrefix(err.Error(), errAdvice.Error()+": ")
	case err != nil:
		x.Outcome = Failed
		x.Text, x.Detail, _ = strings.Cut(err.Error(), "\n") // others follow from the first
	}
	r.add(x)
	return err
}
