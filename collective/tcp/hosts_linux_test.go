package tcp

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
	"github.com/wdlrun/wdlrun/collective/shm"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// onHosts runs body on ranks that share memory inside their hosts and have TCP between them. The
// first host has two ranks, the second has one.
func onHosts(t *testing.T, links []*Transport, body func(c *collective.Comm) error) []error {
	t.Helper()
	hostOf, sizes := []int{0, 0, 1}, []int{2, 1}
	errs, late := make([]error, len(hostOf)), time.AfterFunc(patient.Longest, func() {
		for _, tr := range links {
			tr.Abort(errors.New("no host was found"))
		}
	})
	defer late.Stop()
	keys := [2][32]byte{newNonce(), newNonce()} // used as keys
	comms := make([]*collective.Comm, len(hostOf))
	var wg sync.WaitGroup
	for r, host := range hostOf {
		wg.Go(func() {
			l, err := shm.Listen(shm.Config{Rank: r % 2, Size: sizes[host], Key: keys[host][:], Timeout: patient.Longest})
			if err == nil {
				var local *shm.Transport
				if local, err = l.Connect(context.Background()); err == nil {
					t.Cleanup(func() { local.Close() })
					comms[r] = collective.NewHosts(links[r], local, hostOf)
				}
			}
			errs[r] = err
		})
	}
	wg.Wait()
	fatal.If(t, errors.Join(errs...))
	defer colltest.Compare(comms, 1)()
	for r, c := range comms {
		wg.Go(func() { errs[r] = body(c) })
	}
	wg.Wait()
	return errs
}

// TestMismatchedCallsAcrossTransports makes ranks call differently while some wait in shared memory
// and others for messages. All ranks must return the error that calls differ.
func TestMismatchedCallsAcrossTransports(t *testing.T) {
	ones := func() []float32 { return []float32{1, 1, 1} }
	for name, body := range map[string]func(c *collective.Comm) error{
		// Rank 0 waits in shared memory for rank 1, which waits for messages instead.
		"another call": func(c *collective.Comm) error {
			if c.Rank() == 0 {
				return collective.AllReduce(c, ones(), collective.Sum)
			}
			return collective.AllToAll(c, ones(), make([]float32, 3))
		},
		// Rank 0 waits for rank 1, which waits for rank 2 in a subset, which waits for rank 0.
		"part out of order": func(c *collective.Comm) error {
			part, err := c.Split(min(c.Rank(), 1), 0)
			if err != nil {
				return err
			}
			if c.Rank() == 1 {
				if err := collective.Barrier(part); err != nil {
					return err
				}
			}
			return collective.Barrier(c)
		},
	} {
		for kind, group := range kinds() {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				links := group(t, 3)
				defer closeAll(links)
				for r, err := range onHosts(t, links, func(c *collective.Comm) error {
					k := c.Costs()
					k.Take = collective.Rails
					c.SetCosts(k)
					return body(c)
				}) {
					if !colltest.Disagree(err) {
						t.Errorf("rank %d: %v, want calls that differ", r, err)
					}
				}
			})
		}
	}
}

// TestSlowRanksAreNotMismatches: long waits, in shared memory and for messages, are not reported as
// a mistake.
func TestSlowRanksAreNotMismatches(t *testing.T) {
	links := group(t, 3)
	defer closeAll(links)
	for r, err := range onHosts(t, links, func(c *collective.Comm) error {
		for call := range 2 {
			if c.Rank() == call {
				time.Sleep(3 * stallTime)
			}
			if err := collective.AllReduce(c, make([]float32, 5000), collective.Sum); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestLateRanksMakeNoMistakeInASecondComm: a Comm over the links of another continues its
// numbering of calls. A rank that is late for its first call is therefore not taken to be in a
// call of the other Comm.
func TestLateRanksMakeNoMistakeInASecondComm(t *testing.T) {
	patient.Long(t)
	ts := group(t, 2)
	defer closeAll(ts)
	errs := make(chan error)
	for r, tr := range ts {
		go func() {
			first := collective.New(tr)
			err := collective.AllReduce(first, []int32{1}, collective.Min)
			if r == 1 {
				time.Sleep(4 * stallTime)
			}
			second := collective.New(tr).After(first)
			errs <- errors.Join(err, collective.AllReduce(second, make([]float64, 6), collective.Max))
		}()
	}
	for range ts {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
