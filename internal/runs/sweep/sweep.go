package sweep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
)

// The methods of a sweep.
const (
	Grid   = "grid"
	Random = "random"
	ASHA   = "asha"
)

// Methods returns the names of the methods.
func Methods() []string { return []string{Grid, Random, ASHA} }

// Options configures a sweep.
type Options struct {
	Method    string `json:"method"`
	Trials    int    `json:"trials,omitempty"` // maximum number of trials; ignored for a grid
	Repeats   int    `json:"repeats"`          // number of seeds per trial
	Seed      uint64 `json:"seed"`             // seed of the draws
	Metric    string `json:"metric"`           // metric of the validation data
	Eta       int    `json:"eta,omitempty"`    // eta of ASHA
	MinEpochs int    `json:"min_epochs,omitempty"`
	Epochs    int    `json:"epochs"` // epochs of the configuration
}

// Rungs returns the epochs after which ASHA compares trials; for the other methods, the
// epochs of the configuration.
func (o Options) Rungs() []int {
	var all []int
	if o.Method == ASHA {
		for e := o.MinEpochs; e < o.Epochs; e *= o.Eta {
			all = append(all, e)
			if e > o.Epochs/o.Eta {
				break
			}
		}
	}
	return append(all, o.Epochs)
}

// Settings returns the settings of all trials.
func (o Options) Settings(s Space) ([][]Setting, error) {
	if o.Method == Grid {
		return s.Grid()
	}
	return s.Draw(o.Seed, o.Trials), nil
}

// Falling reports whether smaller values of a metric are better.
func Falling(metric string) bool {
	return slices.Contains([]string{"logloss", "normalised_entropy", "rmse", "mae"}, metric)
}

// Outcome is the result of a job.
type Outcome struct {
	Rung    int                `json:"rung"`
	Epochs  int                `json:"epochs"`               // allowed by the rung
	Best    int                `json:"best_epoch,omitempty"` // of the model, if early stopping restored an earlier one
	Repeat  int                `json:"repeat"`
	Seed    uint64             `json:"train_seed"`
	Run     string             `json:"run"`             // name of the run directory
	Error   string             `json:"error,omitempty"` // "": success
	Seconds float64            `json:"seconds"`
	Valid   map[string]float64 `json:"valid,omitempty"`
	Test    map[string]float64 `json:"test,omitempty"`
}

// EpochsOf describes the epochs of the models of one trial: 9, 4 of 50 or 3 to 5 of 50.
func EpochsOf(outcomes []Outcome) string {
	least, most, allowed := math.MaxInt, 0, 0
	for _, x := range outcomes {
		n := cmp.Or(x.Best, x.Epochs)
		least, most, allowed = min(least, n), max(most, n), max(allowed, x.Epochs)
	}
	text := fmt.Sprint(most)
	if least < most {
		text = fmt.Sprintf("%d to %d", least, most)
	}
	if least < allowed {
		text += fmt.Sprintf(" of %d", allowed)
	}
	return text
}

// Trial is a combination of settings.
type Trial struct {
	Number   int       `json:"number"` // from 1
	Settings []Setting `json:"settings"`
	Outcomes []Outcome `json:"outcomes"`
}

// Sweep is the content of sweep.json.
type Sweep struct {
	Format  int      `json:"format"`
	Version string   `json:"version"` // version of the program
	Options Options  `json:"options"`
	Trials  []*Trial `json:"trials"`
	Removed []string `json:"removed,omitempty"` // keys of the configuration that settings remove
	Best    int      `json:"best,omitempty"`    // number of the best trial so far
}

const format = 1

// New returns a sweep without outcomes.
func New(version string, o Options, settings [][]Setting) *Sweep {
	s := &Sweep{Format: format, Version: version, Options: o}
	for i, one := range settings {
		s.Trials = append(s.Trials, &Trial{Number: i + 1, Settings: one, Outcomes: []Outcome{}})
	}
	return s
}

// Parse parses sweep.json.
func Parse(b []byte) (*Sweep, error) {
	var s Sweep
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	o := s.Options
	bad := s.Format != format || len(s.Trials) == 0 || len(s.Trials) > MaxTrials || !slices.Contains(Methods(), o.Method) ||
		o.Repeats < 1 || o.Repeats > MaxRepeats || o.Epochs < 1 || o.Method == ASHA && (o.Eta < 2 || o.Eta > MaxValues || o.MinEpochs < 1)
	if bad {
		return nil, errors.New("sweep: the file was written by another version, or is not the state of a sweep")
	}
	rungs := len(o.Rungs())
	for i, t := range s.Trials {
		if t == nil || t.Number != i+1 || slices.ContainsFunc(t.Outcomes, func(x Outcome) bool {
			return x.Rung < 0 || x.Rung >= rungs || x.Repeat < 0 || x.Repeat >= o.Repeats
		}) {
			return nil, fmt.Errorf("sweep: trial %d is damaged", i+1)
		}
	}
	if s.Best < 0 || s.Best > len(s.Trials) {
		return nil, errors.New("sweep: the best trial does not exist")
	}
	return &s, nil
}

// Retry forgets the failures, so that Run trains these jobs again. It returns their number.
func (s *Sweep) Retry() (n int) {
	for _, t := range s.Trials {
		before := len(t.Outcomes)
		t.Outcomes = slices.DeleteFunc(t.Outcomes, func(x Outcome) bool { return x.Error != "" })
		n += before - len(t.Outcomes)
	}
	return n
}

// score returns the score of an outcome for the Scheduler; NaN for a failure.
func (s *Sweep) score(x Outcome) float64 {
	v, has := x.Valid[s.Options.Metric]
	switch {
	case x.Error != "" || !has:
		return math.NaN()
	case Falling(s.Options.Metric):
		return -v
	}
	return v
}

// Run runs the jobs without outcomes, at most parallel at a time, until ctx ends. work runs
// one job; if it returns an error, rather than an Outcome with Error set, the sweep ends.
// note is called after each outcome, by one goroutine at a time.
func (s *Sweep) Run(ctx context.Context, parallel int, work func(context.Context, Job) (Outcome, error), note func(*Trial, Outcome) error) error {
	plan := NewScheduler(len(s.Trials), s.Options.Repeats, len(s.Options.Rungs()), max(s.Options.Eta, 2))
	for i, t := range s.Trials {
		for _, x := range t.Outcomes {
			plan.Done(Job{i, x.Repeat, x.Rung}, s.score(x))
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	free := sync.NewCond(&mu)
	busy := 0
	stop := context.AfterFunc(ctx, func() { mu.Lock(); free.Broadcast(); mu.Unlock() })
	defer stop()
	one := func(j Job) {
		x, err := work(ctx, j)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			t := s.Trials[j.Trial]
			t.Outcomes = append(t.Outcomes, x)
			plan.Done(j, s.score(x))
			s.rank()
			err = note(t, x)
		}
		if err != nil {
			cancel(err)
		}
		busy--
		free.Broadcast()
	}
	mu.Lock()
	defer mu.Unlock()
	for ctx.Err() == nil {
		if busy < parallel {
			if j, ok := plan.Next(); ok {
				busy++
				go one(j)
				continue
			}
			if busy == 0 {
				return nil
			}
		}
		free.Wait()
	}
	for busy > 0 {
		free.Wait()
	}
	return context.Cause(ctx)
}

// At returns the outcomes of a trial at a rung, by seed; nil if not all seeds have a score.
func (s *Sweep) At(t *Trial, rung int) (all []Outcome) {
	for _, x := range t.Outcomes {
		if x.Rung == rung && !math.IsNaN(s.score(x)) {
			all = append(all, x)
		}
	}
	if len(all) < s.Options.Repeats {
		return nil
	}
	slices.SortFunc(all, func(a, b Outcome) int { return a.Repeat - b.Repeat })
	return all
}

// Peak returns the outcomes of the rung at which a trial was best; nil if it has none. A
// trial that continues may become worse.
func (s *Sweep) Peak(t *Trial) (best []Outcome) {
	for k := range s.Options.Rungs() {
		if at := s.At(t, k); at != nil && (best == nil || s.mean(at) > s.mean(best)) {
			best = at
		}
	}
	return best
}

// Near returns the numbers of the trials whose mean differs from the best trial's by at
// most the deviation of the best trial's seeds: they may be as good.
func (s *Sweep) Near() (near []int) {
	if s.Best == 0 {
		return nil
	}
	best, deviation := Spread(Of(s.Peak(s.Trials[s.Best-1]), s.Options.Metric, false))
	for _, t := range s.Trials {
		mean, _ := Spread(Of(s.Peak(t), s.Options.Metric, false))
		if t.Number != s.Best && math.Abs(mean-best) <= deviation {
			near = append(near, t.Number)
		}
	}
	return near
}

// mean returns the mean score of outcomes.
func (s *Sweep) mean(all []Outcome) (mean float64) {
	for _, x := range all {
		mean += s.score(x) / float64(len(all))
	}
	return mean
}

// Spread returns the mean of values and, if there are several, their standard deviation.
func Spread(values []float64) (mean, deviation float64) {
	for _, x := range values {
		mean += x
	}
	mean /= float64(len(values))
	if len(values) < 2 {
		return mean, math.NaN()
	}
	for _, x := range values {
		deviation += float64((x - mean) * (x - mean))
	}
	return mean, math.Sqrt(deviation / float64(len(values)-1))
}

// Of returns a metric of outcomes: of the test data if test is set, otherwise of the
// validation data.
func Of(all []Outcome, metric string, test bool) (values []float64) {
	for _, x := range all {
		from := x.Valid
		if test {
			from = x.Test
		}
		if v, has := from[metric]; has {
			values = append(values, v)
		}
	}
	return values
}

// Error returns the reason why a trial failed; "" if it did not.
func (t *Trial) Error() string {
	for _, x := range t.Outcomes {
		if x.Error != "" {
			return x.Error
		}
	}
	return ""
}

// Ranking returns the trials by the mean of the metric at their peak, the best first. Failed
// trials come after these, and trials that have not begun come last.
func (s *Sweep) Ranking() []*Trial {
	score := map[*Trial]float64{}
	for _, t := range s.Trials {
		if peak := s.Peak(t); peak != nil {
			score[t] = s.mean(peak)
		} else if len(t.Outcomes) == 0 {
			score[t] = math.Inf(-1)
		} else {
			score[t] = -math.MaxFloat64
		}
	}
	all := slices.Clone(s.Trials)
	slices.SortStableFunc(all, func(a, b *Trial) int { return cmp.Compare(score[b], score[a]) })
	return all
}

// rank updates Best.
func (s *Sweep) rank() {
	if best := s.Ranking()[0]; s.Peak(best) != nil {
		s.Best = best.Number
	}
}

// Pairs returns the settings as KEY=VALUE.
func (t *Trial) Pairs() (all []string) {
	for _, x := range t.Settings {
		all = append(all, x.Key+"="+x.Value)
	}
	return all
}

// Value returns the value of a key; "" if the trial has none.
func (t *Trial) Value(key string) string {
	for _, x := range t.Settings {
		if x.Key == key {
			return x.Value
		}
	}
	return ""
}

// Effect holds the metrics of the trials with one value of a key, or with values in one
// range.
type Effect struct {
	Value      string
	Trials     int
	Mean, Best float64
}

// ranges is the number of ranges into which numeric values are divided.
const ranges = 4

// Effects returns the metrics after the epochs of the first rung, grouped by the values of a
// key: by each value of a choice, and by ranges of a number with nearly equal numbers of
// trials.
func (s *Sweep) Effects(p Param) (all []Effect) {
	type point struct {
		x     float64
		text  string
		score float64
	}
	var points []point
	for _, t := range s.Trials {
		first, text := s.At(t, 0), t.Value(p.Key)
		if first == nil || text == "" {
			continue
		}
		mean, _ := Spread(Of(first, s.Options.Metric, false))
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !p.Numeric() {
			x = float64(slices.Index(p.Values, text))
		}
		points = append(points, point{x, text, mean})
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	for i := 0; i < len(points); {
		end := i + 1
		if p.Numeric() && len(points) > ranges {
			end = max(end, len(points)*(len(all)+1)/ranges)
		}
		for end < len(points) && points[end].x == points[end-1].x {
			end++
		}
		e := Effect{Value: points[i].text, Trials: end - i, Best: points[i].score}
		if last := points[end-1].text; last != e.Value {
			e.Value += " to " + last
		}
		for _, x := range points[i:end] {
			e.Mean += x.score / float64(end-i)
			if (x.score < e.Best) == Falling(s.Options.Metric) {
				e.Best = x.score
			}
		}
		all = append(all, e)
		i = end
	}
	return all
}
