package timeline

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/wdlrun/wdlrun/trace"
)

// Job is the time of a whole job: its parts in the order of their first start.
type Job struct {
	Seconds float64 `json:"seconds"`
	Parts   []Part  `json:"parts"`
	Alone   float64 `json:"alone_seconds"` // sum over the parts: more ranks do not shorten it
}

// Part is a phase outside of steps, or all steps.
type Part struct {
	Name    string  `json:"part"`
	Seconds float64 `json:"seconds"`       // mean over the ranks
	Alone   float64 `json:"alone_seconds"` // one rank was in it, and all others waited for it
}

// stepsPart is the index of the part of all steps, after the phases.
const stepsPart = trace.Phases

// partOf returns the part of a span.
func partOf(s *Span) int {
	if inStep(s.Phase) {
		return stepsPart
	}
	return int(s.Phase)
}

// job divides the time of the job. It returns nil if the timelines do not have its start.
func (t *Timeline) job() *Job {
	var sum, alone, first [trace.Phases + 1]int64
	var bounds []int64
	begin, end := int64(1<<62), int64(-1<<62)
	for _, r := range t.Ranks {
		if r.Dropped > 0 || len(t.Missing) > 0 {
			return nil
		}
		for i := range r.Spans {
			s := &r.Spans[i]
			p := partOf(s)
			sum[p] += s.End - s.Start
			if begin, end = min(begin, s.Start), max(end, s.End); first[p] == 0 || s.Start < first[p] {
				first[p] = s.Start
			}
			if p != stepsPart {
				bounds = append(bounds, s.Start, s.End)
			}
		}
	}
	if len(bounds) == 0 || begin >= end {
		return nil
	}
	slices.Sort(bounds)
	at := make([]int, len(t.Ranks))
	for i := 1; i < len(bounds); i++ {
		if p := t.alone(at, bounds[i-1], bounds[i]); p >= 0 {
			alone[p] += bounds[i] - bounds[i-1]
		}
	}
	j := &Job{Seconds: seconds(end - begin)}
	for p, d := range sum {
		if d > 0 {
			name := "steps"
			if p != stepsPart {
				name = trace.Phase(p).String()
			}
			j.Parts = append(j.Parts, Part{name, seconds(d) / float64(len(t.Ranks)), seconds(alone[p])})
			j.Alone += seconds(alone[p])
		}
	}
	order := func(p Part) int64 {
		for i := range first {
			if i == stepsPart || trace.Phase(i).String() == p.Name {
				return first[i]
			}
		}
		return 0
	}
	slices.SortStableFunc(j.Parts, func(x, y Part) int { return int(min(max(order(x)-order(y), -1), 1)) })
	return j
}

// alone returns the part of the only rank that does not wait from one bound of spans to the next,
// −1 if there are several or none. at holds a position in the spans of each rank.
func (t *Timeline) alone(at []int, from, to int64) (part int) {
	part = -1
	if from == to || len(t.Ranks) == 1 {
		return -1
	}
	for r, rank := range t.Ranks {
		for at[r] < len(rank.Spans) && rank.Spans[at[r]].End <= from {
			at[r]++
		}
		if at[r] == len(rank.Spans) || rank.Spans[at[r]].Start > from || rank.Spans[at[r]].Phase == trace.Wait {
			continue
		}
		if part >= 0 {
			return -1
		}
		part = partOf(&rank.Spans[at[r]])
	}
	return part
}

// write prints the parts.
func (j *Job) write(b *strings.Builder, ranks int) {
	fmt.Fprintf(b, "\nthe whole job: %s", short(j.Seconds))
	if ranks > 1 {
		fmt.Fprintf(b, "; for %.0f %% of it one rank worked and the others waited, which more ranks do not shorten", 100*j.Alone/j.Seconds)
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	heading := "part\tmean of the ranks\tshare\t"
	if ranks > 1 {
		heading += "one rank alone\t"
	}
	fmt.Fprintln(t, heading)
	for _, p := range j.Parts {
		if p.Seconds < 0.001*j.Seconds {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%.1f %%\t", p.Name, short(p.Seconds), 100*p.Seconds/j.Seconds)
		if ranks > 1 {
			fmt.Fprintf(t, "%s\t", short(p.Alone))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}
