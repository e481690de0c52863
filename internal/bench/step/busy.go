package step

import (
	"fmt"
	"strings"
)

// What speaks for other work on the machine, or on the one that it is a guest of. On a
// quiet machine the rate of multiply-adds stays within some hundredths, and nine steps of
// ten within a fifth.
const (
	quietCores = 0.95 // of the steps' time, that one thread had a core
	quietSteps = 1.3  // nine of ten over the fastest tenth
	quietPeaks = 1.1  // the same of the rate of multiply-adds
)

// signs says what in a result speaks for a machine that did other work meanwhile, so
// that its times compare only with what ran at the same time; none on a quiet machine.
func (r Result) signs() (all []string) {
	all = []string{} // in JSON a list, also if there are none
	say := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	say(r.CoreShare > 0 && r.CoreShare < quietCores, "for %.0f %% of the steps' time others had the core", 100*(1-r.CoreShare))
	say(r.P90MS > quietSteps*r.P10MS, "of ten steps one took %.1f times as long as the fastest", r.P90MS/r.P10MS)
	m := r.Machine
	say(m.PeakP90 > quietPeaks*m.PeakP10, "multiply-adds went at %.0f to %.0f GFLOP/s", m.PeakP10*1e-9, m.PeakP90*1e-9)
	say(r.Share > 1, "the step took %.0f %% of its bound: they were measured at different speeds", 100/r.Share)
	return all
}

// writeBusy prints the signs for people.
func (r Result) writeBusy(b *strings.Builder) {
	if len(r.Busy) > 0 {
		fmt.Fprintf(b, "busy machine    %s: compare only with what ran at the same time\n", strings.Join(r.Busy, "; "))
	}
}

// coreShare is for how much of the steps' time the only thread had a core; 0 where that
// is not known, as of ranks and threads that wait for each other.
func (m *meter) coreShare() float64 {
	had, took := 0.0, 0.0
	for i, s := range m.seconds {
		had, took = had+m.cores[i], took+s
	}
	if m.comm.Size() > 1 || m.o.Threads > 1 || took == 0 {
		return 0
	}
	return had / took
}
