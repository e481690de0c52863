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
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/sparse"
)

var scaling = flag.Bool("scaling", false, "simulate w1 on up to 32 ranks (a minute and 10 GB) and print the efficiency")

// cluster is the modelled network: a rank a host, 25 Gbit/s.
var cluster = simnet.Model{Latency: 10 * time.Microsecond, BytesPerSecond: 25e9 / 8, Overhead: 60}

// The parts of compute after which something can travel, as shares of it, of w1 on one
// thread with batch 1024 (an EPYC with AVX-512, a CPU profile of bench step): rows
// forward, and backward but for the first layer, .745; the first layer's weights and
// the gradients of its input, column by column, .25; these to keys, .005.
const (
	shareOfRows  = .745
	shareOfFirst = .25
)

// paced returns the time at which the compute of a step reaches a point, if a row takes
// perSample. The upper layers of the last rows are assumed to finish at the end of their
// chunk.
func paced(perSample time.Duration) func(step.Progress) time.Duration {
	first := 1 + 600*256 // the wide bias, the first layer's weights
	return func(p step.Progress) time.Duration {
		done := 1.0
		switch left := float64(p.Final) / float64(first); {
		case p.Done:
		case p.Rows < p.Of:
			done = shareOfRows * float64(p.Rows) / float64(p.Of)
		default:
			done = shareOfRows + shareOfFirst*max(0, 1-left)
		}
		return time.Duration(done * float64(p.Of) * float64(perSample))
	}
}

// perPost is what package tcp takes of a core to send a small message and to receive
// another, 4.2 and 1.0 µs on an EPYC (Zen 4), where loopback carries it all the way:
//
//	go test ./collective/tcp -run xxx -bench Posts
const perPost = 5200 * time.Nanosecond

// scene is a modelled run of w1.
type scene struct {
	ranks, batch int // batch: of each rank
	net          simnet.Model
	posts        bool
	perSample    time.Duration // of compute
	steps        int           // measured, after one; with more than one each prepares the one behind it
}

// seen is the virtual time of a measured step on rank 0, how much of it is before and after
// compute, and what the rank sends in it for the tables.
type seen struct {
	step, pull, rest time.Duration
	traffic          sparse.Counters
	parameters       int
	buckets          []int // of floats
}

// simulated runs the scene.
func simulated(t *testing.T, s scene) (got seen) {
	synctest.Test(t, func(t *testing.T) {
		errs := make([]error, s.ranks)
		var all sync.WaitGroup
		for i, transport := range simnet.New(s.ranks, 2, s.net) {
			comm := collective.New(transport)
			if s.posts {
				comm = collective.New(simnet.Poster{Transport: transport, Each: perPost})
			}
			all.Go(func() {
				rank, err := s.run(comm)
				if errs[i] = err; err != nil {
					comm.Abort(err)
				}
				if i == 0 {
					got = rank
				}
			})
		}
		all.Wait()
		fatal.If(t, errors.Join(errs...))
	})
	return got
}

// run is the scene on one rank.
func (s scene) run(comm *collective.Comm) (got seen, err error) {
	costs, err := collective.Measure(comm) // as a job does when it starts
	if err != nil {
		return got, err
	}
	comm.SetCosts(costs)
	global := s.batch * s.ranks
	m, err := newMeter(comm, Options{Workload: "w1", Batch: global}.withDefaults())
	if err != nil {
		return got, err
	}
	defer m.trainer.Close()
	m.trainer.SimulatePace(paced(s.perSample))
	start, before, parts := time.Now(), m.trainer.Traffic(), m.times()
	b := m.batch(0)
	for k := range 1 + s.steps {
		if k == 1 {
			if err := collective.Barrier(comm); err != nil {
				return got, err
			}
			start, before, parts = time.Now(), m.trainer.Traffic(), m.times()
		}
		next := m.batch(int64((k + 1) * global))
		ahead := next
		if s.steps == 1 {
			ahead = nil
		}
		if _, err := m.train(b, ahead); err != nil {
			return got, err
		}
		b = next
	}
	n := time.Duration(s.steps)
	c, now := m.trainer.Traffic(), m.times()
	got = seen{step: time.Since(start) / n, pull: (now[0] - parts[0]) / n, parameters: m.trainer.Parameters()}
	got.buckets, _ = m.trainer.Buckets()
	got.rest = got.step - got.pull - s.perSample*time.Duration(s.batch)
	each := func(now, before int64) int64 { return (now - before) / int64(s.steps) }
	got.traffic = sparse.Counters{
		RowBytesSent:   each(c.RowBytesSent, before.RowBytesSent),
		GradBytesSent:  each(c.GradBytesSent, before.GradBytesSent),
		KeyBytesSent:   each(c.KeyBytesSent, before.KeyBytesSent),
		CountBytesSent: each(c.CountBytesSent, before.CountBytesSent),
		MarkBytesSent:  each(c.MarkBytesSent, before.MarkBytesSent),
	}
	return got, nil
}

// predicted returns the time of a step's exchanges on P ranks, one per host, by the model and
// with the algorithms that the collectives choose: the counts, keys, rows and gradients of
// the tables, one after the other, and one allreduce of the dense part.
func (s scene) predicted(ranks int, got seen) time.Duration {
	c := got.traffic
	took := s.called(ranks, collective.CallAllToAll, collective.Int64, share(c.CountBytesSent, ranks))
	for _, sent := range []int64{c.KeyBytesSent, c.RowBytesSent, c.GradBytesSent} {
		took += s.called(ranks, collective.CallAllToAllV, collective.Uint8, share(sent, ranks))
	}
	return took + s.called(ranks, collective.CallAllReduce, collective.Float32, 4*int64(got.parameters))
}

// share returns the size of a rank's send buffer, including its own part.
func share(sent int64, ranks int) int64 { return sent * int64(ranks) / int64(ranks-1) }

// called returns the predicted time of a call.
func (s scene) called(ranks int, call collective.Call, typ collective.Type, bytes int64) time.Duration {
	l := collective.Level{Alpha: s.net.Latency.Seconds() + float64(s.net.Overhead)/s.net.BytesPerSecond, Beta: 1 / s.net.BytesPerSecond}
	if s.posts {
		l.Post = perPost.Seconds()
	}
	shape := collective.Shape{Size: ranks, Hosts: ranks, Most: 1, Least: 1}
	_, took := collective.Costs{Links: l}.Choose(shape, call, collective.Sum, typ, int(bytes))
	return time.Duration(took * 1e9)
}

// exposed returns the communication of a step that compute does not hide, by the model: all
// rows of the batch, as if none were fetched ahead, the rest of the buckets when compute
// ends, and then the gradients of rows.
func (s scene) exposed(ranks int, got seen) time.Duration {
	reached, compute := paced(s.perSample), s.perSample*time.Duration(s.batch)
	from, end := 0, time.Duration(0)
	for _, n := range got.buckets {
		from += n
	}
	for _, n := range got.buckets {
		from -= n
		ready := min(compute, reached(step.Progress{Rows: s.batch, Of: s.batch, Final: from}))
		end = max(end, ready) + s.called(ranks, collective.CallAllReduce, collective.Float32, 4*int64(n))
	}
	rest := max(0, end-compute)
	for _, sent := range []int64{got.traffic.RowBytesSent, got.traffic.GradBytesSent} {
		rest += s.called(ranks, collective.CallAllToAllV, collective.Uint8, share(sent, ranks))
	}
	return rest
}

// TestSimulatedExchanges checks that the trainer's step on a modelled network takes the
// time predicted for its exchanges, within a quarter.
func TestSimulatedExchanges(t *testing.T) {
	for _, ranks := range []int{2, 4} {
		s := scene{ranks: ranks, batch: 32, net: cluster, steps: 1}
		got := simulated(t, s)
		want := s.predicted(ranks, got)
		if got.step < want*3/4 || got.step > want*5/4 {
			t.Errorf("%d ranks: %v, the model says %v", ranks, got.step, want)
		}
	}
}

// TestWeakScaling prints what the efficiency is when every rank adds its own batch:
// compute over the step, in which keys and most rows of the next one travel during the
// compute, and dense gradients are summed as backward finishes them.
//
//	go test ./internal/bench/step -run WeakScaling -scaling -v
func TestWeakScaling(t *testing.T) {
	if !*scaling {
		t.Skip("-scaling simulates 32 ranks")
	}
	const perSample = time.Second / 75_000 // of w1 on one core
	for _, batch := range []int{1024, 4096} {
		compute := perSample * time.Duration(batch)
		share := func(step time.Duration) float64 { return 100 * compute.Seconds() / step.Seconds() }
		for _, ranks := range []int{8, 32} {
			for how, posts := range map[string]bool{"posted": true, "in turns": false} {
				s := scene{ranks: ranks, batch: batch, net: cluster, posts: posts, perSample: perSample, steps: 4}
				got := simulated(t, s)
				t.Logf("%4d ranks, batch %d each, small messages %-8s: compute %v, before it %v, behind it %v, efficiency %.1f %%; all exchanges by the model %v, in the open %v; %.2f MB of tables a rank",
					ranks, batch, how, compute, got.pull, got.rest, share(got.step), s.predicted(ranks, got), s.exposed(ranks, got), 1e-6*float64(got.traffic.BytesSent()))
				if ranks < 32 || !posts {
					continue
				}
				// Too many to simulate: each has as much to send, but counts to more ranks.
				const many = 1024
				got.traffic.CountBytesSent = got.traffic.CountBytesSent / int64(ranks-1) * (many - 1)
				all, open := s.predicted(many, got), s.exposed(many, got)
				t.Logf("%4d ranks, batch %d each, by the model: all exchanges %v, efficiency %.1f %% if nothing overlaps; in the open %v, %.1f %%",
					many, batch, all, share(compute+all), open, share(compute+open))
			}
		}
	}
}
