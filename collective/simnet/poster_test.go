package simnet

import (
	"fmt"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

// TestPostedPartsTakeTheTimeOfTheModel runs a forwarded all-to-all of 200 ranks, in which the
// messages of one digit position are posted at once. It must take the predicted time, minus the
// transfer time of bytes that overlaps with posting.
func TestPostedPartsTakeTheTimeOfTheModel(t *testing.T) {
	const p, part, each = 200, 256, 5 * time.Microsecond
	m := tenGigabit()
	costs := collective.Costs{Links: collective.Level{Alpha: m.Latency.Seconds(), Beta: 1 / m.BytesPerSecond}}
	posting := costs
	posting.Links.Post = each.Seconds()
	parts := make([]int, p)
	for r := range parts {
		parts[r] = part
	}
	run := func(costs collective.Costs, newComm func(tr *Transport) *collective.Comm) time.Duration {
		a, want := costs.Choose(collective.Shape{Size: p}, collective.CallAllToAll, collective.Sum, collective.Uint8, p*part)
		took, _ := modelledOn(t, p, m, newComm, func(c *collective.Comm) error {
			c.SetCosts(costs)
			return toAll(c, parts, parts, true)
		})
		if off := took.Seconds() / want; a != collective.Bruck || off < .75 || off > 1.02 {
			t.Errorf("%v: %v takes %v, modelled %.1f µs", costs.Links, a, took, 1e6*want)
		}
		return took
	}
	turns, posts := run(costs, flat), run(posting, func(tr *Transport) *collective.Comm { return collective.New(Poster{tr, each}) })
	t.Logf("in turns %v, posted %v", turns, posts)
	if posts > turns/2 {
		t.Errorf("in turns %v, posted %v", turns, posts)
	}
}

// TestPostedPartsArrive posts parts of any length, some too long for a post, with the radix that
// is best for the capacity of a post.
func TestPostedPartsArrive(t *testing.T) {
	for _, p := range []int{3, 8, 40} {
		for _, each := range []time.Duration{time.Microsecond, 10 * time.Microsecond, 40 * time.Microsecond} {
			for _, unit := range []int{1, 64, 8 << 10} {
				modelledOn(t, p, tenGigabit(), func(tr *Transport) *collective.Comm { return collective.New(Poster{tr, each}) }, func(c *collective.Comm) error {
					k := c.Costs()
					k.Links.Post, k.Take = each.Seconds(), collective.Bruck
					c.SetCosts(k)
					to, from := make([]int, p), make([]int, p)
					for r := range p {
						to[r], from[r] = unit*((c.Rank()+2*r)%5), unit*((r+2*c.Rank())%5)
					}
					return toAll(c, to, from, false)
				})
			}
		}
	}
}

// toAll checks an all-to-all of bytes that encode their source and destination.
func toAll(c *collective.Comm, to, from []int, even bool) error {
	send, recv := make([]uint8, 0, sumOf(to)), make([]uint8, sumOf(from))
	for r, n := range to {
		for range n {
			send = append(send, uint8(c.Rank()*3+r*5))
		}
	}
	var err error
	if even {
		err = collective.AllToAll(c, send, recv)
	} else {
		err = collective.AllToAllV(c, send, to, recv, from)
	}
	for r, n := range from {
		for _, got := range recv[:n] {
			if want := uint8(r*3 + c.Rank()*5); got != want && err == nil {
				err = fmt.Errorf("rank %d received %d from rank %d, want %d", c.Rank(), got, r, want)
			}
		}
		recv = recv[n:]
	}
	return err
}
