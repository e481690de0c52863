package collective

import (
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

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

// NewHosts returns the Comm of channel 0 of a group with ranks on several hosts.
// hostOf[r] is the host of rank r. Hosts are numbered from 0 without gaps, and hostOf is the
// same on every rank.
//
// flat links all ranks. local links the ranks of this host, in the same order as in flat, and
// has at least as many channels. If local is nil, the ranks of a host use flat too.
//
// Each call uses the algorithm that the cost model predicts to be faster. One algorithm
// uses flat alone. The other has three stages: inside each host over local, between the
// hosts over flat, and inside each host again. Both give the same bits. Alloc returns memory
// of local.
//
// An error that ends one transport ends the other with the same cause. The caller closes
// both.
func NewHosts(flat, local Transport, hostOf []int) *Comm {
	rank, size, channels := flat.World()
	plan := newPlan(rank, size, hostOf)
	mates := plan.ranks[plan.host]
	outer := flat
	if local != nil {
		if r, n, k := local.World(); r != plan.index || n != len(mates) || k < channels {
			panic(fmt.Sprintf("collective: NewHosts: rank %d is %d of %d on its host; its local transport has %d of %d, with %d channels for %d",
				rank, plan.index, len(mates), r, n, k, channels))
		}
		outer, local = &outside{flat, local}, inside(flat, local, mates)
	}
	c := New(outer)
	var all *Comm
	if local != nil {
		all = New(local)
	}
	for i, ch := range c.group.channels {
		h := plan // a copy, except for what a call writes to: channels may be used at once
		h.sums = make([][]byte, len(plan.ranks))
		if local != nil {
			h.local = all.Channel(i)
		} else {
			h.local = New(&subset{t: outer, channel: uint16(i), id: partID("host", plan.host), ranks: mates, rank: plan.index})
		}
		h.local.name = rank
		if plan.index < plan.rails {
			h.rail = New(&subset{t: outer, channel: uint16(i), id: partID("rail", plan.index), ranks: plan.column(plan.index), rank: plan.host})
			h.rail.name = rank
		}
		ch.sh, ch.hosts = nil, &h
		ch.shape = plan.shape(size)
	}
	c.SetCosts(DefaultCosts())
	return c
}

// newPlan checks hostOf and sorts the ranks by host.
func newPlan(rank, size int, hostOf []int) hosts {
	if len(hostOf) != size {
		panic(fmt.Sprintf("collective: NewHosts: hosts of %d ranks, the group has %d", len(hostOf), size))
	}
	h := hosts{where: append([]int(nil), hostOf...), host: hostOf[rank]}
	for r, host := range hostOf {
		if host < 0 || host >= size {
			panic(fmt.Sprintf("collective: NewHosts: rank %d is on host %d of at most %d", r, host, size))
		}
		for host >= len(h.ranks) {
			h.ranks = append(h.ranks, nil)
		}
		if r == rank {
			h.index = len(h.ranks[host])
		}
		h.ranks[host] = append(h.ranks[host], r)
	}
	h.rails = size
	for host, ranks := range h.ranks {
		if len(ranks) == 0 {
			panic(fmt.Sprintf("collective: NewHosts: no rank is on host %d of %d", host, len(h.ranks)))
		}
		h.rails = min(h.rails, len(ranks))
	}
	return h
}

// column returns the ranks of a rail, by host.
func (h *hosts) column(rail int) []int {
	ranks := make([]int, len(h.ranks))
	for i, mates := range h.ranks {
		ranks[i] = mates[rail]
	}
	return ranks
}

func (h *hosts) shape(size int) Shape {
	s := Shape{Size: size, Hosts: len(h.ranks), Least: h.rails, Windows: true}
	for _, mates := range h.ranks {
		s.Most = max(s.Most, len(mates))
	}
	return s
}

// partID returns the ID of the subset of a host or rail, as groupID does for Split.
func partID(kind string, i int) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %d", kind, i)
	return max(h.Sum32(), 1)
}

// even reports whether all hosts have the same number of ranks.
func (c *Comm) even() bool { return c.shape.Least == c.shape.Most }

// reduceRails is AllReduce over the hosts. The ranks of each host reduce among themselves,
// and each rail reduces its chunk between the hosts:
//
//	even hosts   reduce-scatter of n | allreduce of n/L over H hosts | all-gather of n
//	otherwise    allreduce of n      | the same with L the number of rails | all-gather of n
func reduceRails[T Number](c *Comm, tag Tag, x []T) error {
	h := c.hosts
	first := reduceAll[T]
	if c.even() {
		first = reduceChunk[T]
	}
	if err := first(h.local, tag, x); err != nil {
		return c.recordError(err)
	}
	at := h.local.at
	for i := range at[1:] {
		at[i], at[i+1] = len(x), len(x)
		if i < h.rails {
			at[i], at[i+1] = Chunk(len(x), h.rails, i)
		}
	}
	if h.rail != nil {
		if err := reduceAll(h.rail, tag, x[at[h.index]:at[h.index+1]]); err != nil {
			return c.recordError(err)
		}
	}
	return c.recordError(gatherAll(h.local, tag, x, at))
}

// copyRails is a broadcast on root's host, then between hosts, then on the other hosts.
func copyRails[T Number](c *Comm, tag Tag, x []T, root int) error {
	h := c.hosts
	home := h.where[root]
	if h.host == home {
		at := 0
		for i, r := range h.ranks[home] {
			if r == root {
				at = i
			}
		}
		if err := copyFrom(h.local, tag, x, at); err != nil {
			return c.recordError(err)
		}
	}
	if h.index == 0 {
		if err := copyFrom(h.rail, tag, x, home); err != nil {
			return c.recordError(err)
		}
	}
	if h.host == home {
		return nil
	}
	return c.recordError(copyFrom(h.local, tag, x, 0))
}

// meetRails is a barrier on each host, then between hosts, then on each host again.
func meetRails(c *Comm, tag Tag) error {
	h := c.hosts
	if err := h.local.meetAll(tag); err != nil {
		return c.recordError(err)
	}
	if h.index == 0 {
		if err := h.rail.meetAll(tag); err != nil {
			return c.recordError(err)
		}
	}
	return c.recordError(h.local.meetAll(tag))
}

// recordError records the error of a stage and returns it.
func (c *Comm) recordError(err error) error {
	if err != nil {
		c.group.err.CompareAndSwap(nil, &failure{err})
	}
	return err
}

// joinHosts is joinSpan in the order of summation of NewHosts: the ranks of each host in
// the order of a flat group, then the hosts, separately for the chunk of each rail.
func joinHosts[T Number](c *Comm, tag Tag, n, lo, hi, base int, dst []T) {
	h := c.hosts
	words := grow[T](&h.words, len(h.ranks)*(hi-lo))
	for host, mates := range h.ranks {
		sum := words[host*(hi-lo):][:hi-lo]
		h.sums[host] = raw.Bytes(sum)
		for i := range mates {
			a, b := Chunk(n, len(mates), i)
			if a, b = max(a, lo), min(b, hi); a >= b {
				continue
			}
			rows := rowsOf[T](c, len(mates)+1)
			for k := range mates {
				rows[k] = raw.Of[T](c.peers[mates[(i+1+k)%len(mates)]])[a-base : b-base]
			}
			rows[len(mates)] = sum[a-lo : b-lo]
			joinRows(tag, rows[len(mates):], rows[:len(mates)])
		}
	}
	rows := rowsOf[T](c, len(h.ranks)+1)
	for rail := range h.rails {
		from, to := Chunk(n, h.rails, rail)
		for i := range h.ranks {
			a, b := Chunk(to-from, len(h.ranks), i)
			if a, b = max(from+a, lo), min(from+b, hi); a >= b {
				continue
			}
			for k := range h.ranks {
				rows[k] = raw.Of[T](h.sums[(i+1+k)%len(h.ranks)])[a-lo : b-lo]
			}
			rows[len(h.ranks)] = dst[a-lo : b-lo]
			joinRows(tag, rows[len(h.ranks):], rows[:len(h.ranks)])
		}
	}
}

// outside is the transport between all ranks. If it fails, it also aborts the transport
// inside the host.
type outside struct {
	Transport
	local Transport
}

func (t *outside) Exchange(tag Tag, to int, send []byte, from int, recv []byte) error {
	return t.judge(t.Transport.Exchange(tag, to, send, from, recv))
}

// ExchangeJoin requires that the transport is a Joiner.
func (t *outside) ExchangeJoin(tag Tag, to int, send []byte, from int, own []byte) error {
	return t.judge(t.Transport.(Joiner).ExchangeJoin(tag, to, send, from, own))
}

// ExchangeEach requires that the transport is a Poster.
func (t *outside) ExchangeEach(tag Tag, posts []Post) error {
	return t.judge(t.Transport.(Poster).ExchangeEach(tag, posts))
}

func (t *outside) Abort(cause error) {
	t.Transport.Abort(cause)
	rank, _, _ := t.World()
	t.judge(Cause(rank, cause))
}

// judge aborts the transport inside the host with err and returns err.
func (t *outside) judge(err error) error {
	if err != nil && !errors.Is(err, ErrClosed) {
		t.local.Abort(renumbered(err, func(r int) int { return r + MaxSize }))
	}
	return err
}

// host is the transport between the ranks of one host. An error on it also ends the flat
// transport. A rank r ≥ MaxSize in its errors is rank r−MaxSize of all ranks: the error
// came from outside.
type host struct {
	Transport
	flat  Transport
	ranks []int // ranks of the host in the whole group, by local rank
}

func inside(flat, local Transport, ranks []int) Transport {
	h := host{local, flat, ranks}
	if sh, ok := local.(Sharer); ok {
		return &sharingHost{h, sh}
	}
	return &h
}

// judge renumbers err to the ranks of the whole group and aborts the flat transport.
func (h *host) judge(err error) error {
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	err = renumbered(err, func(r int) int {
		switch {
		case r >= MaxSize:
			return r - MaxSize
		case r < 0 || r >= len(h.ranks):
			return r
		}
		return h.ranks[r]
	})
	if short := (*ShareError)(nil); !errors.As(err, &short) { // after a ShareError the group stays usable
		h.flat.Abort(err)
	}
	return err
}

func (h *host) Exchange(tag Tag, to int, send []byte, from int, recv []byte) error {
	return h.judge(h.Transport.Exchange(tag, to, send, from, recv))
}

// Abort ends both transports. A rank calls it if the ranks of its host disagree.
func (h *host) Abort(cause error) {
	h.Transport.Abort(cause)
	rank, _, _ := h.World()
	h.judge(Cause(rank, cause))
}

// sharingHost is a host whose ranks share memory.
type sharingHost struct {
	host
	sh Sharer
}

func (h *sharingHost) Share(tag Tag, bytes int) ([][]byte, error) {
	w, err := h.sh.Share(tag, bytes)
	return w, h.judge(err)
}

func (h *sharingHost) Meet(tag Tag, note Note) error {
	if err := h.sh.Meet(tag, note); err != nil {
		return h.judge(err)
	}
	return nil
}

func (h *sharingHost) Met(channel, rank int) Note { return h.sh.Met(channel, rank) }

func (h *sharingHost) Leave(channel int) { h.sh.Leave(channel) }

// Cores returns the cores that the transport counts, or the number of this machine.
func (h *sharingHost) Cores() int {
	if k, ok := h.sh.(counter); ok {
		return k.Cores()
	}
	return runtime.NumCPU()
}

// renumbered returns err, as Cause returns it, with every rank number r replaced by to(r).
func renumbered(err error, to func(int) int) error {
	var lost *LostError
	var abort *AbortError
	var mismatch *MismatchError
	var short *ShareError
	switch {
	case errors.As(err, &lost):
		return &LostError{Rank: to(lost.Rank), By: to(lost.By), Cause: lost.Cause}
	case errors.As(err, &abort):
		return &AbortError{By: to(abort.By), Cause: abort.Cause}
	case errors.As(err, &mismatch):
		m := *mismatch
		m.Peer.Rank, m.Own.Rank = to(m.Peer.Rank), to(m.Own.Rank)
		return &m
	case errors.As(err, &short):
		return &ShareError{Rank: to(short.Rank), Bytes: short.Bytes, Cause: short.Cause}
	}
	return err
}
