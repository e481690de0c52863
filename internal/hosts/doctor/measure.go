package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

const (
	// maxRounds is the maximum number of rounds.
	maxRounds = 63

	// pings and pushes are the attempts per pair, of which the fastest counts, because
	// delays by other programs are not a property of the link.
	pings, pushes = 20, 3

	// pushTime is the intended time of one push.
	pushTime = 20 * time.Millisecond

	minPush, maxPush = 256 << 10, 8 << 20
)

// partner returns the partner of one of size ranks in a round, −1 for none. In size−1
// rounds, or size if that is odd, it meets every other rank once. This is the circle
// method of tournaments: the last rank stays, the others move by one.
func partner(rank, size, round int) int {
	n := size + size%2
	if rank == n-1 { // 2i ≡ round modulo n−1, which is odd
		return round * (n / 2) % (n - 1)
	}
	other := ((round-rank)%(n-1) + n - 1) % (n - 1)
	if other == rank {
		other = n - 1
	}
	if other >= size {
		return -1
	}
	return other
}

// measure returns the pairs in which this rank is the first.
func measure(c *collective.Comm, names [][]byte, progress func()) (pairs []Pair, err error) {
	size := c.Size()
	for round := range min(size-1+size%2, maxRounds) {
		other := partner(c.Rank(), size, round)
		color := -1
		if other >= 0 {
			color = min(other, c.Rank())
		}
		two, err := c.Split(color, c.Rank())
		if err != nil {
			return nil, err
		}
		if two != nil {
			p, err := measurePair(two)
			if err != nil {
				return nil, fmt.Errorf("doctor: hosts %s and %s: %w", names[c.Rank()], names[other], err)
			}
			if p.Hosts = [2]string{string(names[c.Rank()]), string(names[other])}; two.Rank() == 0 {
				pairs = append(pairs, p)
			}
		}
		if err := collective.Barrier(c); err != nil { // rounds must not overlap
			return nil, err
		}
		progress()
	}
	return pairs, nil
}

// measurePair measures a group of two. The result is the one of its first rank.
func measurePair(c *collective.Comm) (p Pair, err error) {
	one, buf := make([]byte, 1), make([]byte, maxPush)
	if p.RoundTrip, err = fastest(c, pings, one, one); err != nil {
		return p, err
	}
	for way := range p.Rates {
		push := func(tries, bytes int) (rate float64, err error) {
			out, back := buf[:bytes], one
			if way == 1 {
				out, back = back, out
			}
			seconds, err := fastest(c, tries, out, back)
			return float64(bytes) / max(seconds-p.RoundTrip, 1e-9), err
		}
		rate, err := push(1, minPush)
		if err != nil {
			return p, err
		}
		bytes := []int64{min(max(int64(rate*pushTime.Seconds()), minPush), maxPush)}
		if err := collective.Broadcast(c, bytes, 0); err != nil {
			return p, err
		}
		if p.Rates[way], err = push(pushes, int(bytes[0])); err != nil {
			return p, err
		}
	}
	return p, nil
}

// fastest sends bytes from the first rank to the second and others back, and returns the
// shortest time on the first.
func fastest(c *collective.Comm, tries int, out, back []byte) (seconds float64, err error) {
	for i := range tries {
		start := time.Now()
		for root, b := range [][]byte{out, back} {
			if err := collective.Broadcast(c, b, root); err != nil {
				return 0, err
			}
		}
		if t := time.Since(start).Seconds(); i == 0 || t < seconds {
			seconds = t
		}
	}
	return seconds, nil
}

// median returns the median, the lower one of two, 0 for no values.
func median[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	return slices.Sorted(slices.Values(values))[(len(values)-1)/2]
}

// Pair is the speed between two hosts.
type Pair struct {
	Hosts     [2]string  `json:"hosts"`
	RoundTrip float64    `json:"round_trip_seconds"` // the fastest of several
	Rates     [2]float64 `json:"bytes_per_second"`   // from the first to the second, and back
}

// rate returns the rate of the slower direction.
func (p Pair) rate() float64 { return min(p.Rates[0], p.Rates[1]) }
