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
	joined  []joinedAt  // ascending
	trained []trainedAt // ascending
	version servedVersion
	latest  stages
	whole   stages // of the last version that has answered
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
	event    time.Time
	loaded   time.Time
	rows     float64 // that the server had scored when it was loaded
	answered bool
}

// published is a version of the folder.
type publishedAt struct {
	number, step int64
	taken, at    time.Time // when the training had done the step; when the version could be loaded
}

// stages are the times that the newest sample of a version took, in seconds. Answer is below 0 until there
// was a request.
type stages struct {
	Version int64   `json:"version"`
	Join    float64 `json:"event_to_joined"`
	Train   float64 `json:"joined_to_trained"`
	Publish float64 `json:"trained_to_published"`
	Load    float64 `json:"published_to_loaded"`
	Answer  float64 `json:"loaded_to_answer"`
	Total   float64 `json:"event_to_loaded"`
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
	if v.number == f.version.number {
		return
	}
	k, _ := slices.BinarySearchFunc(f.joined, f.samplesAt(v.step), func(x joinedAt, n int64) int { return cmp.Compare(x.samples, n) })
	if len(f.joined) == 0 || len(f.trained) == 0 {
		return // nothing is known about the samples of the version
	}
	from := f.joined[min(k, len(f.joined)-1)]
	seconds := func(a, b time.Time) float64 { return max(0, b.Sub(a).Seconds()) }
	f.version = servedVersion{number: v.number, event: from.event, loaded: now, rows: rows}
	f.latest = stages{v.number, seconds(from.event, from.at), seconds(from.at, v.taken), seconds(v.taken, v.at), seconds(v.at, now), -1, seconds(from.event, now)}
}

// answer records the number of rows that the server has scored.
func (f *freshness) answer(rows float64, now time.Time) {
	if v := &f.version; v.number != 0 && !v.answered && rows > v.rows {
		v.answered, f.latest.Answer = true, now.Sub(v.loaded).Seconds()
		f.whole = f.latest
	}
}

// known returns the stages of the last version that has answered or, without requests, of the last one.
func (f *freshness) known() stages {
	if f.whole.Version != 0 {
		return f.whole
	}
	return f.latest
}

// line describes the stages.
func (s stages) line() string {
	if s.Version == 0 {
		return "no version is served yet"
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
