package data

import (
	"math/bits"
	"sort"
)

// order is the sequence of the selected records in one epoch. It is a pure function of
// the number of selected records in each group, of mode, seed and epoch. It does not
// depend on ranks or batches, so a position in an epoch is one integer: how many records
// all ranks together have taken.
//
//	groups   64 KiB of consecutive records, permuted by (seed, epoch)
//	decks    their sequence is cut into C runs, of which the first n mod C have
//	         ⌊n/C⌋+1 records and the others ⌊n/C⌋
//	windows  a deck is cut between groups into windows of W groups; the records of a
//	         window are permuted by (seed, epoch, deck, window)
//	rounds   round i takes record i of every deck; the order of the decks is drawn from
//	         (seed, epoch, round)
//
// Record x of the epoch is dealt in round ⌊x/C⌋. Groups, windows and rounds are permuted
// by bijections, so each record is dealt exactly once. Record x comes from C·W groups
// that are a random sample of all, and the records of a batch are random among them.
//
// A rank reads the decks d ≡ rank (mod ranks) and nothing else. In a round, decks keep
// their residue modulo 16, so that 2, 4, 8 or 16 ranks have the same share of any batch.
// If there are more ranks than decks, the ranks of a deck take turns.
//
// Files that can only be read from their beginning are permuted as blocks. Their sequence
// has at most 16 decks, so that few files are open, and P ranks divide C decks into P equal
// parts. At the end of a part, two ranks read the same deck; see share.
type order struct {
	seed  uint64 // of seed and epoch
	mode  mode
	decks int64
	span  int     // W, groups of a window
	perm  []int32 // groups, in the order of the epoch
	base  []int64 // number of records before each group, and n at the end
}

// mode is how the records of an epoch are ordered.
type mode int

const (
	inOrder  mode = iota // not shuffled: file order; a window is a group
	apart                // not shuffled: one deck per rank, in file order; a window is a group
	inMemory             // one deck and one window: a uniform permutation
	inDecks
	onwards // blocks are permuted and each is read from its beginning
)

// ordered reports whether the records of a deck are in file order.
func (m mode) ordered() bool { return m == inOrder || m == apart }

const (
	numDecks   = 256
	maxOpen    = 16                  // decks of blocks, each with an open file
	deckSpan   = 4                   // groups of a window
	poolGroups = numDecks * deckSpan // groups that records are drawn from
	residues   = 16                  // classes of decks in a round
)

// Order is the version of the order of samples. A position inside an epoch is only valid
// in the version that stored it.
const Order = 3

// Steps returns the number of steps that n records make, with at most batch records each.
func Steps(n int64, batch int) int64 {
	b := int64(max(batch, 1))
	return (n + b - 1) / b
}

// newOrder returns the order of an epoch. rows holds the selected records of each group,
// blocks the first group of each block and the number of groups at the end. The number of
// ranks matters only if they read apart.
func newOrder(m mode, rows, blocks []int32, ranks int64, seed, epoch uint64) *order {
	o := &order{seed: mixed(seed, epoch), mode: m, decks: 1, span: max(len(rows), 1), perm: make([]int32, 0, len(rows))}
	switch m {
	case inOrder:
		o.span = 1
	case apart:
		o.decks, o.span = ranks, 1
	case inDecks:
		o.decks, o.span = numDecks, deckSpan
	case onwards:
		o.decks = blockDecks(rows, blocks)
		o.span = int(poolGroups / o.decks)
		turns := identity(nil, len(blocks)-1)
		shuffle(turns, o.seed)
		for _, b := range turns {
			for g := blocks[b]; g < blocks[b+1]; g++ {
				o.perm = append(o.perm, g)
			}
		}
	}
	if m != onwards {
		o.perm = identity(o.perm, len(rows))
	}
	if m == inDecks {
		shuffle(o.perm, o.seed)
	}
	o.base = make([]int64, len(rows)+1)
	for i, g := range o.perm {
		o.base[i+1] = o.base[i] + int64(rows[g])
	}
	return o
}

// blockDecks returns the number of decks of blocks: a power of two, such that every block
// has at most half of the records of a deck. The end of a deck is inside a block, and the
// next deck reads this block from its beginning.
func blockDecks(rows, blocks []int32) int64 {
	n, largest := int64(0), int64(0)
	for b := range blocks[1:] {
		block := int64(0)
		for _, r := range rows[blocks[b]:blocks[b+1]] {
			block += int64(r)
		}
		n, largest = n+block, max(largest, block)
	}
	decks := int64(1)
	for 2*decks <= maxOpen && 2*largest*2*decks <= n {
		decks *= 2
	}
	return decks
}

// identity fills x with the numbers from 0 up to n.
func identity(x []int32, n int) []int32 {
	x = x[:0]
	for i := range n {
		x = append(x, int32(i))
	}
	return x
}

// rows returns n.
func (o *order) rows() int64 { return o.base[len(o.perm)] }

// start returns where deck d begins in the sequence; n for d = C.
func (o *order) start(d int64) int64 {
	n := o.rows()
	return n/o.decks*d + min(d, n%o.decks)
}

// roundTurns fills turns with the turn of each deck in the round that deals record x. A last
// round that is not full deals the first decks in their order.
func (o *order) roundTurns(x int64, turns []int32) {
	turns = identity(turns, int(o.decks))
	i := x / o.decks
	if i == o.rows()/o.decks || o.decks == 1 || o.mode == apart {
		return
	}
	if o.mode == onwards { // consecutive records are of different ranks, for any number of ranks
		for d := range turns {
			turns[d] = int32(bits.Reverse32(uint32(d)) >> (32 - bits.Len32(uint32(o.decks-1))))
		}
		return
	}
	r := draws(mixed(o.seed, uint64(i)))
	for j := len(turns) - 1; j >= residues; j-- {
		k := j%residues + residues*r.below(j/residues+1)
		turns[j], turns[k] = turns[k], turns[j]
	}
}

// taken returns how many records of deck d are dealt before record x, whose round is
// turns.
func (o *order) taken(d, x int64, turns []int32) int64 {
	if int64(turns[d]) < x%o.decks {
		return x/o.decks + 1
	}
	return x / o.decks
}

// extent is the position of a window: groups [from, to) of the sequence, and records
// [first, end).
type extent struct {
	number     int64
	from, to   int
	first, end int64 // positions in the sequence
}

// window returns the window of record i of deck d. The windows of different decks end at
// different groups, so that not all are read in the same step.
func (o *order) window(d, i int64) (e extent) {
	g := o.find(o.start(d) + i)
	e.number = (int64(g) + d) / int64(o.span)
	e.from = int(max(e.number*int64(o.span)-d, 0))
	e.to = int(min((e.number+1)*int64(o.span)-d, int64(len(o.perm))))
	e.first, e.end = max(o.base[e.from], o.start(d)), min(o.base[e.to], o.start(d+1))
	for o.base[e.from+1] <= e.first {
		e.from++
	}
	for o.base[e.to-1] >= e.end {
		e.to--
	}
	return e
}

// permute puts the records of a window of deck d, or their numbers, into the order in
// which they are dealt.
func (o *order) permute(d int64, e extent, rows []int32) {
	if !o.mode.ordered() {
		shuffle(rows, mixed(o.seed, uint64(d), uint64(e.number)))
	}
}

// find returns the group of the record at place in the sequence.
func (o *order) find(place int64) int {
	return sort.Search(len(o.perm), func(i int) bool { return o.base[i+1] > place })
}

// share is the part of a deck that one rank reads: the records i for which i·step mod cycle
// is in [from, to). Step 0 means consecutive records of each batch.
type share struct {
	deck, cycle, step, from, to int64
}

// shares returns what one of several ranks reads.
func (o *order) shares(rank, ranks int64) (all []share) {
	switch o.mode {
	case inOrder: // consecutive, so that the ranks read different groups
		return append(all, share{cycle: ranks, from: rank, to: rank + 1})
	case onwards: // each rank has the same number of units, of which a deck has as many as there are ranks
		step := stride(ranks)
		for d := rank * o.decks / ranks; d*ranks < (rank+1)*o.decks; d++ {
			from, to := max(rank*o.decks-d*ranks, 0), min((rank+1)*o.decks-d*ranks, ranks)
			all = append(all, share{d, ranks, step, from, to})
		}
		return all
	}
	for d := rank % o.decks; d < o.decks; d += ranks {
		sharing := max((ranks-rank%o.decks+o.decks-1)/o.decks, 1)
		all = append(all, share{d, sharing, 1, rank / o.decks, rank/o.decks + 1})
	}
	return all
}

// whole reports whether the deck is of one rank.
func (s *share) whole() bool { return s.to-s.from == s.cycle }

// of returns where the part of records lo to hi begins and ends.
func (s *share) of(lo, hi int64) (first, end int64) {
	if s.step == 0 {
		return lo + (hi-lo)*s.from/s.cycle, lo + (hi-lo)*s.to/s.cycle
	}
	return s.next(lo), hi
}

// has reports whether record i is in the share.
func (s *share) has(i int64) bool {
	at := i % s.cycle * s.step % s.cycle
	return s.step == 0 || s.from <= at && at < s.to
}

// next returns the first record of the share from i on.
func (s *share) next(i int64) int64 {
	if s.step == 1 && s.to == s.from+1 {
		return i + ((s.from-i)%s.cycle+s.cycle)%s.cycle
	}
	for !s.has(i) {
		i++
	}
	return i
}

// stride returns a number without a common factor with n, near n divided by the golden
// ratio. Its multiples modulo n are spread evenly: in any run of records, each share has
// about its part (Knuth, The Art of Computer Programming, volume 3, section 6.4, theorem S).
func stride(n int64) int64 {
	const golden = 0.6180339887498949
	s := max(int64(golden*float64(n)), 1)
	for gcd(s, n) != 1 {
		s++
	}
	return s
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
