package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/live"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// lookout is a watch with the state that it needs from one window to the next.
type lookout struct {
	*watch
	since time.Time
	step  int64
	first Effort // effort of this rank when the job began
	was   Effort // effort of this rank at the last window
	words []int64
	links losses
	lines rankLines
}

// rankLines is the state of the lines about ranks in metrics.jsonl.
type rankLines struct {
	opened time.Time
	at     time.Time // time and step of the last line
	step   int64
	totals []time.Duration // by rank and phase of rankPhases, at that line
}

// rankPhases are the phases of a step.
var rankPhases = [...]trace.Phase{trace.Input, trace.Pull, trace.Compute, trace.Push, trace.Sync, trace.Update}

// Lines about ranks are at least linePause apart, and 1/lineShare of the time since the job
// began. So a day has 3,000 lines.
const (
	linePause = time.Second
	lineShare = 500
)

// CompareDue reports on rank 0 whether the ranks are to be compared after a step.
func (r *Reporter) CompareDue(step int64) bool {
	l := r.slow
	return step-l.step >= slowSteps && time.Since(l.since) >= slowWindow
}

// Own holds the values that a rank contributes to a comparison.
type Own struct {
	Effort Effort
	Store  *sparse.Store
	Plan   *plan.Plan
	Resent Resenter
	live.LeftOut
}

// Compare compares the work of all ranks since the last window and returns messages for the
// user.
func (r *Reporter) Compare(step int64, own Own) (lines []string, err error) {
	by, err := r.gather(own)
	if err != nil {
		return nil, err
	}
	l := r.slow
	if len(by) > 1 {
		lines = l.addWindow(time.Since(l.since), step-l.step, by)
		lines = append(lines, l.links.addWindow(time.Since(l.since), r.lost())...)
	}
	l.since, l.step, l.was = time.Now(), step, own.Effort
	r.show(step, own, false)
	return lines, nil
}

// Words that are summed over the ranks: the words of each rank, which are 0 on other ranks, and
// the words of each table.
const (
	effortWords = 4
	lossAt      = effortWords + 1 + trace.Phases // effort in the window, CPU time and phases since the job began
	ownWords    = lossAt + lossWords
	sharedWords = 5
)

// gather returns the efforts of all ranks in the window. The other sums remain in the words.
func (r *Reporter) gather(own Own) ([]Effort, error) {
	size, l := r.Comm.Size(), r.slow
	n := ownWords*size + sharedWords*len(own.Plan.Tables)
	l.words = slices.Grow(l.words[:0], n)[:n]
	clear(l.words)
	mine, d := l.words[ownWords*r.Comm.Rank():][:ownWords], own.Effort.minus(l.was)
	copy(mine, []int64{int64(d.Input), int64(d.Compute), int64(d.CPU), int64(d.Batches), int64(own.Effort.CPU - l.first.CPU)})
	for p, total := range r.Rec.Totals() {
		mine[effortWords+1+p] = int64(total - r.since.Totals[p])
	}
	lost := own.Resent.worst(l.hosts)
	copy(mine[lossAt:], lost[:])
	for i := range own.Plan.Tables {
		c := own.Store.Table(i)
		copy(l.words[ownWords*size+sharedWords*i:], []int64{c.Rows, c.Bytes, c.Inserted, c.Evicted, c.CarriedBytes})
	}
	if err := collective.AllReduce(r.Comm, l.words, collective.Sum); err != nil {
		return nil, err
	}
	by := make([]Effort, size)
	for i := range by {
		x := l.words[ownWords*i:]
		by[i] = Effort{time.Duration(x[0]), time.Duration(x[1]), time.Duration(x[2]), time.Duration(x[3])}
	}
	return by, nil
}

// lost returns the words about losses of all ranks in the window that was gathered last.
func (r *Reporter) lost() (by [][lossWords]int64) {
	for rank := range r.Comm.Size() {
		by = append(by, [lossWords]int64(r.slow.words[ownWords*rank+lossAt:]))
	}
	return by
}

// show updates the dashboard and metrics.jsonl with the gathered values of a step.
func (r *Reporter) show(step int64, own Own, last bool) {
	r.times(step, last)
	if r.board == nil {
		return
	}
	l, size := r.slow, r.Comm.Size()
	u := live.Update{Slow: l.now(), LeftOut: own.LeftOut}
	u.Bad, u.Files, u.Lost = u.Bad-r.since.Bad, u.Files-r.since.Files, u.Lost-r.since.Lost
	for i := range size {
		x := l.words[ownWords*i+effortWords:]
		k := live.Rank{CPU: time.Duration(x[0])}
		for p := range k.Phases {
			k.Phases[p] = time.Duration(x[1+p])
		}
		u.Ranks = append(u.Ranks, k)
	}
	for i, t := range own.Plan.Tables {
		x := l.words[ownWords*size+sharedWords*i:]
		u.Tables = append(u.Tables, live.Table{Name: t.Name, Rows: x[0], Bytes: x[1], Inserted: x[2], Evicted: x[3], Sent: x[4]})
	}
	r.board.Gathered(u)
}

// times appends a line about the ranks to metrics.jsonl on rank 0, if one is due.
func (r *Reporter) times(step int64, last bool) {
	l, now := &r.slow.lines, time.Now()
	pause := max(linePause, now.Sub(l.opened)/lineShare)
	base := l.totals == nil && r.since.Step != l.step // the totals include steps before a recovery
	if r.Comm.Rank() != 0 || step <= l.step || !base && !last && now.Sub(l.at) < pause {
		return
	}
	t := runs.RankTimes{Event: runs.RankEvent, Time: now.UTC(), Step: step}
	for _, p := range rankPhases {
		t.Phases = append(t.Phases, p.String())
	}
	size := min(r.Comm.Size(), runs.MaxRanks)
	if l.totals == nil {
		l.totals = make([]time.Duration, size*len(rankPhases))
	}
	for rank := range size {
		words, was := r.slow.words[ownWords*rank+effortWords+1:], l.totals[len(rankPhases)*rank:]
		var seconds []float64
		for i, p := range rankPhases {
			total := time.Duration(words[p])
			seconds = append(seconds, digits((total-was[i]).Seconds()/float64(step-l.step)))
			was[i] = total
		}
		t.Ranks = append(t.Ranks, seconds)
	}
	l.at, l.step = now, step
	if base {
		return
	}
	if line, err := json.Marshal(t); err != nil {
		r.Warn(fmt.Sprintf("the times of ranks are not kept: %v", err))
	} else {
		r.log.write(line)
		r.events.ranks(&t)
	}
}

// digits rounds to four significant digits.
func digits(x float64) float64 {
	if x <= 0 {
		return 0
	}
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // never fails
	return y
}
