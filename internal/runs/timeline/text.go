package timeline

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Verdict returns one line that names the rank that delayed the others.
func (a *Analysis) Verdict() string {
	if a.Steps == 0 {
		return "no training step is in the trace of every rank"
	}
	if len(a.Missing) > 0 {
		return fmt.Sprintf("the rank that the others waited for is not known: %s", a.missing())
	}
	if len(a.Ranks) == 1 {
		return fmt.Sprintf("%d steps of one rank: it has no other to wait for", a.Steps)
	}
	if a.few() {
		return fmt.Sprintf("%d steps are too few to tell which rank the others waited for: it takes %d", a.Steps, fewSteps)
	}
	if a.Probable() {
		l := a.Late[0]
		return fmt.Sprintf("probably rank %d%s: %.0f %% of %d steps waited for it (%s), and %.0f %% for rank %d", l.Rank, on(l.Host), 100*l.Share, a.Steps, l.causes(), 100*a.Late[1].Share, a.Late[1].Rank)
	}
	if !a.Stands() {
		return fmt.Sprintf("no rank stands out in %d steps: ranks wait for each other in %.0f %% of their time", a.Steps, 100*a.WaitShare())
	}
	l := a.Late[0]
	return fmt.Sprintf("%.0f %% of %d steps waited for rank %d%s: %s", 100*l.Share, a.Steps, l.Rank, on(l.Host), l.causes())
}

// missing returns the ranks without a timeline, as text.
func (a *Analysis) missing() string {
	const most = 8
	var names []string
	for _, r := range a.Missing[:min(len(a.Missing), most)] {
		names = append(names, fmt.Sprint(r))
	}
	if n := len(a.Missing) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	if len(a.Missing) == 1 {
		return "rank " + names[0] + " left no usable timeline"
	}
	return "ranks " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " left no usable timeline"
}

// causes returns the causes of at least half a percent of the steps, as text.
func (l *Late) causes() string {
	var all []string
	for _, c := range l.Causes {
		if c.Share >= 0.005 || len(all) == 0 {
			all = append(all, fmt.Sprintf("%s %.0f %%", c.Phase, 100*c.Share))
		}
	}
	return strings.Join(all[:min(len(all), 4)], ", ")
}

// Multiples of the next rank's delays by which a rank stands out, and probably does.
const (
	standsFactor   = 2
	probableFactor = 1.3
)

// fewSteps is the number of steps below which a delayed one may be chance.
const fewSteps = 20

func (a *Analysis) few() bool { return a.Steps < fewSteps }

// Stands reports whether one rank delays the others far more than the next one does.
func (a *Analysis) Stands() bool { return a.leads(standsFactor) }

// Probable reports whether one rank delays the others more than the next one does, though it does
// not stand out.
func (a *Analysis) Probable() bool { return !a.Stands() && a.leads(probableFactor) }

func (a *Analysis) leads(factor float64) bool {
	const least = 0.03 // share of the time of the steps
	if a.few() || len(a.Late) == 0 || a.Late[0].Seconds < float64(least*a.Seconds) || len(a.Late[0].Causes) == 0 {
		return false
	}
	return len(a.Late) == 1 || a.Late[0].Seconds >= float64(factor*a.Late[1].Seconds)
}

// WaitShare returns the share of all ranks' time in steps spent waiting for later ranks.
func (a *Analysis) WaitShare() float64 {
	waited, all := 0.0, 0.0
	for _, r := range a.Ranks {
		waited, all = waited+r.Waited, all+r.Seconds
	}
	return waited / max(all, 1e-9)
}

// advice holds the advice for a rank that is late in a phase.
var advice = map[string]string{
	"input":      "its input is slow: compare the load of its disk and cores with the other hosts; plain files are read faster than packed ones",
	"compute":    busy + "; -backup 1 does not wait for the slowest rank",
	"checkpoint": "it writes checkpoints: write them less often (train.checkpoint) or to a faster disk",
	"pull":       "it has more keys in its batch, or owns more rows, than the others: train -plan estimates both",
	"push":       "it has more keys in its batch, or owns more rows, than the others: train -plan estimates both",
	"update":     "it owns more rows than the others: train -plan estimates the rows of each rank",
}

const busy = "its cores are slower, or other programs use them: wdlrun doctor shows the load of each host"

// moreRows is the share of the mean number of rows from which a rank owns more than the others.
const moreRows = 1.1

// Advice returns what to do about the rank of the verdict, or "". It does not name a cause that the
// numbers of rows refute.
func (a *Analysis) Advice() string {
	if !a.Stands() && !a.Probable() {
		return ""
	}
	phase, sum := a.Late[0].Causes[0].Phase, int64(0)
	for _, n := range a.Rows {
		sum += n
	}
	if of := a.Late[0].Rank; of < len(a.Rows) && sum > 0 && slices.Contains([]string{"pull", "push", "update"}, phase) {
		if load := float64(a.Rows[of]) * float64(len(a.Rows)) / float64(sum); load < moreRows {
			return fmt.Sprintf("it owns %.2f times the mean number of rows, which does not explain it: %s", load, busy)
		}
	}
	return advice[phase]
}

// Write prints the analysis as text.
func (a *Analysis) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, a.Verdict())
	if text := a.Advice(); text != "" {
		fmt.Fprintf(&b, "  %s\n", text)
	}
	if len(a.Missing) > 0 {
		fmt.Fprintln(&b, "  a killed rank writes no timeline; after a failure, verdict.txt in the run's folder failure-… names the rank that ended the job")
	}
	if a.Stands() {
		fmt.Fprintf(&b, "  without its delays, %.2f s of %.2f s, training would be %.2f times as fast\n", a.Late[0].Seconds, a.Seconds, a.Late[0].Speedup)
	}
	if a.Steps > 0 {
		fmt.Fprintf(&b, "\nsteps %d to %d: %.2f s, median %s a step, %d exchanges; %s\n",
			a.First, a.Last, a.Seconds, short(a.MedianStep), a.Exchanges, a.clocks())
		a.table(&b)
		a.later(&b)
		a.slow(&b)
	}
	if a.Job != nil {
		a.Job.write(&b, len(a.Ranks))
	}
	if a.LeftOut != "" {
		fmt.Fprintf(&b, "note: %s\n", a.LeftOut)
	}
	for _, f := range a.Faults {
		fmt.Fprintf(&b, "note: %s\n", f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (a *Analysis) clocks() string {
	if a.ClockError == 0 {
		return "all ranks read one clock"
	}
	return "clocks are aligned to " + short(a.ClockError)
}

// maxRows bounds the rows of the printed table of ranks.
const shownRanks = 64

func (a *Analysis) table(b *strings.Builder) {
	heading := "own work and waiting for later ranks"
	if len(a.Missing) > 0 {
		heading = "own work, with waiting for ranks without a timeline, and waiting for other later ranks"
	}
	fmt.Fprintf(b, "\n%s, %% of the rank's time in steps:\n", heading)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "rank\t")
	for _, p := range a.Ranks[0].Phases {
		fmt.Fprintf(t, "%s\t", p.Phase)
	}
	fmt.Fprint(t, "waiting\tmost for\t\n")
	for _, r := range a.Ranks[:min(len(a.Ranks), shownRanks)] {
		fmt.Fprintf(t, "%d\t", r.Rank)
		for _, p := range r.Phases {
			fmt.Fprintf(t, "%.1f\t", 100*p.Own/max(r.Seconds, 1e-9))
		}
		whom := "-"
		if r.For >= 0 {
			whom = fmt.Sprintf("rank %d: %.1f", r.For, 100*r.ForTime/max(r.Seconds, 1e-9))
		}
		fmt.Fprintf(t, "%.1f\t%s\t\n", 100*r.Waited/max(r.Seconds, 1e-9), whom)
	}
	t.Flush()
	if n := len(a.Ranks) - shownRanks; n > 0 {
		fmt.Fprintf(b, "%d more ranks: see -json\n", n)
	}
	var parts []string
	for _, p := range a.Between {
		if p.Own >= 0.01*a.Seconds {
			parts = append(parts, fmt.Sprintf("%s %.2f s", p.Phase, p.Own))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "outside of steps, mean of the ranks: %s\n", strings.Join(parts, ", "))
	}
}

// later prints the ranks that came last.
func (a *Analysis) later(b *strings.Builder) {
	if len(a.Late) == 0 || a.few() {
		return
	}
	fmt.Fprintf(b, "\nsteps that waited for a rank (a delay of at least %.0f %% of the step), and for its phases:\n", 100*DelayShare)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "rank\tsteps\tshare\tdelay\twithout\t  causes\n")
	for _, l := range a.Late[:min(len(a.Late), 8)] {
		fmt.Fprintf(t, "%d\t%d\t%.0f %%\t%s\t%.2f×\t  %s\n", l.Rank, l.Steps, 100*l.Share, short(l.Seconds), l.Speedup, l.causes())
	}
	t.Flush()
}

func (a *Analysis) slow(b *strings.Builder) {
	fmt.Fprintf(b, "\nslowest steps:\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "step\ttime\tof the median\t  cause\n")
	for _, s := range a.Slowest {
		cause := fmt.Sprintf("no late rank; %s took longer than usual", s.Longest)
		if len(a.Missing) > 0 {
			cause = s.Longest + " took longer than usual"
		}
		if s.Late >= 0 {
			cause = fmt.Sprintf("waited %s for rank %d: %s", short(s.Delay), s.Late, s.Cause)
		}
		fmt.Fprintf(t, "%d\t%s\t%.1f×\t  %s\n", s.Step, short(s.Seconds), s.Factor, cause)
	}
	t.Flush()
}
