package online

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// freshness follows samples through the parts of an online loop: event → joined → trained →
// published → loaded → first answer. It has no clock and does no I/O.
//
// The samples of a version are known by their number: a training reads the samples of a join in their
// order, and both count them.
type freshness struct {
	before   int64       // samples that were joined before the loop began, whose times are not known
	joined   []joinedAt  // ascending
	trained  []trainedAt // ascending
	version  servedVersion
	latest   stages
	whole    stages    // of the last version that has answered
	totals   []float64 // event → loaded of the last versions
	rows     float64   // that the server has scored
	answered time.Time // when they became more
}

// joinedAt is a commit of the join.
type joinedAt struct {
	samples int64
	event   time.Time // the newest of the samples
	at      time.Time
}

// trainedAt is a line of the log of a training.
type trainedAt struct{ step, samples int64 }

// servedVersion is the last version that was loaded.
type servedVersion struct {
	number   int64
	loaded   time.Time
	rows     float64 // that the server had scored when it was loaded
	answered bool
}

// publishedAt is a version of the folder.
type publishedAt struct {
	number, step int64
	taken, at    time.Time // when the training had done the step, 0 if unknown; when the version could be loaded
	rollback     *int64    // the version whose rows it has
}

// stages are the times that the newest sample of a version took, in seconds. Those that are not known are
// below 0: all of a version that a rollback chose or whose samples were joined before the loop began, and Answer
// until there was a request. The others have the sum Total.
type stages struct {
	Version  int64   `json:"version"`
	Rollback *int64  `json:"rollback,omitempty"` // the version whose rows it has
	Join     float64 `json:"event_to_joined"`
	Train    float64 `json:"joined_to_trained"`
	Publish  float64 `json:"trained_to_published"`
	Load     float64 `json:"published_to_loaded"`
	Answer   float64 `json:"loaded_to_answer"`
	Total    float64 `json:"event_to_loaded"`
}

// spread is the distribution of the times from the newest event to the loaded version.
type spread struct {
	Versions int     `json:"versions"`
	Median   float64 `json:"p50"`
	P99      float64 `json:"p99"`
}

// keptTotals is the number of versions whose freshness is kept: five minutes at two versions a second.
const keptTotals = 600

// spread returns the distribution of the last versions, nil if there is none.
func (f *freshness) spread() *spread {
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

// load records that the server has a version. rows is the number of rows that it has scored.
func (f *freshness) load(v publishedAt, now time.Time, rows float64) {
	if v.number == f.version.number || len(f.joined) == 0 || len(f.trained) == 0 { // otherwise at a later look
		return
	}
	f.version = servedVersion{number: v.number, loaded: now, rows: rows}
	f.latest = stages{v.number, v.rollback, -1, -1, -1, -1, -1, -1}
	samples := f.samplesAt(v.step)
	if v.taken.IsZero() || v.rollback != nil || f.before > 0 && samples <= f.before {
		return
	}
	k, _ := slices.BinarySearchFunc(f.joined, samples, func(x joinedAt, n int64) int { return cmp.Compare(x.samples, n) })
	from := f.joined[min(k, len(f.joined)-1)]
	at := [...]time.Time{from.event, from.at, v.taken, v.at, now}
	for i := len(at) - 2; i >= 0; i-- { // the number of samples is an estimate, and clocks differ
		if at[i].After(at[i+1]) {
			at[i] = at[i+1]
		}
	}
	seconds := func(from, to int) float64 { return at[to].Sub(at[from]).Seconds() }
	f.latest = stages{v.number, nil, seconds(0, 1), seconds(1, 2), seconds(2, 3), seconds(3, 4), -1, seconds(0, 4)}
	f.totals = append(f.totals, f.latest.Total)
	f.totals = f.totals[max(0, len(f.totals)-keptTotals):]
}

// answer records the number of rows that the server has scored.
func (f *freshness) answer(rows float64, now time.Time) {
	v := &f.version
	if rows < f.rows { // another process
		v.rows = min(v.rows, rows)
	}
	if rows > f.rows {
		f.answered = now
	}
	f.rows = rows
	if v.number != 0 && !v.answered && rows > v.rows {
		v.answered = true
		if f.latest.Total >= 0 {
			f.latest.Answer = now.Sub(v.loaded).Seconds()
		}
		f.whole = f.latest
	}
}

// withoutRequests is the time without an answer after which a version need not have answered.
const withoutRequests = 10 * time.Second

// known returns the stages of the last version that has answered or, without requests, of the last one.
func (f *freshness) known(now time.Time) stages {
	if f.whole.Version != 0 && f.latest.Total >= 0 && now.Sub(f.answered) < withoutRequests {
		return f.whole
	}
	return f.latest
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
	}{{"joined", s.Join}, {"trained", s.Train}, {"published", s.Publish}, {"loaded", s.Load}, {"first answer", s.Answer}} {
		if x.seconds >= 0 {
			parts = append(parts, fmt.Sprintf("%.1f s → %s", x.seconds, x.name))
		}
	}
	return fmt.Sprintf("version %d: %s; %.1f s from event to loaded", s.Version, strings.Join(parts, " → "), s.Total)
}
