package collective

import (
	"fmt"
	"sync/atomic"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// Comm makes collective calls on one channel of a Transport.
type Comm struct {
	sharing
	hosts *hosts // nil if the hosts of the ranks are unknown

	// Kept between calls so that a repeated call allocates nothing.
	at, to []int    // bounds of the received parts; of the sent parts if they differ
	parts  []uint64 // elements of other ranks, valid during one call
	relay  *relay   // buffers for forwarded parts
}

// endpoint is this rank on one channel of a Transport. It numbers the calls and records the
// error that ends the group.
type endpoint struct {
	t          Transport
	joiner     Joiner // t if it is a Joiner, else nil
	poster     Poster // t if it is a Poster, else nil
	near       bool   // all ranks are on one host
	rank, size int
	name       int // this rank's number in errors
	channel    int
	seq        uint64 // number of the last call
	line       *line  // record of calls
	made       *ledger
	group      *group
	shape      Shape
	watch      func(seq uint64)

	steps   []exchange
	posts   []Post
	scratch []uint64 // a partial sum on arrival; []uint64 aligns it for every type
}

// group is the state that the channels of one rank share.
type group struct {
	channels []*Comm
	costs    Costs
	weighed  uint64 // fingerprint of the costs passed to SetCosts
	windows  atomic.Pointer[[]window]
	err      atomic.Pointer[failure]
}

type failure struct{ err error }

// After makes c continue the call numbers of old, and returns c, on which no call has
// been made yet. Every rank calls it for a Comm that takes over the transport of old.
// If both counted from 1, the call of a late rank would be compared with a different
// call of old.
func (c *Comm) After(old *Comm) *Comm {
	for i, ch := range old.group.channels {
		n := c.group.channels[i]
		n.seq, n.line, n.made = ch.seq, ch.line, ch.made
	}
	return c
}

// Rank returns this rank, from 0 to Size−1.
func (c *endpoint) Rank() int { return c.rank }

// Size returns the number of ranks.
func (c *endpoint) Size() int { return c.size }

// OneHost reports, on every rank the same, whether all ranks are known to be on one host
// by a transport that is a Neighbour.
func (c *endpoint) OneHost() bool { return c.near }

// Channel returns the Comm of channel i of the same transport, the same one on each
// call. It panics if the transport has no such channel.
func (c *Comm) Channel(i int) *Comm {
	if i < 0 || i >= len(c.group.channels) {
		panic(fmt.Sprintf("collective: Channel: %d of %d", i, len(c.group.channels)))
	}
	return c.group.channels[i]
}

// Abort ends the group for every rank: all pending and later calls return cause,
// as an *AbortError that names this rank. Any goroutine may call it.
func (c *endpoint) Abort(cause error) {
	c.t.Abort(cause)
	c.group.err.CompareAndSwap(nil, &failure{fmt.Errorf("collective: rank %d: %w", c.rank, Cause(c.rank, cause))})
}

// Err returns the first error of this rank that ended the group, or nil. Any
// goroutine may call it; it does not ask the transport.
func (c *endpoint) Err() error {
	if f := c.group.err.Load(); f != nil {
		return f.err
	}
	return nil
}

// Watch sets f to be called with the number of each later call on this channel that needs
// every rank, before the call exchanges anything. No rank returns from such a call before
// all have entered it, and all ranks give it the same number. These are all calls except
// Broadcast, Gather, their variants for bytes, and Measure. f runs in the goroutine of the
// call; it is not called in a group of one rank. Call Watch between calls. Watch(nil) stops
// the reports.
func (c *endpoint) Watch(f func(seq uint64)) {
	if c.size > 1 {
		c.watch = f
	}
}

// meets reports whether the call returns on no rank before all ranks have entered it.
func (c Call) meets() bool {
	switch c {
	case CallBroadcast, callBroadcastBytes, callGather, callGatherBytes, callMeasure:
		return false
	}
	return true
}

// begin starts a call. It returns the tag of the call, or the error that ended the group.
func (c *endpoint) begin(call Call, op Op, typ Type, root, count int) (Tag, error) {
	if err := c.Err(); err != nil {
		return Tag{}, err
	}
	if op >= ops {
		panic(fmt.Sprintf("collective: %v: %v", call, op))
	}
	if root < 0 || root >= c.size {
		panic(fmt.Sprintf("collective: %v: root %d of %d ranks", call, root, c.size))
	}
	c.seq++
	c.steps = c.steps[:0]
	if c.watch != nil && call.meets() {
		c.watch(c.seq)
	}
	tag := Tag{
		Channel: uint16(c.channel), Call: call, Op: op, Type: typ,
		Root: uint16(root), Seq: c.seq, Count: uint64(count),
	}
	c.line.record(c.made, tag, c.group.weighed)
	return tag, nil
}

// chunks sets c.at to the bounds of the chunks of n elements.
func (c *Comm) chunks(n int) []int {
	for i := range c.size {
		c.at[i], c.at[i+1] = Chunk(n, c.size, i)
	}
	return c.at
}

// bounds sets at to the bounds of parts of the given lengths, which must sum to n.
func (c *Comm) bounds(call Call, at, counts []int, n int) []int {
	if len(counts) != c.size {
		panic(fmt.Sprintf("collective: %v: %d counts for %d ranks", call, len(counts), c.size))
	}
	sum := 0
	for i, k := range counts {
		if k < 0 || k > n-sum {
			panic(fmt.Sprintf("collective: %v: count %d of rank %d does not fit in %d elements after %d", call, k, i, n, sum))
		}
		sum += k
		at[i+1] = sum
	}
	if sum != n {
		panic(fmt.Sprintf("collective: %v: counts add up to %d, the slice has %d", call, sum, n))
	}
	return at
}

// run carries out c.steps, which send parts of send and receive parts of recv. Both may be
// the same slice. It adds the number of steps to tag.Step.
func run[T Number](c *Comm, tag *Tag, send, recv []T) error {
	first, last := tag.Step, tag.Step
	for i := range c.steps {
		x := &c.steps[i]
		out, in := send[x.send.lo:x.send.hi], recv[x.recv.lo:x.recv.hi]
		if x.from == c.rank {
			copy(in, out)
			continue
		}
		tag.Step = first + uint32(x.round)
		last = max(last, tag.Step+1)
		if x.reduce == before && c.joiner != nil && (x.send.hi <= x.recv.lo || x.recv.hi <= x.send.lo) {
			if err := c.joiner.ExchangeJoin(*tag, x.to, raw.Bytes(out), x.from, raw.Bytes(in)); err != nil {
				return c.fail(*tag, err)
			}
			continue
		}
		arrive := in
		if x.reduce != overwrite {
			arrive = grow[T](&c.scratch, len(in))
		}
		if err := c.t.Exchange(*tag, x.to, raw.Bytes(out), x.from, raw.Bytes(arrive)); err != nil {
			return c.fail(*tag, err)
		}
		switch x.reduce {
		case before:
			reduce(tag.Op, tag.Type, in, arrive, in)
		case after:
			reduce(tag.Op, tag.Type, in, in, arrive)
		}
	}
	tag.Step = last
	return nil
}

// grow returns n elements of memory that the next call with the same words reuses.
func grow[T Number](words *[]uint64, n int) []T {
	bytes := n * raw.Size[T]()
	if k := (bytes + 7) / 8; k > len(*words) {
		*words = make([]uint64, k)
	}
	return raw.Of[T](raw.Bytes(*words)[:bytes])
}

// fail records err as the error that ended the group and adds where it happened.
func (c *endpoint) fail(tag Tag, err error) error {
	err = fmt.Errorf("collective: %v: rank %d: %w", tag, c.name, err)
	c.group.err.CompareAndSwap(nil, &failure{err})
	return err
}

// relay holds the buffers that a Comm needs to forward parts.
type relay struct {
	hops   []hop
	moving []int    // distances of the parts that move in a round
	parts  [][]byte // parts held by this rank, by distance

	one     int        // length of every part; negative: lengths vary, see lengths
	lengths [][]uint64 // by number of distance bits already covered, then by distance

	words   []uint64 // buffer for lengths in transit
	out, in []uint64 // outgoing parts, and parts that wait for the next round
}

// hop is one round. Parts whose distance has this digit at this weight move by digit·weight
// ranks.
type hop struct{ weight, digit int }

// hosts describes the hosts of a Comm made by NewHosts.
//
// A rail is one rank of every host: rail l has the ranks with local rank l. There are as
// many rails as the smallest host has ranks. Each rail carries its own part of a reduction
// between hosts, so that all ranks drive the links.
type hosts struct {
	ranks [][]int // ranks of every host, by local rank
	host  int     // this rank's host
	index int     // this rank's local rank
	rails int
	where []int // host of every rank

	local *Comm // group of the ranks of this host
	rail  *Comm // group of the ranks of this rail, by host; nil if this rank is in no rail

	sums  [][]byte // headers of the partial sums of each host, in words
	words []uint64
}

// sharing reads and writes the memory of other ranks and meets them. sh is nil if the ranks
// share no memory.
type sharing struct {
	endpoint
	sh     Sharer
	stage  [][]byte // staging window of every rank, with two halves
	count  uint64   // windows made by Alloc
	turn   int      // the half to use next; the same on all ranks
	notes  []Note   // by rank
	length []int    // bytes of each rank's part
	into   [][]byte // destination of each rank's part; nil: not wanted

	crowded bool // more ranks than cores available to them

	peers [][]byte // the elements of each rank, in place
	rows  [][]byte // headers for rowsOf
}

// Sharer is a Transport whose ranks can access each other's memory. One goroutine at a
// time makes its calls on a channel, as with Exchange.
type Sharer interface {
	// Share allocates zeroed memory of the given length that all ranks see. It returns the
	// memory of every rank in this call, by rank; lengths may differ. If a rank cannot
	// allocate its memory, every rank returns a *ShareError and the group stays usable. The
	// memory is aligned at least to a cache line and stays until Close.
	Share(tag Tag, bytes int) (windows [][]byte, err error)

	// Meet sends note to all ranks and returns when every rank has called it. What a rank
	// has written to shared memory before the meeting is visible to all ranks after it.
	// Ranks that call Meet with different tags get a *MismatchError.
	Meet(tag Tag, note Note) error

	// Met returns the note of rank in the last meeting on channel.
	Met(channel, rank int) Note

	// Leave states that this rank will not access shared memory for channel until its next
	// Meet. Close waits for that.
	Leave(channel int)
}

// Note is the message that a rank sends to the others in a meeting.
type Note struct {
	Where uint64 // place of its buffer, which a Transport passes on unread; 0: not in a window
	Bytes uint64 // length of its part
}

// Post is one exchange of several: Send goes to rank To, and rank From fills Recv. Either
// is absent if its rank is negative.
type Post struct {
	To   int
	Send []byte
	From int
	Recv []byte
}

// Poster is a Transport that makes several exchanges of one call at once.
type Poster interface {
	// ExchangeEach makes an Exchange for every post, the k-th with k added to the step of
	// tag, all at once. Each message leaves as soon as possible, and messages of other
	// ranks are received in any order. No two posts send to the same rank or receive from
	// the same rank. Other ranks may make the same exchanges one after the other. The
	// transport owns posts until ExchangeEach returns.
	ExchangeEach(tag Tag, posts []Post) error
}

// recordError records the error of a stage and returns it.
func (c *Comm) recordError(err error) error {
	if err != nil {
		c.group.err.CompareAndSwap(nil, &failure{err})
	}
	return err
}

// Made returns the last calls of this rank on a channel: up to four calls of all ranks,
// or of the subset that called last, oldest first, and the last call of every other
// subset that Split made. It returns false if a call begins at the same time. Any
// goroutine may call it.
func (c *Comm) Made(channel int) (all []Made, ok bool) {
	l := c.Channel(channel).line
	last, parts := l.last.Load(), *l.parts.Load()
	if last == nil {
		return nil, true
	}
	parts = parts[:min(len(parts), madeParts)]
	before := make([]uint64, len(parts))
	for i, p := range parts {
		before[i] = p.seq.Load()
		first := before[i]
		if p == last {
			first -= min(first, madeShown) - 1
		}
		for seq := first; seq <= before[i]; seq++ {
			m := p.at(channel, seq)
			m.Last = p == last && seq == before[i]
			all = append(all, m)
		}
	}
	for i, p := range parts {
		if p.seq.Load() != before[i] {
			return nil, false
		}
	}
	return all, l.last.Load() == last
}
