package step

// Cost is the least work of a part of a step on one rank: operations, and bytes moved from
// or to memory or a cache. Every matrix counts once for each part that reads or writes it,
// regardless of the passes. Moves between registers and the first-level cache do not count.
type Cost struct {
	FLOP   int64 `json:"flop"`         // of products; a multiply-add counts as two
	Memory int64 `json:"memory_bytes"` // rows of tables and keys of the batch, which no cache holds from step to step
	Lines  int64 `json:"lines"`        // cache lines of the index and of records: they are anywhere in memory
	Cache  int64 `json:"cache_bytes"`  // activations, gradients, weights, and rows once they have been pulled
}

// Floor returns the least seconds of a part with that cost at these rates, and what bounds
// it, or "" if the cost is zero.
func (m Machine) Floor(c Cost, threads int) (seconds float64, bound string) {
	for _, x := range []struct {
		name         string
		amount, rate float64
	}{
		{"multiply-adds", float64(c.FLOP), m.products()},
		{"memory", float64(c.Memory), m.Bandwidth},
		{"lines", float64(c.Lines), m.Lines},
		{"cache", float64(c.Cache), m.CacheBandwidth},
	} {
		if t := x.amount / (x.rate * float64(threads)); x.rate > 0 && t > seconds {
			seconds, bound = t, x.name
		}
	}
	return seconds, bound
}

// products returns the rate of the unit that computes the products.
func (m Machine) products() float64 {
	if m.PeakBF16FLOPS > 0 {
		return m.PeakBF16FLOPS
	}
	return m.PeakFLOPS
}

// shapes are the sizes of one rank's step that determine the costs.
type shapes struct {
	rows, keys, unique int64 // samples, values of all bags, distinct values
	updated            int64 // rows of tables updated in a step
	value              int64 // floats per row, including the wide weight
	width, hidden      int64 // columns of the network's input, and of all hidden layers together
	parameters         int64 // dense
	flop               int64 // of all products
	ranks              int64
	element            int64 // bytes per activation within the network
}

const line = 64 // bytes that memory moves at once

func lines(bytes int64) int64 { return (bytes + line - 1) / line * line }

// costs returns the costs of the parts, in the order of partNames.
func (s shapes) costs() [len(partNames)]Cost {
	row := 4 * s.value
	record := lines(2 * row) // with Adagrad's state
	away := func(bytes int64) int64 { return bytes * (s.ranks - 1) / s.ranks }
	input, hidden := s.rows*s.width, s.rows*s.hidden
	return [...]Cost{
		{Memory: 8*s.keys + s.unique*(line+record), Lines: s.unique * (1 + record/line), Cache: (8+row)*s.unique + 4*s.keys}, // pull: a line of the index, the record
		{Cache: (4+row)*s.keys + 4*input}, // pool
		{FLOP: s.flop / 3, Cache: 4*input + s.element*(2*hidden+s.parameters) + 4*s.parameters},             // forward
		{FLOP: s.flop / 3 * 2, Cache: 4*input + s.element*(input+4*hidden+s.parameters) + 2*4*s.parameters}, // backward
		{Cache: 4*input + (4+2*row)*s.keys},   // key gradients
		{Cache: 4 * s.parameters},             // rest of compute: gradients set to 0
		{Cache: 2 * away(row*s.unique)},       // push
		{Cache: 2 * 2 * away(4*s.parameters)}, // sync
		{Memory: 2 * record * s.updated, Lines: s.updated * record / line, Cache: row*s.unique + 5*4*s.parameters}, // update
	}
}

// partNames are the parts of a step in their order.
var partNames = [...]string{"pull", "pool", "forward", "backward", "key gradients", "rest of compute", "push", "sync", "update"}
