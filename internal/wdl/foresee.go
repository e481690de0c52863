package wdl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/wdl/plan"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// Foresee plans the training of the options on so many ranks, in this process, and
// trains nothing: it reads the data once, as a training does for its encodings, and
// looks at a sample. shared says that the ranks will share memory.
func Foresee(ctx context.Context, o Options, ranks int, shared bool) (*plan.Plan, error) {
	var from *checkpoint.Checkpoint
	if o.Resume != "" {
		var err error
		if from, _, err = checkpoint.Resolve(o.Resume); err != nil {
			return nil, save.ResumeHint(err, o.Resume)
		}
	}
	c, _, err := o.config(from)
	if err != nil {
		return nil, err
	}
	if err := o.fits(c, ranks); err != nil {
		return nil, err
	}
	if c.Data.Follow.On {
		return nil, errors.New("wdl: plan: data.follow: a stream has no whole to plan from: name its files so far in data.train, without data.follow")
	}
	if o.Tolerance, err = o.Tolerance.Of(c); err != nil {
		return nil, err
	}
	j := NewJob(collective.New(mem.New(1, 1)[0]), trace.New(1), o)
	j.config = c
	if err := j.survey(ctx, from); err != nil {
		return nil, err
	}
	if err := j.surveyOthers(ctx); err != nil {
		return nil, err
	}
	g, err := j.given(from, ranks, ranks > 1 && shared)
	if err != nil {
		return nil, err
	}
	return plan.Foresee(ctx, c, j.encoder, j.train, ranks, g)
}

// Differs says in a line how what was measured compares with what was foreseen.
func (r Result) Differs() string {
	var rows, bytes, sent [2]int64
	var others []string
	for _, t := range r.Tables {
		for i, x := range [2]Needs{t.Planned, {t.Rows, t.Bytes, t.Sent}} {
			rows[i], bytes[i], sent[i] = rows[i]+x.Rows, bytes[i]+x.Bytes, sent[i]+x.Sent
		}
		if t.Strategy != sparse.Rows.String() {
			others = append(others, t.Name+" "+t.Strategy)
		}
	}
	line := fmt.Sprintf("planned %d rows (%s), %s sent in steps, busiest owner %.2f of the mean; actual %s sent, busiest owner %.2f",
		rows[0], plan.Bytes(bytes[0]), plan.Bytes(sent[0]), r.PlannedImbalance, plan.Bytes(sent[1]), r.Imbalance)
	if rows[0] == 0 { // a stream has no sample to foresee by
		line = fmt.Sprintf("%s sent in steps; busiest owner %.2f of the mean", plan.Bytes(sent[1]), r.Imbalance)
	}
	if r.Hot != nil {
		line += fmt.Sprintf("; %d rows on every rank, copied %d times", r.Hot.Rows, r.Hot.Choices)
	}
	if len(others) > 0 {
		line += "; " + strings.Join(others, ", ")
	}
	for _, x := range r.Uncounted {
		line += fmt.Sprintf("; not measured: rank %d until step %d, whose counters were lost with it", x.Rank, x.Step)
	}
	return line
}
