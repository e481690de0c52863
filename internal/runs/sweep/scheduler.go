package sweep

import (
	"cmp"
	"math"
	"slices"
)

// Job is a training to begin or to continue: a trial with one of its seeds, up to the epochs
// of a rung.
type Job struct {
	Trial, Repeat, Rung int
}

// standing is the state of a job.
type standing int8

const (
	absent standing = iota
	running
	finished
	failed
)

// rung holds the state and the score of a trial's repeats in a rung.
type rung struct {
	standing []standing
	score    []float64
}

// mean returns the mean score of all repeats; ok is false if a score is missing.
func (r *rung) mean() (score float64, ok bool) {
	for i, s := range r.standing {
		if s != finished {
			return 0, false
		}
		score += r.score[i]
	}
	return score / float64(len(r.standing)), true
}

func (r *rung) has(s standing) bool { return slices.Contains(r.standing, s) }

func (r *rung) begun() bool { return r.has(running) || r.has(finished) || r.has(failed) }

// Scheduler decides what to train next. Higher scores are better. It is not safe for
// concurrent use.
type Scheduler struct {
	eta    int
	trials [][]rung // by trial and rung
}

// NewScheduler returns a scheduler for the given numbers of trials, repeats and rungs. With
// one rung, eta has no effect.
func NewScheduler(trials, repeats, rungs, eta int) *Scheduler {
	s := &Scheduler{eta: eta, trials: make([][]rung, trials)}
	for t := range s.trials {
		s.trials[t] = make([]rung, rungs)
		for k := range s.trials[t] {
			s.trials[t][k] = rung{make([]standing, repeats), make([]float64, repeats)}
		}
	}
	return s
}

// Next returns a job to start; ok is false if none can start before another one is done, or
// if all are done.
func (s *Scheduler) Next() (Job, bool) {
	for t, rungs := range s.trials { // first the remaining repeats of trials that have begun
		for k := range rungs {
			if r := &rungs[k]; r.begun() && !r.has(failed) {
				if i := slices.Index(r.standing, absent); i >= 0 {
					return s.start(Job{t, i, k}), true
				}
			}
		}
	}
	if len(s.trials) == 0 {
		return Job{}, false
	}
	for k := len(s.trials[0]) - 2; k >= 0; k-- {
		if t := s.promotable(k); t >= 0 {
			return s.start(Job{t, 0, k + 1}), true
		}
	}
	t := slices.IndexFunc(s.trials, func(rungs []rung) bool { return !rungs[0].begun() })
	if t < 0 {
		return Job{}, false
	}
	return s.start(Job{t, 0, 0}), true
}

// promotable returns the best trial among the top 1/eta of rung k that has not begun the next
// one; -1 if there is none.
func (s *Scheduler) promotable(k int) int {
	type scored struct {
		trial int
		score float64
	}
	var all []scored
	for t, rungs := range s.trials {
		if score, ok := rungs[k].mean(); ok {
			all = append(all, scored{t, score})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	for _, x := range all[:len(all)/s.eta] {
		if !s.trials[x.trial][k+1].begun() {
			return x.trial
		}
	}
	return -1
}

func (s *Scheduler) start(j Job) Job {
	s.trials[j.Trial][j.Rung].standing[j.Repeat] = running
	return j
}

// Done records the score of a job, which may have been started by an earlier scheduler. A NaN
// is a failure.
func (s *Scheduler) Done(j Job, score float64) {
	r := &s.trials[j.Trial][j.Rung]
	r.standing[j.Repeat], r.score[j.Repeat] = finished, score
	if math.IsNaN(score) {
		r.standing[j.Repeat] = failed
	}
}
