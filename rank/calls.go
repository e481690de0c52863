package rank

import (
	"fmt"
	"slices"
	"strings"
)

// Call is a collective call that a rank has begun.
type Call struct {
	Channel int
	Part    uint32 // subset of ranks, which numbers its own calls; 0: all ranks
	Seq     uint64 // number of the subset's call on the channel, from 1; 0: none was made
	Hash    uint64 // equal for equal calls whose algorithm is chosen by the same costs
	Name    string // for example "AllReduce(sum) of 10 float32"
	Last    bool   // the rank has begun no later call on the channel
}

const (
	// MaxCalls bounds the calls of a report.
	MaxCalls = 64

	// callsKept is the number of calls of a part that are compared. Ranks that wait for
	// each call drift apart by a few calls. Ranks that enqueue calls on a device report up
	// to 32.
	callsKept = 32
	// partsKept bounds the parts of all reports, channelsKept the channels of one rank.
	partsKept    = 1024
	channelsKept = 64
	// cycleShown bounds the ranks of a cycle that a message names.
	cycleShown = 4
)

// Calls compares the collective calls that ranks report and finds ranks that disagree. It
// compares the order in which each rank begins its calls. That order does not change, so
// reports of different times are comparable. The zero value has no reports.
type Calls struct {
	parts map[part]*[callsKept]begunBy
	ranks map[int]map[int]*place // by rank and channel
}

// part is a subset of the ranks on a channel.
type part struct {
	channel int
	id      uint32
}

// begunBy is the first report of a call.
type begunBy struct {
	rank int
	call Call
}

// place is the latest reported call of a rank on a channel.
type place struct {
	call Call              // the last call begun
	seqs map[uint32]uint64 // by part: number of its last call
}

// Difference is a disagreement between ranks about a call.
type Difference struct {
	Ranks []int  // two with different calls, or a cycle, each of which waits for the next
	Calls []Call // call of each rank
	Waits bool   // the ranks form a cycle
}

// String describes the difference in one line.
func (d *Difference) String() string {
	if !d.Waits {
		a, b := d.Calls[0], d.Calls[1]
		if a.Name == b.Name {
			return fmt.Sprintf("calls differ: ranks %d and %d called %s, as call %d on channel %d%s, but choose its algorithm by different costs; every rank must set the same costs",
				d.Ranks[0], d.Ranks[1], a.Name, a.Seq, a.Channel, a.of())
		}
		return fmt.Sprintf("calls differ: rank %d called %s, rank %d called %s, as call %d on channel %d%s; every rank must make the same calls in the same order",
			d.Ranks[0], a.Name, d.Ranks[1], b.Name, a.Seq, a.Channel, a.of())
	}
	var at []string
	for i, r := range d.Ranks[:min(len(d.Ranks), cycleShown)] {
		c := d.Calls[i]
		at = append(at, fmt.Sprintf("rank %d in %s (call %d%s)", r, c.Name, c.Seq, c.of()))
	}
	if rest := len(d.Ranks) - cycleShown; rest > 0 {
		at = append(at, ranks(rest))
	}
	return fmt.Sprintf("calls differ: ranks wait for each other on channel %d: %s; every rank must make the calls of a channel in the same order",
		d.Calls[0].Channel, strings.Join(at, ", "))
}

func (c Call) of() string {
	if c.Part == 0 {
		return ""
	}
	return " of a part of the ranks"
}

// Report compares the calls of a rank with earlier reports. It returns nil if no two ranks
// disagree. For each channel a report contains the last calls of one part, one of which is
// marked Last, and the last call of every other part that the rank is in.
func (c *Calls) Report(rank int, calls []Call) *Difference {
	if c.parts == nil {
		c.parts, c.ranks = map[part]*[callsKept]begunBy{}, map[int]map[int]*place{}
	}
	for _, call := range calls {
		if d := c.compare(rank, call); d != nil {
			return d
		}
	}
	channels := map[int]*place{}
	for _, call := range calls {
		p := channels[call.Channel]
		if p == nil {
			p = &place{seqs: map[uint32]uint64{}}
			channels[call.Channel] = p
		}
		p.seqs[call.Part] = max(p.seqs[call.Part], call.Seq)
		if call.Last {
			p.call = call
		}
	}
	if c.ranks[rank] == nil {
		c.ranks[rank] = channels
	}
	for channel, p := range channels {
		if c.ranks[rank][channel] == nil && len(c.ranks[rank]) >= channelsKept {
			continue
		}
		c.ranks[rank][channel] = p
		if p.call.Seq == 0 || len(p.seqs) == 1 { // a cycle needs two parts
			continue
		}
		if d := c.cycle(channel, rank); d != nil {
			return d
		}
	}
	return nil
}

// compare compares a call with the call of the same number that another rank reported.
func (c *Calls) compare(rank int, call Call) *Difference {
	if call.Seq == 0 {
		return nil
	}
	key := part{call.Channel, call.Part}
	kept := c.parts[key]
	if kept == nil {
		if len(c.parts) == partsKept {
			return nil
		}
		kept = new([callsKept]begunBy)
		c.parts[key] = kept
	}
	first := &kept[call.Seq%callsKept]
	switch {
	case first.call.Seq < call.Seq:
		*first = begunBy{rank, call}
	case first.call.Seq == call.Seq && first.call.Hash != call.Hash:
		return &Difference{Ranks: []int{first.rank, rank}, Calls: []Call{first.call, call}}
	}
	return nil
}

// cycle searches for ranks that wait for each other, starting at start.
func (c *Calls) cycle(channel, start int) *Difference {
	order := make([]int, 0, len(c.ranks))
	for r := range c.ranks {
		order = append(order, r)
	}
	slices.Sort(order)
	looked := map[int]bool{}
	var way []int
	var follow func(at int) bool
	follow = func(at int) bool {
		way = append(way, at)
		for _, next := range order {
			if !c.waits(channel, at, next) || looked[next] {
				continue
			}
			if next == start {
				return true
			}
			looked[next] = true
			if follow(next) {
				return true
			}
		}
		way = way[:len(way)-1]
		return false
	}
	if !follow(start) {
		return nil
	}
	d := &Difference{Ranks: way, Waits: true}
	for _, r := range way {
		d.Calls = append(d.Calls, c.ranks[r][channel].call)
	}
	return d
}

// waits reports whether rank a's call needs rank b, and b has not begun it but another call
// instead.
func (c *Calls) waits(channel, a, b int) bool {
	x, y := c.ranks[a][channel], c.ranks[b][channel]
	if a == b || x == nil || y == nil || x.call.Seq == 0 || y.call.Seq == 0 {
		return false
	}
	seq, member := y.seqs[x.call.Part]
	return member && seq < x.call.Seq
}
