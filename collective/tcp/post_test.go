package tcp

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestPostsAndTurnsAreTheSameOnTheWire: each rank decides whether it posts all its messages at
// once or exchanges them in turns. Both kinds work together for messages of any length.
func TestPostsAndTurnsAreTheSameOnTheWire(t *testing.T) {
	for name, group := range kinds() {
		t.Run(name, func(t *testing.T) {
			ts := group(t, 4)
			defer closeAll(ts)
			for _, unit := range []int{0, 1, 2 << 10, 64 << 10} {
				for _, posting := range []uint{0b1111, 0b0101, 0b1110, 0b0001} { // one bit per rank
					postOrTurns(t, ts, unit, posting)
				}
			}
		})
	}
}

func postOrTurns(t *testing.T, ts []*Transport, unit int, posting uint) {
	size := len(ts)
	part := func(from, to int) []byte { return bytes.Repeat([]byte{byte(1 + from*size + to)}, unit*(from+2*to)) }
	tag := collective.Tag{Call: collective.CallAllToAllV, Seq: uint64(unit)<<8 + uint64(posting) + 1}
	var wg sync.WaitGroup
	for r, tr := range ts {
		wg.Go(func() {
			var posts []collective.Post
			for k := 1; k < size; k++ {
				to, from := (r+k)%size, (r-k+size)%size
				posts = append(posts, collective.Post{To: to, Send: part(r, to), From: from, Recv: make([]byte, len(part(from, r)))})
			}
			exchange := tr.exchangeInTurns
			if posting>>r&1 != 0 {
				exchange = tr.ExchangeEach
			}
			if err := exchange(tag, posts); err != nil {
				t.Errorf("unit %d, posting %04b: rank %d: %v", unit, posting, r, err)
				return
			}
			for _, p := range posts {
				if !bytes.Equal(p.Recv, part(p.From, r)) {
					t.Errorf("unit %d, posting %04b: rank %d received wrong bytes from rank %d", unit, posting, r, p.From)
				}
			}
			for _, p := range tr.peers {
				if p != nil && (p.data[0].sending() || p.data[0].vec[1] != nil || p.data[0].recv != nil) {
					t.Errorf("unit %d, posting %04b: rank %d still refers to the caller's slice", unit, posting, r)
				}
			}
		})
	}
	wg.Wait()
}

// TestPostsInACycle: three groups of three ranks overlap pairwise in one rank. These ranks post
// messages in calls of different groups and wait for each other. None reads the messages posted
// to it, so only the cycle reveals the mistake.
func TestPostsInACycle(t *testing.T) {
	for name, group := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := group(t, 6)
			defer closeAll(ts)
			errs, comms := make(chan error, len(ts)), make([]*collective.Comm, len(ts))
			for r, tr := range ts {
				comms[r] = collective.New(tr)
			}
			defer colltest.Compare(comms, 1)()
			for _, c := range comms {
				go func() { errs <- postInCycle(c) }()
			}
			for range ts {
				select {
				case err := <-errs:
					if !colltest.Disagree(err) {
						t.Errorf("%v, want calls that differ", err)
					}
				case <-time.After(patient.Longest):
					t.Fatal("the cycle of waiting ranks was not detected")
				}
			}
		})
	}
}

// postInCycle creates groups of ranks 0 to 2, of 2 to 4, and of 4, 5 and 0. Each rank makes a
// call in each of its groups, in this order.
func postInCycle(c *collective.Comm) error {
	var mine []*collective.Comm
	for first := 0; first < 6; first += 2 {
		at := (c.Rank() - first + 6) % 6
		part, err := c.Split(max(-1, min(0, 2-at)), at)
		if err != nil {
			return err
		}
		if at == 0 { // before the group of which this rank is the last
			mine = append([]*collective.Comm{part}, mine...)
		} else if part != nil {
			mine = append(mine, part)
		}
	}
	for _, part := range mine {
		counts, send, recv := []int{10, 10, 10}, make([]int32, 30), make([]int32, 30)
		if err := collective.AllToAllV(part, send, counts, recv, counts); err != nil {
			return err
		}
	}
	return collective.Barrier(c) // ranks that are in only one group wait here
}

// TestPostsAreMeasured: the time of a posted message is measured and is the same on all ranks.
func TestPostsAreMeasured(t *testing.T) {
	for name, group := range kinds() {
		t.Run(name, func(t *testing.T) {
			ts := group(t, 3)
			defer closeAll(ts)
			found := make([]collective.Costs, len(ts))
			var wg sync.WaitGroup
			for r, tr := range ts {
				wg.Go(func() {
					var err error
					if found[r], err = collective.Measure(collective.New(tr)); err != nil {
						t.Errorf("rank %d: %v", r, err)
					}
				})
			}
			wg.Wait()
			for r, k := range found {
				if l := k.Links; k != found[0] || !(l.Post > 0 && l.Post <= l.Alpha) {
					t.Errorf("rank %d: %v, rank 0: %v", r, l, found[0].Links)
				}
			}
		})
	}
}
