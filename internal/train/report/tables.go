package report

import (
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/runs/live"
	"github.com/wdlrun/wdlrun/sparse"
)

// TableReport describes a table at the end of a job and the work of this job on it, over all
// ranks.
type TableReport struct {
	Name     string `json:"name"`
	Strategy string `json:"strategy"`          // see package sparse
	Why      string `json:"why"`               // reason for the strategy
	Rows     int64  `json:"rows"`              // rows at the end
	Bytes    int64  `json:"bytes"`             // memory of rows and index
	Sent     int64  `json:"bytes_sent"`        // in training steps: keys, rows and gradients
	Planned  Needs  `json:"planned"`           // planned Rows, Bytes and Sent
	Inserted int64  `json:"inserted"`          // keys that were admitted and got a row
	Refused  int64  `json:"refused,omitempty"` // gradients of keys that were not admitted yet
	Evicted  int64  `json:"evicted,omitempty"` // rows evicted
	ToDisk   int64  `json:"to_disk,omitempty"` // rows moved to a tier
	FromDisk int64  `json:"from_disk,omitempty"`
	Ahead    int64  `json:"read_ahead,omitempty"` // of those, read during the previous step
}

// RankReport describes the load of a rank as an owner, measured and planned.
type RankReport struct {
	Shards  int   `json:"shards"`
	Rows    int64 `json:"rows"`
	Bytes   int64 `json:"bytes"`
	Sent    int64 `json:"bytes_sent"`
	Planned Needs `json:"planned"`
}

// Needs is the planned size at the end of a training and the planned traffic of the steps of
// this job.
type Needs struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
	Sent  int64 `json:"bytes_sent"`
}

// tableWords is the number of values per table that the ranks sum; rankWords is the number of
// values that each rank sends.
const (
	tableWords = 9
	rankWords  = 4
)

// Tables adds to a result the rows that the ranks' tables hold and the bytes that they have
// sent, compared with the plan. The trainer took its first step after step began, or the first one of this
// job. The result must have its steps.
func (r *Reporter) Tables(t *step.Trainer, p *plan.Plan, began int64, res *Result) error {
	if _, err := r.gather(Own{Effort: r.slow.was, Store: t.Store(), Plan: p}); err != nil {
		return err
	}
	r.show(res.Steps, Own{Plan: p, LeftOut: live.LeftOut{Bad: res.Input.Bad, Files: res.Input.BadFiles, Lost: res.Input.Lost}}, true)
	store, size, steps := t.Store(), r.Comm.Size(), res.Steps-max(r.since.Step, began)
	at := tableWords * len(p.Tables)
	sums := make([]int64, at+rankWords*size+1)
	own := sums[at+rankWords*r.Comm.Rank():][:rankWords]
	own[0] = int64(len(store.Shards().Owned()))
	for i := range p.Tables {
		c := store.Table(i)
		copy(sums[tableWords*i:], []int64{c.Rows, c.Bytes, c.CarriedBytes, c.Inserted, c.Refused, c.Evicted, c.ToDisk, c.FromDisk, c.ReadAhead})
		own[1], own[2], own[3] = own[1]+c.Rows, own[2]+c.Bytes, own[3]+c.CarriedBytes
	}
	sums[len(sums)-1] = store.Counters().BytesSent()
	if err := collective.AllReduce(r.Comm, sums, collective.Sum); err != nil {
		return err
	}
	for i, plan := range p.Tables {
		s := sums[tableWords*i:]
		res.Tables = append(res.Tables, TableReport{
			Name: plan.Name, Strategy: plan.Strategy.String(), Why: plan.Why, Rows: s[0], Bytes: s[1], Sent: s[2],
			Planned:  Needs{plan.Rows, plan.MemoryBytes, plan.StepBytes * steps},
			Inserted: s[3], Refused: s[4], Evicted: s[5], ToDisk: s[6], FromDisk: s[7], Ahead: s[8],
		})
	}
	for rank, plan := range p.Ranks {
		s := sums[at+rankWords*rank:]
		res.Ranks = append(res.Ranks, RankReport{int(s[0]), s[1], s[2], s[3], Needs{plan.Rows, plan.MemoryBytes, plan.WireBytes * steps}})
	}
	res.SparseBytesSent = sums[len(sums)-1]
	res.Imbalance, res.PlannedImbalance = uneven(res.Ranks), p.Imbalance
	return nil
}

// uneven returns the largest number of bytes of a rank divided by the mean.
func uneven(ranks []RankReport) float64 {
	var p sparse.Plan
	for _, r := range ranks {
		p.Ranks = append(p.Ranks, sparse.RankLoad{ShardLoad: sparse.ShardLoad{WireBytes: r.Sent}})
	}
	return p.Imbalance()
}
