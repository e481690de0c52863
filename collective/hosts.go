package collective

import (
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"
)

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

// SetCosts sets the costs for calls on every channel of c's group. All ranks call it with
// the same costs, at the same place in the order of calls, while no call is in progress.
func (c *Comm) SetCosts(k Costs) {
	c.group.costs, c.group.weighed = k, k.fingerprint()
	for _, ch := range c.group.channels {
		if h := ch.hosts; h != nil {
			h.local.group.costs = Costs{Local: k.Local, Links: k.Local, Take: k.Take}
			if h.rail != nil {
				h.rail.group.costs = k.rail(h.rails)
			}
		}
	}
}
