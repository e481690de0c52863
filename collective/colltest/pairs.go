package colltest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

// pair contains two channels of a group.
type pair [2]*collective.Comm

func pairOf(c *collective.Comm) pair { return pair{c, c.Channel(1)} }

// twoTypes returns a check of every call with elements of one byte and of eight bytes, except
// for float sums. The test results covers the other types.
func twoTypes() []check {
	all := []check{checkAllGatherBytes, checkGatherBytes, checkBroadcastBytes, checkExactSum[float64]}
	return append(append(all, typed[uint8]()...), unordered[float64]()...)
}

// pairs makes every call on two channels concurrently, each with its own data, in groups of
// every kind. Channels are independent, so neither may change the result of the other.
func pairs(t *testing.T, newGroup Make, size int) {
	hosts, hostOf := min(size, 2), make([]int, size)
	for r := range hostOf {
		hostOf[r] = r % hosts
	}
	t.Run("flat", func(t *testing.T) {
		onPairs(t, newGroup, size, append(twoTypes(), ordered[float64]()...), func(c *collective.Comm, tr collective.Transport) (pair, error) {
			return pairOf(c), nil
		})
	})
	t.Run("split", func(t *testing.T) {
		onPairs(t, newGroup, size, append(twoTypes(), ordered[float64]()...), func(c *collective.Comm, tr collective.Transport) (p pair, err error) {
			for i, of := range pairOf(c) {
				if p[i], err = of.Split(hostOf[c.Rank()], 0); err != nil {
					return p, err
				}
			}
			return p, nil
		})
	})
	t.Run("hosts", func(t *testing.T) {
		onPairs(t, newGroup, size, twoTypes(), func(c *collective.Comm, tr collective.Transport) (pair, error) {
			return pairOf(collective.NewHosts(tr, nil, hostOf)), nil
		})
	})
	t.Run("local", func(t *testing.T) {
		inside := make([]collective.Transport, size)
		for host := range hosts {
			for i, tr := range newGroup(t, (size-host+hosts-1)/hosts) {
				inside[host+hosts*i] = tr
			}
		}
		onPairs(t, newGroup, size, twoTypes(), func(c *collective.Comm, tr collective.Transport) (pair, error) {
			return pairOf(collective.NewHosts(tr, inside[c.Rank()], hostOf)), nil
		})
		for r, tr := range inside {
			if err := tr.Close(); err != nil {
				t.Errorf("rank %d: Close of its host's transport: %v", r, err)
			}
		}
	})
}

// onPairs runs the checks on both channels of the group that open creates on each rank, with
// the algorithms of the cost model and then with each of the others.
func onPairs(t *testing.T, newGroup Make, size int, all []check, open func(c *collective.Comm, tr collective.Transport) (pair, error)) {
	allWell(t, onRanks(t, newGroup, size, func(c *collective.Comm, tr collective.Transport) error {
		p, err := open(c, tr)
		if err != nil {
			return err
		}
		chosen := p[0].Costs()
		for take := collective.Windows; take <= collective.Rails; take++ {
			for _, c := range p {
				k := chosen
				k.Take = take
				c.SetCosts(k)
			}
			var errs [len(p)]error
			var wg sync.WaitGroup
			for i, c := range p {
				wg.Go(func() { errs[i] = eachOnce(c, all, uint64(i)) })
			}
			wg.Wait()
			if err := errors.Join(errs[:]...); err != nil {
				return err
			}
		}
		return nil
	}))
}

// eachOnce makes each check once, with a few elements or a few thousand.
func eachOnce(c *collective.Comm, all []check, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 14))
	for _, k := range all {
		if err := k(c, rng, rng.IntN(40)*rng.IntN(200)); err != nil {
			return err
		}
	}
	return nil
}
