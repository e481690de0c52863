package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Job describes what the hosts are to run.
type Job struct {
	Ranks   []int // on each host, in the order of Report.Hosts; nil: as in Report.Hosts
	Memory  int64 // bytes per rank, 0 if unknown
	Streams int   // connections between two ranks per channel
	Ports   bool  // ranks listen within a port range
}

// Finding is one observation about the hosts.
type Finding struct {
	Level string `json:"level"` // Error or Warning
	Text  string `json:"text"`  // what is found where, and what to do
}

// Levels of findings.
const (
	Error   = "error" // the job would not run
	Warning = "warning"
)

const (
	// slow is the ratio from which a host or a pair is reported. Shared machines vary by
	// less within minutes.
	slow = 1.5

	// farther is the ratio for round trips, which vary more. Only differences above
	// fartherBy seconds count: less does not matter to a step.
	farther, fartherBy = 3.0, 100e-6

	// clockSeconds is the tolerated error of a clock. Logs of several hosts are compared,
	// and requests to object stores are signed with the time.
	clockSeconds = 0.5

	// Less disk than littleDisk, or less memory per rank than littleMemory, is reported.
	littleDisk   = 1 << 30
	littleMemory = 256 << 20

	// ownFiles is the number of files that a rank opens besides its links, channels the
	// number of channels of these.
	ownFiles, channels = 64, 2
)

// Judge compares the hosts with the needs of a job.
func Judge(r *Report, job Job) (all []Finding) {
	ranks := 0
	for i := range r.Hosts {
		if h := &r.Hosts[i]; len(job.Ranks) == len(r.Hosts) {
			h.Ranks = job.Ranks[i]
		} else {
			h.Ranks = max(h.Ranks, 1)
		}
		ranks += r.Hosts[i].Ranks
	}
	for _, h := range r.Hosts {
		all = append(all, h.needs(job, ranks)...)
	}
	all = append(all, r.different()...)
	all = append(all, r.links()...)
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.Level, b.Level) })
	return all
}

func fault(format string, args ...any) Finding { return Finding{Error, fmt.Sprintf(format, args...)} }

func warning(format string, args ...any) Finding {
	return Finding{Warning, fmt.Sprintf(format, args...)}
}

// needs returns the findings on one host, in a job of this number of ranks.
func (h Host) needs(job Job, ranks int) (all []Finding) {
	switch need := int64(h.Ranks) * job.Memory; {
	case h.Available == 0:
	case need > h.Available:
		all = append(all, fault("host %s: %s of memory are needed for %s of %s, and %s are available: place fewer ranks there, or lower -mem", h.Name, size(need), plural.Of(h.Ranks, "rank"), size(job.Memory), size(h.Available)))
	case job.Memory == 0 && h.Available < int64(h.Ranks)*littleMemory:
		all = append(all, warning("host %s: %s of memory are available to %s: end other programs, or place fewer ranks there", h.Name, size(h.Available), plural.Of(h.Ranks, "rank")))
	}
	if need := uint64((ranks-1)*channels*max(job.Streams, 1) + ownFiles); h.OpenFiles > 0 && h.OpenFiles < need {
		all = append(all, fault("host %s: a process may open %d files, and a rank of this job needs %d: raise the limit (ulimit -n) there", h.Name, h.OpenFiles, need))
	}
	if job.Ports && h.FreePorts < h.Ranks {
		all = append(all, fault("host %s: %s of -ports are free, and %s need one each: give a larger range", h.Name, plural.Of(h.FreePorts, "port"), plural.Of(h.Ranks, "rank")))
	}
	for _, d := range h.Disks {
		switch {
		case d.Fault != "" && d.Use == "work":
			all = append(all, fault("host %s: the ranks cannot write to %s: %s: make it writable, or name another directory with -wdir", h.Name, d.Path, d.Fault))
		case d.Fault != "":
			all = append(all, warning("host %s: %s cannot be written: %s", h.Name, d.Path, d.Fault))
		case d.Free < littleDisk:
			all = append(all, warning("host %s: %s are free in %s: remove files there", h.Name, size(d.Free), d.Path))
		}
	}
	notes := h.Notes(h.Ranks)
	for _, note := range notes {
		all = append(all, warning("host %s: %s", h.Name, note))
	}
	if len(notes) == 0 && h.CPUs > 0 && h.Ranks > h.CPUs {
		all = append(all, warning("host %s: %d ranks share %s: one rank per core is fastest", h.Name, h.Ranks, plural.Of(h.CPUs, "CPU")))
	}
	if h.CPUs > 0 && h.Load > max(1, float64(h.CPUs)/4) {
		all = append(all, warning("host %s: other programs keep its %s busy (load %.1f): end them, or use -backup 1", h.Name, plural.Of(h.CPUs, "CPU"), h.Load))
	}
	return all
}

// different returns the findings on hosts that differ from the others.
func (r *Report) different() (all []Finding) {
	kernels, speeds := map[string]int{}, []float64{}
	for _, h := range r.Hosts {
		kernels[h.Kernels]++
		speeds = append(speeds, h.GFLOPS)
	}
	usual, typical := r.Hosts[0].Kernels, median(speeds)
	for k, n := range kernels {
		if n > kernels[usual] {
			usual = k
		}
	}
	for _, h := range r.Hosts {
		switch {
		case h.Kernels != usual:
			all = append(all, warning("host %s: it computes with %s, the other hosts with %s: its ranks may be slower; use hosts with the same CPU", h.Name, h.Kernels, usual))
		case h.GFLOPS > 0 && typical/h.GFLOPS > slow:
			all = append(all, warning("host %s: a thread computes %.0f GFLOP/s, %.1f times less than the median of %.0f: it is busy or throttled; every step waits for it", h.Name, h.GFLOPS, typical/h.GFLOPS, typical))
		}
		if s := h.ClockSeconds; s > clockSeconds || s < -clockSeconds {
			word := "ahead of"
			if s < 0 {
				word, s = "behind", -s
			}
			all = append(all, warning("host %s: its clock is %.1f s %s the median host: start a time service there, such as chrony", h.Name, s, word))
		}
	}
	return all
}

// links returns the findings on links. The value of a host is the value of its best pair: a
// slow link of one pair does not lower it. A pair is compared with the worse value of its
// two hosts, so a slow host does not put all of its pairs into the list.
func (r *Report) links() (all []Finding) {
	if len(r.Hosts) < 3 || len(r.Pairs) == 0 {
		return nil // there is nothing to compare with
	}
	rates, trips := map[string]float64{}, map[string]float64{}
	for _, p := range r.Pairs {
		for _, h := range p.Hosts {
			rates[h] = max(rates[h], p.rate())
			if t, known := trips[h]; !known || p.RoundTrip < t {
				trips[h] = p.RoundTrip
			}
		}
	}
	var bestRates, bestTrips []float64
	for _, h := range r.Hosts {
		bestRates, bestTrips = append(bestRates, rates[h.Name]), append(bestTrips, trips[h.Name])
	}
	rate, trip := median(bestRates), median(bestTrips)
	for i, h := range r.Hosts {
		if bestRates[i] > 0 && rate/bestRates[i] > slow {
			all = append(all, warning("host %s: its fastest link carries %s, %.1f times less than the median of %s: check its network card and its port of the switch, or choose another network with -net", h.Name, speed(bestRates[i]), rate/bestRates[i], speed(rate)))
		}
		if far(bestTrips[i], trip) {
			all = append(all, warning("host %s: its shortest round trip takes %s, %.0f times the median of %s: it is in another place, or busy", h.Name, micros(bestTrips[i]), bestTrips[i]/trip, micros(trip)))
		}
	}
	for _, p := range r.Pairs {
		a, b := p.Hosts[0], p.Hosts[1]
		if best := min(rates[a], rates[b]); p.rate() > 0 && best/p.rate() > slow {
			all = append(all, warning("hosts %s and %s: their link carries %s, %.1f times less than other links of both; the median is %s: check the route between them", a, b, speed(p.rate()), best/p.rate(), speed(rate)))
		}
		if best := max(trips[a], trips[b]); far(p.RoundTrip, best) {
			all = append(all, warning("hosts %s and %s: a round trip takes %s, %.0f times as long as on other links of both; the median is %s: check the route between them", a, b, micros(p.RoundTrip), p.RoundTrip/best, micros(trip)))
		}
	}
	return all
}

func far(trip, usual float64) bool { return trip > farther*usual && trip > usual+fartherBy }

// size formats a number of bytes, and speed bytes per second.
func size(n int64) string       { return scaled(float64(n), 1024, "iB") }
func speed(rate float64) string { return scaled(rate, 1000, "B/s") }

func scaled(x, step float64, unit string) string {
	i := 0
	for ; x >= 1000 && i < 4; i++ {
		x /= step
	}
	if i == 0 {
		unit = strings.TrimPrefix(unit, "i")
	}
	return fmt.Sprintf("%.3g %s%s", x, [...]string{"", "k", "M", "G", "T"}[i], unit)
}

func micros(seconds float64) string {
	if seconds >= 1e-3 {
		return fmt.Sprintf("%.3g ms", seconds*1e3)
	}
	return fmt.Sprintf("%.3g µs", seconds*1e6)
}
