package wdl

import (
	"github.com/wdlrun/wdlrun/collective"
)

// TableReport says what a table holds at the end of a job and what this job has
// done to it, over all ranks.
type TableReport struct {
	Name     string `json:"name"`
	Rows     int64  `json:"rows"`              // held
	Bytes    int64  `json:"bytes"`             // memory of rows and index
	Inserted int64  `json:"inserted"`          // keys that were admitted and got a row
	Refused  int64  `json:"refused,omitempty"` // gradients of keys that were not admitted yet
	Evicted  int64  `json:"evicted,omitempty"` // rows given up
	ToDisk   int64  `json:"to_disk,omitempty"` // rows moved to a tier
	FromDisk int64  `json:"from_disk,omitempty"`
}

// tableWords is how many figures of a table the ranks sum.
const tableWords = 7

// report sums what the ranks' tables hold and have sent to each other.
func (t *Trainer) report() (tables []TableReport, sent int64, err error) {
	store, names := t.model.store, t.model.layout.tables
	sums := make([]int64, tableWords*len(names)+1)
	for i := range names {
		c := store.Table(i)
		copy(sums[tableWords*i:], []int64{c.Rows, c.Bytes, c.Inserted, c.Refused, c.Evicted, c.Frozen, c.Thawed})
	}
	sums[len(sums)-1] = store.Counters().BytesSent()
	if err := collective.AllReduce(t.comm, sums, collective.Sum); err != nil {
		return nil, 0, err
	}
	for i, x := range names {
		s := sums[tableWords*i:]
		tables = append(tables, TableReport{x.Name, s[0], s[1], s[2], s[3], s[4], s[5], s[6]})
	}
	return tables, sums[len(sums)-1], nil
}
