package collective

import (
	"cmp"
	"fmt"
	"slices"
)

// New returns the Comm of channel 0 of t.
func New(t Transport) *Comm {
	rank, size, channels := t.World()
	if size < 1 || size > MaxSize || rank < 0 || rank >= size || channels < 1 {
		panic(fmt.Sprintf("collective: New: rank %d of %d with %d channels", rank, size, channels))
	}
	g := &group{channels: make([]*Comm, channels), costs: DefaultCosts()}
	for i := range g.channels {
		c := &Comm{at: make([]int, size+1), to: make([]int, size+1)}
		c.endpoint = endpoint{t: t, rank: rank, name: rank, size: size, channel: i, group: g, shape: Shape{Size: size}, line: &line{}}
		c.made = c.line.part(0)
		c.joiner, c.poster, c.near = joinerOf(t), posterOf(t), oneHost(t)
		g.channels[i] = c
		if size > 1 {
			c.sh, c.shape.Windows = t.(Sharer)
		}
	}
	return g.channels[0]
}

// joinerOf returns t as a Joiner. It returns nil if t, or a transport that t wraps, is not
// one.
func joinerOf(t Transport) Joiner {
	switch w := t.(type) {
	case *subset:
		if joinerOf(w.t) == nil {
			return nil
		}
	case *outside:
		if joinerOf(w.Transport) == nil {
			return nil
		}
	}
	j, _ := t.(Joiner)
	return j
}

// posterOf returns t as a Poster. It returns nil if t, or a transport that t wraps, is not
// one.
func posterOf(t Transport) Poster {
	switch w := t.(type) {
	case *subset:
		if posterOf(w.t) == nil {
			return nil
		}
	case *outside:
		if posterOf(w.Transport) == nil {
			return nil
		}
	}
	p, _ := t.(Poster)
	return p
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

// Split divides the ranks of c into smaller groups. Ranks with the same color form one
// group, numbered by key and, for equal keys, by their rank in c. A rank with a
// negative color is in no group and gets nil. Every rank of c calls Split.
//
// The new Comm has one channel. It makes its calls on the channel of c, in one order
// with those of c, by messages and not in shared memory. An error that ends one of them
// ends the other. Errors use the rank numbers of the transport.
func (c *Comm) Split(color, key int) (*Comm, error) {
	all := make([]int64, 2*c.size)
	all[2*c.rank], all[2*c.rank+1] = int64(color), int64(key)
	for i := range c.at {
		c.at[i] = 2 * i
	}
	tag, err := c.begin(callSplit, Sum, Int64, 0, len(all))
	if err != nil {
		return nil, err
	}
	if err := gatherAll(c, tag, all, c.at); err != nil {
		return nil, err
	}
	if color < 0 {
		return nil, nil
	}
	var ranks []int
	for r := range c.size {
		if all[2*r] == int64(color) {
			ranks = append(ranks, r)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(all[2*a+1], all[2*b+1]) })
	s := &subset{t: c.t, channel: tag.Channel, id: groupID(tag, color), ranks: ranks, rank: slices.Index(ranks, c.rank)}
	part := New(s)
	part.line = c.line
	part.made = c.line.part(s.id)
	return part, nil
}
