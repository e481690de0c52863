package collective

import (
	"fmt"
	"math/bits"
	"testing"
)

// The tests of schedules run on tallies instead of numbers: tally[r] is how often an element
// contains the contribution of rank r.

const proven = 33 // schedules are proved for all world sizes up to this one

type tally [proven]uint8

func only(rank int) (t tally) {
	t[rank] = 1
	return t
}

func everyone(size int) (t tally) {
	for r := range size {
		t[r] = 1
	}
	return t
}

// machine runs the schedules of all ranks by rendezvous: a message is delivered only when its
// receiver is at its exchange with the sender, as in package mem.
type machine struct {
	size       int
	steps      [][]exchange
	send, recv [][]tally // by rank; the same slices for calls in place
	sent       []int     // elements by rank
	came       [][]tally // data received in the current exchange of each rank
}

// run returns an error if ranks deadlock or messages do not match.
func (m *machine) run() error {
	m.came = make([][]tally, m.size)
	at := make([]int, m.size)      // the current exchange of each rank
	taken := make([]bool, m.size)  // its message was delivered
	filled := make([]bool, m.size) // its expected message has arrived
	for moved := true; moved; {
		moved = false
		for r := range m.size {
			ok, err := m.receive(r, at, taken, filled)
			if err != nil {
				return err
			}
			moved = moved || ok
		}
		for r := range m.size {
			if at[r] < len(m.steps[r]) {
				x := m.steps[r][at[r]]
				if (x.to < 0 || taken[r]) && (x.from < 0 || filled[r]) {
					m.settle(r, x)
					at[r]++
					taken[r], filled[r], moved = false, false, true
				}
			}
		}
	}
	for r, k := range at {
		if k < len(m.steps[r]) {
			return fmt.Errorf("rank %d is stuck at %+v", r, m.steps[r][k])
		}
	}
	return nil
}

// settle ends an exchange. Only then may the sent data be overwritten.
func (m *machine) settle(r int, x exchange) {
	in := m.recv[r][x.recv.lo:x.recv.hi]
	for i, v := range m.came[r] {
		if x.reduce != overwrite {
			for k := range in[i] {
				v[k] += in[i][k]
			}
		}
		in[i] = v
	}
	m.came[r] = nil
}

// receive delivers the message that rank r waits for, if it was sent.
func (m *machine) receive(r int, at []int, taken, filled []bool) (bool, error) {
	if at[r] == len(m.steps[r]) || filled[r] {
		return false, nil
	}
	x := m.steps[r][at[r]]
	p := x.from
	if p < 0 || at[p] == len(m.steps[p]) || taken[p] {
		return false, nil
	}
	y := m.steps[p][at[p]]
	if y.to != r {
		return false, nil
	}
	out, in := m.send[p][y.send.lo:y.send.hi], m.recv[r][x.recv.lo:x.recv.hi]
	if len(out) != len(in) || x.round != y.round {
		return false, fmt.Errorf("rank %d sends %+v, rank %d expects %+v", p, y, r, x)
	}
	m.came[r] = append([]tally(nil), out...)
	if p != r {
		m.sent[p] += len(out)
	}
	taken[p], filled[r] = true, true
	return true, nil
}

// own returns n elements with the contribution of rank.
func own(rank, n int) []tally {
	x := make([]tally, n)
	for i := range x {
		x[i] = only(rank)
	}
	return x
}

// inPlace runs schedules in place, on one slice per rank.
func inPlace(t *testing.T, size int, steps func(rank int) []exchange, x func(rank int) []tally) *machine {
	t.Helper()
	m := &machine{size: size, sent: make([]int, size)}
	for r := range size {
		m.steps = append(m.steps, steps(r))
		m.send = append(m.send, x(r))
	}
	m.recv = m.send
	if err := m.run(); err != nil {
		t.Fatalf("P=%d: %v", size, err)
	}
	return m
}

func bounds(size, n int) []int {
	at := make([]int, size+1)
	for i := range size {
		at[i], at[i+1] = Chunk(n, size, i)
	}
	return at
}

// sizes returns lengths around which chunk bounds change.
func sizes(p int) []int { return []int{0, 1, p - 1, p, p + 1, 2*p + 3} }

func wantAll(t *testing.T, what string, size, rank int, got []tally, want func(i int) tally) {
	t.Helper()
	for i := range got {
		if got[i] != want(i) {
			t.Fatalf("%s: P=%d n=%d: element %d on rank %d contains %v", what, size, len(got), i, rank, got[i][:size])
		}
	}
}

// TestReductionsCountEachRankOnce: a ring counts the contribution of each rank once and sends
// the documented number of elements.
func TestReductionsCountEachRankOnce(t *testing.T) {
	for p := 1; p <= proven; p++ {
		for _, n := range sizes(p) {
			at := bounds(p, n)
			m := inPlace(t, p, func(r int) []exchange { return allReduceRing(nil, r, p, at) }, func(r int) []tally { return own(r, n) })
			for r := range p {
				wantAll(t, "allreduce", p, r, m.send[r], func(int) tally { return everyone(p) })
				if want := 2*n - (at[r+1] - at[r]) - (at[(r+1)%p+1] - at[(r+1)%p]); len(m.steps[r]) != 2*(p-1) || m.sent[r] != want && p > 1 {
					t.Fatalf("allreduce: P=%d n=%d: rank %d sent %d elements in %d exchanges, want %d in %d", p, n, r, m.sent[r], len(m.steps[r]), want, 2*(p-1))
				}
			}
			m = inPlace(t, p, func(r int) []exchange { return reduceScatterRing(nil, r, p, at) }, func(r int) []tally { return own(r, n) })
			for r := range p {
				wantAll(t, "reduce-scatter", p, r, m.send[r][at[r]:at[r+1]], func(int) tally { return everyone(p) })
				if len(m.steps[r]) != p-1 || m.sent[r] != n-(at[r+1]-at[r]) {
					t.Fatalf("reduce-scatter: P=%d n=%d: rank %d sent %d elements", p, n, r, m.sent[r])
				}
			}
		}
	}
}

// TestPiecesOfARingCountEachRankOnce: a ring in pieces counts the contribution of each rank once
// and sends as many elements as a whole ring.
func TestPiecesOfARingCountEachRankOnce(t *testing.T) {
	for p := 2; p <= proven; p++ {
		for _, n := range sizes(p) {
			for _, pieces := range []int{1, 2, 5} {
				at := bounds(p, n)
				whole := inPlace(t, p, func(r int) []exchange { return allReduceRing(nil, r, p, at) }, func(r int) []tally { return own(r, n) })
				m := inPlace(t, p, func(r int) []exchange { return inPieces(allReduceRing(nil, r, p, at), pieces) }, func(r int) []tally { return own(r, n) })
				for r := range p {
					wantAll(t, "allreduce in pieces", p, r, m.send[r], func(int) tally { return everyone(p) })
					if m.sent[r] != whole.sent[r] || len(m.steps[r]) != 2*(p-1)*pieces {
						t.Fatalf("P=%d n=%d: rank %d sent %d elements in %d exchanges, want %d in %d", p, n, r, m.sent[r], len(m.steps[r]), whole.sent[r], 2*(p-1)*pieces)
					}
				}
			}
		}
	}
}

// TestAllGatherBringsEachPartFromItsOwner: an all-gather brings each part from its owner to all
// ranks.
func TestAllGatherBringsEachPartFromItsOwner(t *testing.T) {
	for p := 1; p <= proven; p++ {
		for _, n := range sizes(p) {
			at := bounds(p, n)
			m := inPlace(t, p, func(r int) []exchange { return allGatherRing(nil, r, p, at) }, func(r int) []tally {
				x := make([]tally, n)
				copy(x[at[r]:at[r+1]], own(r, n))
				return x
			})
			for r := range p {
				for o := range p {
					wantAll(t, "all-gather", p, r, m.send[r][at[o]:at[o+1]], func(int) tally { return only(o) })
				}
				if want := n - (at[(r+1)%p+1] - at[(r+1)%p]); len(m.steps[r]) != p-1 || m.sent[r] != want {
					t.Fatalf("all-gather: P=%d n=%d: rank %d sent %d elements, want %d", p, n, r, m.sent[r], want)
				}
			}
		}
	}
}

// TestBruckBringsEachPart: Bruck's all-gather brings each part to all ranks in ⌈log₂ P⌉ rounds.
func TestBruckBringsEachPart(t *testing.T) {
	for p := 1; p <= proven; p++ {
		for _, n := range sizes(p) {
			at := bounds(p, n)
			from := func(r int) []int { // bounds of the parts, in the order of ranks from r
				own := []int{0}
				for j := range p {
					k := (r + j) % p
					own = append(own, own[j]+at[k+1]-at[k])
				}
				return own
			}
			m := inPlace(t, p, func(r int) []exchange { return allGatherBruck(nil, r, p, from(r)) }, func(r int) []tally {
				x := make([]tally, n)
				copy(x, own(r, at[r+1]-at[r]))
				return x
			})
			for r := range p {
				for j := range p {
					wantAll(t, "bruck", p, r, m.send[r][from(r)[j]:from(r)[j+1]], func(int) tally { return only((r + j) % p) })
				}
				if len(m.steps[r]) != bits.Len(uint(p-1)) {
					t.Fatalf("bruck: P=%d: %d rounds", p, len(m.steps[r]))
				}
			}
			if sent := total(m.sent); sent != n*(p-1) {
				t.Fatalf("bruck: P=%d n=%d: all sent %d elements, want %d", p, n, sent, n*(p-1))
			}
		}
	}
}

func total(x []int) (sum int) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// TestDoublingCountsEachRankOnce: recursive doubling counts the contribution of each rank once.
func TestDoublingCountsEachRankOnce(t *testing.T) {
	const n = 3
	for p := 1; p <= proven; p++ {
		m := inPlace(t, p, func(r int) []exchange { return allReduceDoubling(nil, r, p, n) }, func(r int) []tally { return own(r, n) })
		rounds := bits.Len(uint(p)) - 1
		want := n * rounds << rounds
		if extra := p - 1<<rounds; extra > 0 {
			rounds, want = rounds+2, want+2*extra*n
		}
		for r := range p {
			wantAll(t, "doubling", p, r, m.send[r], func(int) tally { return everyone(p) })
			for _, x := range m.steps[r] {
				if x.round >= rounds {
					t.Fatalf("doubling: P=%d: round %d of %d", p, x.round, rounds)
				}
			}
		}
		if total(m.sent) != want {
			t.Fatalf("doubling: P=%d: all sent %d elements, want %d", p, total(m.sent), want)
		}
	}
}

// TestDirectBringsChunksToTheirOwners proves the first half of Direct. The second half is Bruck.
func TestDirectBringsChunksToTheirOwners(t *testing.T) {
	for p := 1; p <= proven; p++ {
		for _, n := range sizes(p) {
			m := &machine{size: p, sent: make([]int, p)}
			at := bounds(p, n)
			for r := range p {
				k := at[r+1] - at[r]
				to := make([]int, p+1)
				for i := range to {
					to[i] = i * k
				}
				m.steps = append(m.steps, allToAllPairwise(nil, r, p, at, to))
				m.send, m.recv = append(m.send, own(r, n)), append(m.recv, make([]tally, p*k))
			}
			if err := m.run(); err != nil {
				t.Fatalf("P=%d: %v", p, err)
			}
			for r := range p {
				k := at[r+1] - at[r]
				for from := range p {
					wantAll(t, "direct", p, r, m.recv[r][from*k:(from+1)*k], func(int) tally { return only(from) })
				}
				if m.sent[r] != n-k {
					t.Fatalf("direct: P=%d n=%d: rank %d sent %d elements, want %d", p, n, r, m.sent[r], n-k)
				}
			}
		}
	}
}

// TestAllToAllBringsEachPartToItsRank: an all-to-all brings each part to its destination.
func TestAllToAllBringsEachPartToItsRank(t *testing.T) {
	count := func(from, to int) int { return (from*3 + to*5) % 4 }
	for p := 1; p <= proven; p++ {
		m := &machine{size: p, sent: make([]int, p)}
		for r := range p {
			sendAt, recvAt := make([]int, p+1), make([]int, p+1)
			var send []tally
			for i := range p {
				sendAt[i+1], recvAt[i+1] = sendAt[i]+count(r, i), recvAt[i]+count(i, r)
				for range count(r, i) {
					x := only(r)
					x[i] += 2 // from rank r, for rank i
					send = append(send, x)
				}
			}
			m.steps = append(m.steps, allToAllPairwise(nil, r, p, sendAt, recvAt))
			m.send, m.recv = append(m.send, send), append(m.recv, make([]tally, recvAt[p]))
		}
		if err := m.run(); err != nil {
			t.Fatalf("P=%d: %v", p, err)
		}
		for r := range p {
			k := 0
			for from := range p {
				want := only(from)
				want[r] += 2
				for range count(from, r) {
					if m.recv[r][k] != want {
						t.Fatalf("all-to-all: P=%d: element %d on rank %d is %v, want %v", p, k, r, m.recv[r][k][:p], want[:p])
					}
					k++
				}
			}
		}
	}
}

// TestBroadcastReachesAll: a broadcast reaches all ranks in the documented number of rounds.
func TestBroadcastReachesAll(t *testing.T) {
	const n = 2
	for p := 1; p <= proven; p++ {
		depth := bits.Len(uint(p - 1))
		for root := range p {
			m := inPlace(t, p, func(r int) []exchange { return broadcastTree(nil, r, p, root, n) }, func(r int) []tally { return own(r, n) })
			sent := 0
			for r := range p {
				wantAll(t, "broadcast", p, r, m.send[r], func(int) tally { return only(root) })
				sent += m.sent[r]
				for _, x := range m.steps[r] {
					if x.round >= depth {
						t.Fatalf("broadcast: P=%d: round %d, want fewer than %d", p, x.round, depth)
					}
				}
			}
			if m.sent[root] != n*depth || sent != n*(p-1) {
				t.Fatalf("broadcast: P=%d: root sent %d elements and all %d, want %d and %d", p, m.sent[root], sent, n*depth, n*(p-1))
			}
		}
	}
}

// TestScatterReachesAll: a broadcast in chunks brings all elements of the root to all ranks.
func TestScatterReachesAll(t *testing.T) {
	for p := 1; p <= proven; p++ {
		for root := range p {
			n := 2*p + 1
			at := bounds(p, n)
			m := inPlace(t, p, func(r int) []exchange { return broadcastScatter(nil, r, p, root, at) }, func(r int) []tally { return own(r, n) })
			for r := range p {
				wantAll(t, "scatter", p, r, m.send[r], func(int) tally { return only(root) })
			}
			if want := n - at[1] + n - (at[(0+1)%p+1] - at[(0+1)%p]); p > 1 && m.sent[root] != want {
				t.Fatalf("scatter: P=%d: root sent %d elements, want %d", p, m.sent[root], want)
			}
		}
	}
}

// TestBarrierHearsOfAll runs the barrier on sets of ranks: after it, each rank has received a
// message, directly or indirectly, from all ranks.
func TestBarrierHearsOfAll(t *testing.T) {
	for p := 1; p <= proven; p++ {
		heard, rounds := make([]uint64, p), bits.Len(uint(p-1))
		for r := range heard {
			heard[r] = 1 << r
		}
		for k := range rounds {
			next := append([]uint64(nil), heard...)
			for r := range p {
				steps := barrierDissemination(nil, r, p)
				if len(steps) != rounds {
					t.Fatalf("barrier: P=%d: %d rounds, want %d", p, len(steps), rounds)
				}
				x := steps[k]
				if back := barrierDissemination(nil, x.from, p)[k].to; back != r {
					t.Fatalf("barrier: P=%d round %d: rank %d waits for rank %d, which sends to rank %d", p, k, r, x.from, back)
				}
				next[r] |= heard[x.from]
			}
			heard = next
		}
		for r := range heard {
			if heard[r] != 1<<p-1 {
				t.Fatalf("barrier: P=%d: rank %d passes with messages from %b only", p, r, heard[r])
			}
		}
	}
}

// TestGatherBringsEachPartToTheRoot: a gather brings each part to the root.
func TestGatherBringsEachPartToTheRoot(t *testing.T) {
	for p := 1; p <= proven; p++ {
		at := bounds(p, 2*p+1)
		root := p / 2
		m := &machine{size: p, sent: make([]int, p)}
		for r := range p {
			m.steps = append(m.steps, gatherDirect(nil, r, p, root, at))
			m.send, m.recv = append(m.send, own(r, at[r+1]-at[r])), append(m.recv, nil)
		}
		m.recv[root] = make([]tally, at[p])
		if err := m.run(); err != nil {
			t.Fatalf("P=%d: %v", p, err)
		}
		for o := range p {
			wantAll(t, "gather", p, root, m.recv[root][at[o]:at[o+1]], func(int) tally { return only(o) })
		}
	}
}

// TestChunk: the chunks of a slice cover it in order, with lengths that differ by at most one.
func TestChunk(t *testing.T) {
	for p := 1; p <= proven; p++ {
		for _, n := range sizes(p) {
			end := 0
			for i := range p {
				lo, hi := Chunk(n, p, i)
				if lo != end || hi-lo < n/p || hi-lo > (n+p-1)/p {
					t.Fatalf("Chunk(%d, %d, %d) = %d, %d after %d", n, p, i, lo, hi, end)
				}
				end = hi
			}
			if end != n {
				t.Fatalf("chunks of %d among %d end at %d", n, p, end)
			}
		}
	}
}

// TestWhenAnAllReduceGoesInPieces: an allreduce is divided into pieces only inside a host, where
// bytes are cheap, and only if each piece is worth its rounds.
func TestWhenAnAllReduceGoesInPieces(t *testing.T) {
	for _, c := range []struct {
		near            bool
		beta            float64 // seconds per byte, times the number of ranks
		size, n, pieces int
	}{
		{true, pieceBeta, 2, 16 << 20, 16},
		{true, pieceBeta, 8, 16 << 20, 8}, // 256 KiB per rank
		{true, pieceBeta, 2, 2<<20 - 1, 1},
		{true, pieceBeta, 2, 2 << 20, 2},
		{true, pieceBeta, 2, 8, 1},
		{true, 2 * pieceBeta, 2, 16 << 20, 1},
		{false, pieceBeta, 2, 16 << 20, 1},
	} {
		comm := new(Comm)
		comm.group, comm.near, comm.size = &group{costs: DefaultCosts()}, c.near, c.size
		comm.group.costs.Links.Beta = c.beta * float64(c.size)
		if got := comm.pieces(c.n); got != c.pieces {
			t.Errorf("%d bytes over %d ranks, near %v, β %v: %d pieces, want %d", c.n, c.size, c.near, c.beta, got, c.pieces)
		}
	}
}
