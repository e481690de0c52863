package simnet

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// tenGigabit models a common network of a cluster: 10 Gbit/s.
func tenGigabit() Model { return Model{Latency: 50 * time.Microsecond, BytesPerSecond: 1.25e9} }

// simulateOn runs body on every rank in virtual time, on a Comm that newComm creates. It returns
// the time of the slowest rank, the transports, and the errors by rank.
func simulateOn(t *testing.T, size int, m Model, newComm func(*Transport) *collective.Comm, body func(c *collective.Comm) error) (d time.Duration, ts []*Transport, errs []error) {
	t.Helper()
	errs = make([]error, size)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ts = New(size, 2, m)
		var wg sync.WaitGroup
		for i, tr := range ts {
			wg.Go(func() { errs[i] = body(newComm(tr)) })
		}
		wg.Wait()
		d = time.Since(begin)
	})
	return d, ts, errs
}

// modelledOn is like simulateOn and fails the test on an error.
func modelledOn(t *testing.T, size int, m Model, newComm func(*Transport) *collective.Comm, body func(c *collective.Comm) error) (time.Duration, []*Transport) {
	t.Helper()
	d, ts, errs := simulateOn(t, size, m, newComm, body)
	fatal.If(t, errors.Join(errs...))
	return d, ts
}

func flat(tr *Transport) *collective.Comm { return collective.New(tr) }

// simulate and modelled use Comms without hosts.
func simulate(t *testing.T, size int, m Model, body func(c *collective.Comm) error) (time.Duration, []*Transport, []error) {
	t.Helper()
	return simulateOn(t, size, m, flat, body)
}

func modelled(t *testing.T, size int, m Model, body func(c *collective.Comm) error) (time.Duration, []*Transport) {
	t.Helper()
	return modelledOn(t, size, m, flat, body)
}

// take makes calls on c use algorithm a.
func take(c *collective.Comm, a collective.Algorithm) {
	k := c.Costs()
	k.Take = a
	c.SetCosts(k)
}

// TestRingTakesTheTimeOfTheFormula: the modelled time, messages and bytes of a ring equal the
// results of the formula.
func TestRingTakesTheTimeOfTheFormula(t *testing.T) {
	m := tenGigabit()
	const n = 1 << 16
	for _, p := range []int{2, 3, 4, 5, 8, 16, 33, 64, 200}[:patient.Size(7, 9)] {
		d, ts := modelled(t, p, m, func(c *collective.Comm) error {
			take(c, collective.Ring)
			return collective.AllReduce(c, make([]float32, n), collective.Sum)
		})
		steps := float64(2 * (p - 1))
		want := steps * (m.Latency.Seconds() + 4*n/float64(p)/m.BytesPerSecond)
		if off := math.Abs(d.Seconds()-want) / want; off > .01 {
			t.Errorf("P=%d: %v, want %.6fs by the formula", p, d, want)
		}
		sent := int64(0)
		for _, tr := range ts {
			if tr.sent().messages != 2*(p-1) {
				t.Errorf("P=%d: %d messages, want %d", p, tr.sent().messages, 2*(p-1))
			}
			sent += tr.sent().bytes
		}
		if want := int64(2 * (p - 1) * 4 * n); sent != want {
			t.Errorf("P=%d: all ranks sent %d bytes, want %d", p, sent, want)
		}
	}
}

// sent returns the traffic that a rank has sent in a simulation that has ended.
func (t *Transport) sent() traffic { return t.net.nics[t.rank].sent }

// TestTraffic records the modelled time, messages and bytes of every call.
func TestTraffic(t *testing.T) {
	const n = 10007
	x := func() []float32 { return make([]float32, n) }
	counts := func(p int) []int {
		c := make([]int, p)
		c[p-1] = n
		return c
	}
	var text strings.Builder
	fmt.Fprintln(&text, "# 10007 float32 on 10 Gbit/s links of 50 µs: call, P, virtual time, then messages/bytes sent by each rank")
	for _, k := range []struct {
		name string
		call func(c *collective.Comm) error
	}{
		{"AllReduce", func(c *collective.Comm) error { return collective.AllReduce(c, x(), collective.Sum) }},
		{"ReduceScatter", func(c *collective.Comm) error {
			_, _, err := collective.ReduceScatter(c, x(), collective.Sum)
			return err
		}},
		{"AllGather", func(c *collective.Comm) error { return collective.AllGather(c, x()) }},
		{"AllGatherV", func(c *collective.Comm) error { return collective.AllGatherV(c, x(), counts(c.Size())) }},
		{"AllToAll", func(c *collective.Comm) error {
			k := n / c.Size() * c.Size()
			return collective.AllToAll(c, x()[:k], x()[:k])
		}},
		{"Broadcast", func(c *collective.Comm) error { return collective.Broadcast(c, x(), c.Size()-1) }},
		{"Barrier", func(c *collective.Comm) error { return collective.Barrier(c) }},
		{"AllGatherBytes", func(c *collective.Comm) error {
			_, err := collective.AllGatherBytes(c, make([]byte, 1000*c.Rank()), n)
			return err
		}},
	} {
		for _, p := range []int{1, 2, 4, 5} {
			d, ts := modelled(t, p, tenGigabit(), k.call)
			fmt.Fprintf(&text, "%-14s %d %12v ", k.name, p, d)
			for _, tr := range ts {
				fmt.Fprintf(&text, " %d/%d", tr.sent().messages, tr.sent().bytes)
			}
			fmt.Fprintln(&text)
		}
	}
	golden.Check(t, "traffic.txt", text.String())
}

// TestTurnsAtOneNIC: three ranks send to one rank. The last byte must arrive after the sum of
// their transfer times.
func TestTurnsAtOneNIC(t *testing.T) {
	m := Model{Latency: time.Second, BytesPerSecond: 100, Overhead: 10}
	d, _ := modelled(t, 4, m, func(c *collective.Comm) error {
		// The lengths take three exchanges of 18 bytes by ring. Then 90+10 bytes each.
		take(c, collective.Ring)
		_, err := collective.GatherBytes(c, make([]byte, 90), 0, 90)
		return err
	})
	if want := 3*(time.Second+180*time.Millisecond) + time.Second + 3*time.Second; d != want {
		t.Errorf("%v, want %v", d, want)
	}
}

// TestChannelsShareTheNIC: two channels together have the bandwidth of one NIC.
func TestChannelsShareTheNIC(t *testing.T) {
	m := Model{BytesPerSecond: 1000}
	d, _ := modelled(t, 2, m, func(c *collective.Comm) error {
		errs := make(chan error)
		for i := range 2 {
			go func() { errs <- collective.AllToAll(c.Channel(i), make([]uint8, 2000), make([]uint8, 2000)) }()
		}
		return errors.Join(<-errs, <-errs)
	})
	if d != 2*time.Second {
		t.Errorf("two channels of 1000 bytes each way at 1000 bytes/s took %v, want 2s", d)
	}
}

// TestASlowRankHoldsTheRing: one rank with a slow NIC delays the whole ring.
func TestASlowRankHoldsTheRing(t *testing.T) {
	m := tenGigabit()
	allReduce := func(c *collective.Comm) error {
		return collective.AllReduce(c, make([]float32, 1<<20), collective.Sum)
	}
	even, _ := modelled(t, 8, m, allReduce)
	m.Slow = map[int]float64{3: 4}
	slow, _ := modelled(t, 8, m, allReduce)
	if r := slow.Seconds() / even.Seconds(); r < 3 || r > 4.1 {
		t.Errorf("one rank with a NIC four times slower: %v instead of %v", slow, even)
	}
}

// TestLossAtEveryExchange loses each rank at each exchange of an allreduce. All ranks must blame
// it.
func TestLossAtEveryExchange(t *testing.T) {
	const size = 5
	for rank := range size {
		for k := 1; k <= 2*(size-1); k++ {
			m := tenGigabit()
			m.Lose = map[int]int{rank: k}
			_, _, errs := simulate(t, size, m, func(c *collective.Comm) error {
				take(c, collective.Ring)
				if err := collective.AllReduce(c, make([]float32, 1000), collective.Sum); err != nil {
					return err
				}
				return collective.Barrier(c)
			})
			for i, err := range errs {
				var lost *collective.LostError
				if !errors.As(err, &lost) || lost.Rank != rank {
					t.Errorf("rank %d lost at exchange %d: error of rank %d: %v", rank, k, i, err)
				}
			}
		}
	}
}

// TestSameTimesEveryRun: a simulation has the same modelled times in each run.
func TestSameTimesEveryRun(t *testing.T) {
	run := func() time.Duration {
		d, _ := modelled(t, 6, tenGigabit(), func(c *collective.Comm) error {
			for n := range 20 {
				time.Sleep(time.Duration(c.Rank()*n) * time.Microsecond) // ranks compute for different times
				if err := collective.AllReduce(c, make([]float64, 100*n), collective.Min); err != nil {
					return err
				}
			}
			return nil
		})
		return d
	}
	if a, b := run(), run(); a != b {
		t.Errorf("%v, then %v", a, b)
	}
}
