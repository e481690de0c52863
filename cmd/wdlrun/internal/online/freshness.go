package online

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// freshness follows samples through the parts of an online loop: event → joined → trained →
// published → loaded. It has no clock and does no I/O.
//
// The samples of a version are known by their number: a training reads the samples of a join in their
// order, and both count them.
type freshness struct {
	before  int64       // samples that were joined before the loop began, whose times are not known
	joined  []joinedAt  // ascending
	trained []trainedAt // ascending
	latest  stages      // of the newest version that was loaded
	totals  []float64   // event → loaded of the last versions
}

// joinedAt is a commit of the join.
type joinedAt struct {
	samples int64
	event   time.Time // the newest of the samples
	at      time.Time
}

// trainedAt is a line of the log of a training.
type trainedAt struct{ step, samples int64 }

// publishedAt is a version of the folder.
type publishedAt struct {
	number, step int64
	taken, at    time.Time // when the training had done the step, 0 if unknown; when the version could be loaded
	rollback     *int64    // the version whose rows it has
}

// stages are the times that the newest sample of a version took, in seconds. They are below 0 if they are not
// known: for a version that a rollback chose or whose samples were joined before the loop began. Total is their sum.
type stages struct {
	Version  int64   `json:"version"`
	Rollback *int64  `json:"rollback,omitempty"` // the version whose rows it has
	Join     float64 `json:"event_to_joined"`
	Train    float64 `json:"joined_to_trained"`
	Publish  float64 `json:"trained_to_published"`
	Load     float64 `json:"published_to_loaded"`
	Total    float64 `json:"event_to_loaded"`
}

// answered is the newest version that has answered a request.
type answered struct {
	Version int64   `json:"version"`
	After   float64 `json:"loaded_to_answer"` // seconds
}

// spread is the distribution of the times from the newest event to the loaded version.
type spread struct {
	Versions int     `json:"versions"`
	Median   float64 `json:"p50"`
	P99      float64 `json:"p99"`
}

func (s *spread) line() string {
	return fmt.Sprintf("of the last %s, half within %.2f s, 99 %% within %.2f s", plural.Of(s.Versions, "version"), s.Median, s.P99)
}

func (a *answered) line() string {
	return fmt.Sprintf("version %d gave its first answer %.2f s after it was loaded", a.Version, a.After)
}

// keptTotals is the number of versions whose freshness is kept: five minutes at two versions a second.
const keptTotals = 600

// distribution returns the distribution of the last versions, nil if there is none.
func (f *freshness) distribution() *spread {
	n := len(f.totals)
	if n == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(f.totals))
	return &spread{n, sorted[(n-1)/2], sorted[(99*n+99)/100-1]}
}

const keptCommits = 4096 // older commits are those of samples that have been trained on long ago

func (f *freshness) join(x joinedAt) {
	if n := len(f.joined); n == 0 || f.joined[n-1].samples < x.samples {
		f.joined = append(f.joined, x)
		f.joined = f.joined[max(0, len(f.joined)-keptCommits):]
	}
}

func (f *freshness) train(x trainedAt) {
	if n := len(f.trained); n > 0 && f.trained[n-1].step >= x.step { // a resumed training repeats steps
		f.trained = slices.DeleteFunc(f.trained, func(y trainedAt) bool { return y.step >= x.step })
	}
	f.trained = append(f.trained, x)
	f.trained = f.trained[max(0, len(f.trained)-keptCommits):]
}

// samplesAt returns how many samples a training had used at a step. Between lines of its log, and after
// the last one, steps are taken to have equally many samples.
func (f *freshness) samplesAt(step int64) int64 {
	var before, after trainedAt // of the step
	for _, x := range f.trained {
		if x.step <= step {
			before = x
		} else if after.step == 0 {
			after = x
		}
	}
	steps, samples := after.step-before.step, after.samples-before.samples
	if after.step == 0 {
		steps, samples = before.step, before.samples
	}
	return before.samples + (step-before.step)*samples/max(steps, 1)
}

// load records that the server has a version since a time.
func (f *freshness) load(v publishedAt, since time.Time) {
	if v.number == f.latest.Version || len(f.joined) == 0 || len(f.trained) == 0 { // otherwise at a later look
		return
	}
	f.latest = stages{v.number, v.rollback, -1, -1, -1, -1, -1}
	samples := f.samplesAt(v.step)
	if v.taken.IsZero() || v.rollback != nil || f.before > 0 && samples <= f.before {
		return
	}
	k, _ := slices.BinarySearchFunc(f.joined, samples, func(x joinedAt, n int64) int { return cmp.Compare(x.samples, n) })
	from := f.joined[min(k, len(f.joined)-1)]
	at := [...]time.Time{from.event, from.at, v.taken, v.at, since}
	for i := len(at) - 2; i >= 0; i-- { // the number of samples is an estimate, and clocks differ
		if at[i].After(at[i+1]) {
			at[i] = at[i+1]
		}
	}
	seconds := func(from, to int) float64 { return at[to].Sub(at[from]).Seconds() }
	f.latest = stages{v.number, nil, seconds(0, 1), seconds(1, 2), seconds(2, 3), seconds(3, 4), seconds(0, 4)}
	f.totals = append(f.totals, f.latest.Total)
	f.totals = f.totals[max(0, len(f.totals)-keptTotals):]
}

// line describes the stages.
func (s stages) line() string {
	switch {
	case s.Version == 0:
		return "no version is served yet"
	case s.Rollback != nil:
		return fmt.Sprintf("version %d: a rollback to version %d", s.Version, *s.Rollback)
	case s.Total < 0:
		return fmt.Sprintf("version %d: the times of its samples are not known", s.Version)
	}
	parts := []string{"event"}
	for _, x := range []struct {
		name    string
		seconds float64
	}{{"joined", s.Join}, {"trained", s.Train}, {"published", s.Publish}, {"loaded", s.Load}} {
		parts = append(parts, fmt.Sprintf("%.2f s → %s", x.seconds, x.name))
	}
	return fmt.Sprintf("version %d: %s; %.2f s from event to loaded", s.Version, strings.Join(parts, " → "), s.Total)
}
