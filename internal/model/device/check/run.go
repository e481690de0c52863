//go:build gpu

package check

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
)

// Run runs all checks, in the order in which they are likely to fail on a machine that has not trained
// before. After one that does not end, no others are run.
func Run(s Setup) Report {
	host, _ := os.Hostname()
	r := &run{Setup: s, Report: Report{Program: s.Program, Host: host, Time: time.Now().UTC()}}
	var library *cuda.Library
	err := r.check("libraries", "", func() (is measured, err error) {
		r.Libraries = libraries.Find(s.Files)
		if library, err = cuda.Open(s.Files); err != nil {
			return is, err
		}
		is.text = fmt.Sprintf("%v fits the driver", library.CUBLAS)
		return is, nil
	})
	devices := 0
	if err == nil {
		devices = library.Devices
		r.CUDA = fmt.Sprintf("%d.%d", library.Version/1000, library.Version%1000/10)
	}
	r.check("settings", "", func() (measured, error) {
		lines := libraries.Settings(s.Getenv, "fp32", devices > 1)
		if len(lines) > 0 {
			return measured{}, fmt.Errorf("%w: %s", errAdvice, strings.Join(lines, "; "))
		}
		return measured{text: "nothing is to be changed"}, nil
	})
	r.check("inventory", "", func() (is measured, err error) {
		v, err := inventory.Here()
		if err != nil {
			return is, skip(err.Error())
		}
		r.Inventory = &v
		return measured{text: v.String()}, nil
	})
	if err == nil {
		r.devices(library)
	}
	if r.Next = r.next(s.File); r.Count(Failed) > 0 {
		r.ExitCode = 1
	}
	r.Progress(r.Report)
	return r.Report
}

// devices runs the checks of devices.
func (r *run) devices(library *cuda.Library) {
	var sound []int
	opened := make([]*cuda.Device, library.Devices)
	for i := range opened {
		if r.open(library, i, &opened[i]) && r.each(opened[i], "kernels", kernels) {
			sound = append(sound, i)
		}
	}
	g := &group{}
	connected := r.connect(g, library)
	for _, i := range sound {
		d := opened[i]
		ok := r.each(d, "memory", memory) && r.each(d, "parity", func(*cuda.Device) (measured, error) { return trainings(library, i) }) &&
			(i > 0 || r.each(d, "PyTorch", func(*cuda.Device) (measured, error) { return torch(library, i) }))
		if ok {
			if err := d.Close(); err != nil {
				r.add(Result{Name: "close", On: d.String(), Outcome: Failed, Text: err.Error()})
			}
		}
	}
	if connected {
		r.check("abort", "", g.abort) // last: an abort that hangs uses the devices
	}
}
