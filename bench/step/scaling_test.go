package step

import (
	"errors"
	"flag"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/simnet"
	"github.com/wdlrun/wdlrun/data/encode"
	"github.com/wdlrun/wdlrun/sparse"
)

var scaling = flag.Bool("scaling", false, "simulate w1 on up to 32 ranks (a minute and 10 GB) and print the efficiency")

// cluster is the modelled network: a rank a host, 25 Gbit/s.
var cluster = simnet.Model{Latency: 10 * time.Microsecond, BytesPerSecond: 25e9 / 8, Overhead: 60}

// simulated is what a step of the trainer takes in virtual time, and what rank 0
// sends in it for the tables. A sample's compute takes perSample; if that is not
// 0, the step prepares the one behind it, as a training does.
func simulated(t *testing.T, ranks, batch int, net simnet.Model, perSample time.Duration) (took time.Duration, traffic sparse.Counters, parameters int) {
	synctest.Test(t, func(t *testing.T) {
		errs := make([]error, ranks)
		var all sync.WaitGroup
		for i, transport := range simnet.New(ranks, 2, net) {
			comm := collective.New(transport)
			all.Go(func() {
				errs[i] = func() error {
					costs, err := collective.Measure(comm) // as a job does when it starts
					if err != nil {
						return err
					}
					comm.SetCosts(costs)
					m, err := newMeter(comm, Options{Workload: "w1", Batch: batch * ranks}.withDefaults())
					if err != nil {
						return err
					}
					defer m.trainer.Close()
					steps := []*encode.Batch{m.batch(0), m.batch(int64(batch * ranks)), nil}
					if perSample > 0 {
						steps[2] = m.batch(int64(2 * batch * ranks))
						m.trainer.Hold(func(int64, time.Duration) time.Duration { return perSample * time.Duration(min(batch, 256)) })
					}
					for step, b := range steps[:2] {
						next := steps[step+1]
						if perSample == 0 {
							next = nil
						}
						if err := collective.Barrier(comm); err != nil {
							return err
						}
						before, start := m.trainer.Traffic(), time.Now()
						if _, err := m.train(b, next); err != nil {
							return err
						}
						if i > 0 {
							continue
						}
						took, parameters = time.Since(start), m.trainer.Parameters()
						traffic = m.trainer.Traffic()
						traffic.RemoteUniqueKeys -= before.RemoteUniqueKeys
						traffic.RowBytesSent -= before.RowBytesSent
						traffic.GradBytesSent -= before.GradBytesSent
						traffic.KeyBytesSent -= before.KeyBytesSent
						traffic.CountBytesSent -= before.CountBytesSent
						traffic.MarkBytesSent -= before.MarkBytesSent
					}
					return nil
				}()
				if errs[i] != nil {
					comm.Abort(errs[i])
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	})
	return took, traffic, parameters
}

// predicted is the model of a step's exchanges on P ranks, one a host, as the
// collectives choose them: of the table part the counts, keys, rows and gradients,
// one after the other, and the allreduce of the dense part.
func predicted(ranks int, net simnet.Model, c sparse.Counters, parameters int) time.Duration {
	costs := collective.Costs{Links: collective.Level{Alpha: net.Latency.Seconds() + float64(net.Overhead)/net.BytesPerSecond, Beta: 1 / net.BytesPerSecond}}
	shape, seconds := collective.Shape{Size: ranks, Hosts: ranks, Most: 1, Least: 1}, 0.0
	add := func(call collective.Call, typ collective.Type, bytes int64) {
		_, s := costs.Choose(shape, call, collective.Sum, typ, int(bytes))
		seconds += s
	}
	all := func(sent int64) int64 { return sent * int64(ranks) / int64(ranks-1) } // a rank's own part counts as well
	add(collective.CallAllToAll, collective.Int64, all(c.CountBytesSent))
	for _, sent := range []int64{c.KeyBytesSent, c.RowBytesSent, c.GradBytesSent} {
		add(collective.CallAllToAllV, collective.Uint8, all(sent))
	}
	add(collective.CallAllReduce, collective.Float32, 4*int64(parameters))
	return time.Duration(seconds * 1e9)
}

// TestSimulatedExchanges: the trainer's step on a modelled network takes the time
// that the model of its exchanges says, within a quarter.
func TestSimulatedExchanges(t *testing.T) {
	sizes := []int{2, 4}
	for _, ranks := range sizes {
		got, c, parameters := simulated(t, ranks, 32, cluster, 0)
		want := predicted(ranks, cluster, c, parameters)
		if got < want*3/4 || got > want*5/4 {
			t.Errorf("%d ranks: %v, the model says %v", ranks, got, want)
		}
	}
}

// TestWeakScaling prints what the efficiency is when every rank adds its own
// batch: compute over the step, in which keys and most rows of the next one travel
// beside the compute.
//
//	go test ./bench/step -run WeakScaling -scaling -v
func TestWeakScaling(t *testing.T) {
	if !*scaling {
		t.Skip("-scaling simulates 32 ranks")
	}
	const perSample = time.Second / 75_000 // of w1 on one core
	for _, batch := range []int{1024, 4096} {
		compute := perSample * time.Duration(batch)
		for _, ranks := range []int{8, 32} {
			step, c, parameters := simulated(t, ranks, batch, cluster, perSample)
			t.Logf("%2d ranks, batch %d each: compute %v, rest of the step %v (all exchanges by the model %v), efficiency %.1f %%; %.2f MB of tables a rank",
				ranks, batch, compute, step-compute, predicted(ranks, cluster, c, parameters),
				100*compute.Seconds()/step.Seconds(), 1e-6*float64(c.BytesSent()))
			if ranks < 32 {
				continue
			}
			// Too many to simulate: each has as much to send, but counts to more ranks.
			const many = 1024
			c.CountBytesSent = c.CountBytesSent / int64(ranks-1) * (many - 1)
			all := predicted(many, cluster, c, parameters)
			t.Logf("%d ranks, batch %d each, by the model: all exchanges %v, efficiency %.1f %% if nothing overlaps", many, batch, all,
				100*compute.Seconds()/(compute+all).Seconds())
		}
	}
}
