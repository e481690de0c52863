package doctor

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
)

// Write prints a report and its findings as text.
func Write(to io.Writer, r Report, found []Finding) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "host\tranks\tCPUs\tload\tGFLOP/s\tmemory available\tclock\tsystem")
	for _, h := range r.Hosts {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.0f %s\t%s of %s\t%+.3f s\t%s, %s\n", h.Name, h.Ranks, h.CPUs, h.Load, h.GFLOPS, h.Kernels, size(h.Available), size(h.Memory), h.ClockSeconds, h.System, h.CPU)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, h := range r.Hosts {
		switch {
		case h.GPUs != nil:
			fmt.Fprintf(to, "GPUs of %s: %v\n", h.Name, h.GPUs)
			if err := libraries.Write(to, h.Libraries); err != nil {
				return err
			}
		case h.GPUFault != "":
			fmt.Fprintf(to, "GPUs of %s: unknown: %s\n", h.Name, h.GPUFault)
		}
	}
	if n := len(r.Pairs); n > 0 {
		byTrip := slices.SortedFunc(slices.Values(r.Pairs), func(a, b Pair) int { return cmp.Compare(a.RoundTrip, b.RoundTrip) })
		byRate := slices.SortedFunc(slices.Values(r.Pairs), func(a, b Pair) int { return cmp.Compare(b.rate(), a.rate()) })
		far, late := byTrip[n-1], byRate[n-1]
		fmt.Fprintf(to, "%d links: round trips take %s (median) to %s (%s and %s); the slower direction carries %s (median) to %s (%s and %s)\n",
			n, micros(byTrip[(n-1)/2].RoundTrip), micros(far.RoundTrip), far.Hosts[0], far.Hosts[1],
			speed(byRate[(n-1)/2].rate()), speed(late.rate()), late.Hosts[0], late.Hosts[1])
	}
	for _, f := range found {
		fmt.Fprintf(to, "%s: %s\n", f.Level, f.Text)
	}
	if Fails(found) {
		return nil
	}
	_, err := fmt.Fprintln(to, "a job can run on these hosts")
	return err
}

// Fails reports whether a job would not run.
func Fails(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Level == Error })
}
