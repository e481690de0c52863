package sparse

// Demand is what batches request of a table, summed over ranks and steps.
type Demand struct {
	Steps  int64 `json:"steps"`
	Values int64 `json:"values"` // keys in all bags, including repetitions
	Bags   int64 `json:"bags"`
	Sums   int64 `json:"sums"`   // pairs of a bag and another rank that owns keys of it
	Unique int64 `json:"unique"` // distinct keys of each rank in each step
	Union  int64 `json:"union"`  // distinct keys of all ranks in each step
}

// MessageBytes is the cost of a message in bytes; see Exchanges.
const MessageBytes = 16 << 10

// saves is the share of the bytes of Rows that Pooled must save to be chosen. The demand is
// measured on a sample, and only Rows can be sent ahead.
const saves = 0.2

// Choose returns the strategy of a table: Pooled if the table can have it and it saves a fifth
// of the bytes of Rows, else Rows.
func Choose(d Demand, t Table, ranks int) Strategy {
	rows, pooled := Rows.Bytes(d, t, ranks), Pooled.Bytes(d, t, ranks)
	if Pooled.Refuses(t) == nil && pooled < rows && float64(pooled) <= (1-saves)*float64(rows) {
		return Pooled
	}
	return Rows
}

// Bytes returns the bytes that all ranks together send in a training step for a table, as
// Counters would count them. It assumes that keys are spread evenly over the
// ranks.
func (s Strategy) Bytes(d Demand, t Table, ranks int) int64 {
	if d.Steps == 0 || ranks < 2 {
		return 0
	}
	w, width, steps, others := t.Wire, 0, float64(d.Steps), float64(ranks-1)
	for _, p := range t.Parts {
		width += p.Dim
	}
	away := others / float64(ranks)
	if s == Pooled {
		return int64((float64(12*float64(d.Values)*away) + float64(4*float64(d.Bags)*others) + float64(float64(8*width)*float64(d.Sums))) / steps)
	}
	return int64(float64(d.Unique) * away * float64(8+(w.Rows.bytes()+w.Gradients.bytes())*width) / steps)
}

// Exchanges returns the number of additional all-to-alls per step if tables use the
// strategy. Each message of an all-to-all costs as much as MessageBytes: the bytes that a
// fast link moves in its latency of some ten microseconds.
func (s Strategy) Exchanges() int { return [...]int{Rows: 0, Pooled: 3}[s] }
