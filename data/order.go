package data

import "sort"

// order is the sequence of the selected records in one epoch, and how steps
// take them. It is a pure function of the number of records per block, seed,
// epoch, lanes S and window, and knows nothing of ranks:
//
//	blocks    permuted by (seed, epoch); their n records form one sequence
//	lanes     the sequence is cut into S runs; lane s has ⌊(n+s)/S⌋ records
//	windows   each lane is cut into windows, shuffled by (seed, epoch, lane,
//	          window)
//	steps     when x records have been taken in all, lane s has given
//	          ⌊(x+s)/S⌋; the sum over s is x (Hermite's identity)
//
// So the position in an epoch is x alone. A step that goes from x to y takes
// records ⌊(x+s)/S⌋ up to ⌊(y+s)/S⌋ of each lane: the same records for every P.
// Rank r of P reads lanes r, r+P, r+2P, …: since one record more in all is one
// more of the next lane, a step's records are dealt out to the ranks as cards are,
// and differ by a record or two whatever S, P and the batch.
//
// A stream is a sequence that can only be read onwards, as packed files are.
// There the lanes are not runs of it but dealt out like cards: lane s has the
// records (i+1)·S − 1 − s, those with which ⌊(x+s)/S⌋ grows. A rank reads the
// whole sequence once and keeps the records of its lanes; no more than two
// windows of each lane are in memory. Without shuffling the order of a stream
// is that of its files.
//
// The windows of lane s begin s/S of a window earlier than those of lane 0, so
// that lanes fill their windows one after another and not in the same step.
type order struct {
	seed    uint64 // of seed and epoch
	lanes   int64
	window  int64
	shuffle bool
	stream  bool
	perm    []int32 // blocks in their order
	base    []int64 // records before each of them, and n at the end
}

const (
	defaultLanes  = 256
	defaultWindow = 1 << 17 // records, over all lanes
	leastWindow   = 64      // records of a lane
	quietWindow   = 512     // records of a lane at most if they are not shuffled: few, which stay in a cache
	mostLanes     = 1 << 16
)

// DefaultLanes is the number of lanes of a job that starts on so many ranks: 256
// up to as many ranks, so that they all train on the same steps; beyond, one a
// rank. A job that continues keeps the lanes it started with.
func DefaultLanes(ranks int) int { return max(defaultLanes, ranks) }

// Steps is how many steps of at most batch records n records make.
func Steps(n int64, batch int) int64 {
	b := int64(max(batch, 1))
	return (n + b - 1) / b
}

// newOrder makes the order of records where block b has rows[b] of them. window
// is in records over all lanes, 0 for the default.
func newOrder(rows []int32, seed, epoch uint64, lanes, window int, shuffled bool) *order {
	o := &order{seed: mixed(seed, epoch), lanes: int64(lanes), shuffle: shuffled}
	if window > 0 {
		o.window = max(int64(window)/o.lanes, 1)
	} else {
		o.window = max(defaultWindow/o.lanes, leastWindow)
	}
	if !shuffled {
		o.window = min(o.window, quietWindow)
	}
	o.perm = make([]int32, len(rows))
	for i := range o.perm {
		o.perm[i] = int32(i)
	}
	if shuffled {
		shuffle(o.perm, o.seed)
	}
	o.base = make([]int64, len(rows)+1)
	for i, b := range o.perm {
		o.base[i+1] = o.base[i] + int64(rows[b])
	}
	return o
}

// rows is n.
func (o *order) rows() int64 { return o.base[len(o.perm)] }

// taken is how many records lane s has given when x have been taken in all.
func (o *order) taken(s, x int64) int64 { return (x + s) / o.lanes }

// start is where lane s begins in the sequence; that of lane S is n.
func (o *order) start(s int64) int64 {
	// n = q·S + r, and the last r lanes have q+1 records each.
	n := o.rows()
	return n/o.lanes*s + max(0, s-(o.lanes-n%o.lanes))
}

// place is where record i of lane s stands in the sequence.
func (o *order) place(s, i int64) int64 {
	if o.stream {
		return (i+1)*o.lanes - 1 - s
	}
	return o.start(s) + i
}

// dealt is the lane of record g of a stream, and its number there.
func (o *order) dealt(g int64) (s, i int64) {
	return o.lanes - 1 - g%o.lanes, g / o.lanes
}

// windowOf is the number of the window in which record i of lane s lies.
func (o *order) windowOf(s, i int64) int64 { return (i + o.shift(s)) / o.window }

// shift is how much earlier the windows of lane s begin.
func (o *order) shift(s int64) int64 { return s * o.window / o.lanes }

// bounds are the records of lane s that lie in window k.
func (o *order) bounds(s, k int64) (lo, hi int64) {
	n := o.taken(s, o.rows())
	lo = max(k*o.window-o.shift(s), 0)
	return lo, min((k+1)*o.window-o.shift(s), n)
}

// permute puts the records of window k of lane s into the order in which they
// are given.
func permute[T any](o *order, s, k int64, rows []T) {
	if o.shuffle {
		shuffle(rows, mixed(o.seed, uint64(s), uint64(k)))
	}
}

// seek finds record g of the sequence: it is record row of the block at perm[i].
func (o *order) seek(g int64) (i int, row int64) {
	i = sort.Search(len(o.perm), func(i int) bool { return o.base[i+1] > g })
	return i, g - o.base[i]
}

// lanesOf is how many lanes rank r of p has: r, r+p, r+2p and so on.
func lanesOf(lanes, r, p int) int { return max(0, (lanes-r+p-1)/p) }
