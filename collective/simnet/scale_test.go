package simnet

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// cluster returns a model of hosts with perHost ranks each, with the default costs for links
// between hosts.
func cluster(hosts, perHost int) Model {
	m := tenGigabit()
	m.Inside = Link{Latency: 2 * time.Microsecond, BytesPerSecond: 1e10}
	for r := range hosts * perHost {
		m.Hosts = append(m.Hosts, r/perHost)
	}
	return m
}

// onHosts runs body in virtual time on Comms that know the hosts of m.
func onHosts(t *testing.T, m Model, body func(c *collective.Comm) error) (time.Duration, []*Transport) {
	t.Helper()
	return modelledOn(t, len(m.Hosts), m, func(tr *Transport) *collective.Comm { return collective.NewHosts(tr, nil, m.Hosts) }, body)
}

func sum(n int) func(c *collective.Comm) error {
	return func(c *collective.Comm) error {
		return collective.AllReduce(c, make([]float32, n), collective.Sum)
	}
}

func taking(a collective.Algorithm, body func(c *collective.Comm) error) func(c *collective.Comm) error {
	return func(c *collective.Comm) error {
		take(c, a)
		return body(c)
	}
}

// TestRailsBeatFlatAsTheModelPredicts compares allreduces of Comms with hosts and without hosts
// on the same links.
func TestRailsBeatFlatAsTheModelPredicts(t *testing.T) {
	for _, n := range []int{64, 1 << 14, 1 << 18}[:patient.Size(2, 3)] {
		m := cluster(4, 4)
		rails, _ := onHosts(t, m, taking(collective.Rails, sum(n)))
		for _, a := range []collective.Algorithm{collective.Ring, collective.Bruck, collective.Direct} {
			flat, _ := modelled(t, len(m.Hosts), m, taking(a, sum(n)))
			if rails >= flat {
				t.Errorf("%d float32: in rails %v, by %v %v", n, rails, a, flat)
			}
		}
		best, _ := onHosts(t, m, sum(n))
		if best > rails {
			t.Errorf("%d float32: the choice takes %v, rails %v", n, best, rails)
		}
	}
}

// TestScale records the modelled time, messages and bytes of rank 0 for up to 256 ranks, and
// 1024 with -whole, together with the predictions of the cost model.
func TestScale(t *testing.T) {
	golden.Check(t, "scale.txt", scale(t, []int{4, 33, 256}, [][2]int{{2, 4}, {8, 8}, {64, 4}}))
	if patient.Size(0, 1) == 1 {
		golden.Check(t, "scale-1024.txt", scale(t, []int{1024}, [][2]int{{128, 8}}))
	}
}

func scale(t *testing.T, sizes []int, hosts [][2]int) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintln(&text, "# AllReduce of float32: elements, ranks or hosts×ranks, algorithm, virtual time, predicted, messages/bytes of rank 0")
	line := func(n int, where string, a collective.Algorithm, predicted float64, d time.Duration, ts []*Transport) {
		fmt.Fprintf(&text, "%7d %6s %-8v %14v %14v %6d/%d\n", n, where, a, d, time.Duration(predicted*1e9), ts[0].sent().messages, ts[0].sent().bytes)
	}
	for _, n := range []int{16, 1 << 14, 1 << 18} {
		for _, p := range sizes {
			if n > 1<<14 && p > 33 || n > 16 && p > 256 { // would copy gigabytes
				continue
			}
			k := collective.DefaultCosts()
			k.Links.Gamma = 0 // in the simulation sums take no time
			a, predicted := k.Choose(collective.Shape{Size: p}, collective.CallAllReduce, collective.Sum, collective.Float32, 4*n)
			d, ts := modelled(t, p, tenGigabit(), taking(a, sum(n)))
			line(n, fmt.Sprint(p), a, predicted, d, ts)
		}
		for _, h := range hosts {
			m := cluster(h[0], h[1])
			if n > 16 && h[0] > 8 {
				continue
			}
			d, ts := onHosts(t, m, taking(collective.Rails, sum(n)))
			k := collective.DefaultCosts()
			k.Links.Gamma, k.Local.Gamma = 0, 0
			predicted := k.Predict(collective.Shape{Size: h[0] * h[1], Hosts: h[0], Most: h[1], Least: h[1]}, collective.Rails, collective.CallAllReduce, collective.Sum, collective.Float32, 4*n)
			line(n, fmt.Sprintf("%d×%d", h[0], h[1]), collective.Rails, predicted, d, ts)
		}
	}
	return text.String()
}

// TestAllToAllAtScale does the same for all-to-alls with the chosen algorithm and pairwise: a
// count of 8 bytes for each rank, and parts of different lengths, on average 64 bytes.
func TestAllToAllAtScale(t *testing.T) {
	golden.Check(t, "alltoall.txt", allToAlls(t, 4, 33, 64))
	if patient.Size(0, 1) == 1 {
		golden.Check(t, "alltoall-1024.txt", allToAlls(t, 256, 1024))
	}
}

func allToAlls(t *testing.T, sizes ...int) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintln(&text, "# call, ranks, algorithm, virtual time, predicted, messages/bytes of rank 0")
	for _, p := range sizes {
		counts := func(c *collective.Comm) error {
			return collective.AllToAll(c, make([]int64, p), make([]int64, p))
		}
		parts := func(c *collective.Comm) error {
			send, recv := make([]int, p), make([]int, p)
			for r := range p {
				send[r], recv[r] = (c.Rank()*5+r*3)%129, (r*5+c.Rank()*3)%129
			}
			return collective.AllToAllV(c, make([]uint8, sumOf(send)), send, make([]uint8, sumOf(recv)), recv)
		}
		for _, k := range []struct {
			call  collective.Call
			bytes int // size of the largest buffer
			body  func(c *collective.Comm) error
		}{{collective.CallAllToAll, 8 * p, counts}, {collective.CallAllToAllV, greatestBuffer(p), parts}} {
			for _, a := range []collective.Algorithm{collective.Windows, collective.Pairwise} {
				if a == collective.Pairwise && p > 64 { // up to a million messages
					continue
				}
				costs := collective.DefaultCosts()
				costs.Links.Gamma, costs.Take = 0, a
				taken, predicted := costs.Choose(collective.Shape{Size: p}, k.call, collective.Sum, collective.Uint8, k.bytes)
				d, ts := modelled(t, p, tenGigabit(), func(c *collective.Comm) error {
					c.SetCosts(costs)
					return k.body(c)
				})
				fmt.Fprintf(&text, "%-10v %4d %-8v %14v %14v %6d/%d\n", k.call, p, taken, d, time.Duration(predicted*1e9), ts[0].sent().messages, ts[0].sent().bytes)
			}
		}
	}
	return text.String()
}

func sumOf(x []int) (sum int) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// greatestBuffer returns the most bytes that a rank sends or receives in TestAllToAllAtScale.
func greatestBuffer(p int) (most int) {
	for r := range p {
		send, recv := 0, 0
		for k := range p {
			send, recv = send+(r*5+k*3)%129, recv+(k*5+r*3)%129
		}
		most = max(most, send, recv)
	}
	return most
}

// TestLossAnywhere loses a rank at the first, a middle and the last exchange of calls by every
// algorithm, with and without hosts. All ranks must blame it.
func TestLossAnywhere(t *testing.T) {
	body := func(c *collective.Comm) error {
		for range 3 {
			if err := collective.AllReduce(c, make([]float32, 100), collective.Max); err != nil {
				return err
			}
		}
		return collective.Barrier(c)
	}
	for a := collective.Ring; a <= collective.Rails; a++ {
		m := cluster(3, 3)
		for _, rank := range []int{0, 4, 8} {
			_, ts := onHosts(t, m, taking(a, body))
			last := ts[rank].net.nics[rank].exchanges
			for _, k := range []int{1, 2, last / 2, last} {
				m.Lose = map[int]int{rank: k}
				_, _, errs := simulateOn(t, len(m.Hosts), m, func(tr *Transport) *collective.Comm { return collective.NewHosts(tr, nil, m.Hosts) }, taking(a, body))
				for i, err := range errs {
					var lost *collective.LostError
					if err != nil && (!errors.As(err, &lost) || lost.Rank != rank) || err == nil && k < last-2 {
						t.Errorf("%v: rank %d lost at exchange %d of %d: error of rank %d: %v", a, rank, k, last, i, err)
					}
				}
				m.Lose = nil
			}
		}
	}
}
