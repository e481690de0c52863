package step

import (
	"errors"
	"flag"
	"runtime/debug"
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

var scaling = flag.Int("scaling", 0, "simulate w1 on up to this many ranks and print the efficiency; 256 take 12 GB and ten minutes")

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
	got.rest = got.step - got.pull - s.compute()
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
	reached, compute := paced(s.perSample), s.compute()
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
//	go test ./internal/bench/step -run WeakScaling -scaling 256 -timeout 1h -v
func TestWeakScaling(t *testing.T) {
	if *scaling == 0 {
		t.Skip("-scaling simulates many ranks")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(12)) // ranks keep 50 MB each
	for _, batch := range []int{1024, 4096} {
		s := scene{batch: batch, net: cluster, posts: true, perSample: time.Second / 75_000, steps: 4} // of w1 on one core
		var got seen
		for ranks := 8; ranks <= *scaling && ranks*batch <= 256*1024; ranks *= 2 {
			s.ranks = ranks
			got = simulated(t, s)
			open := s.exposed(ranks, got)
			t.Logf("%4d ranks, batch %d each: compute %v, before it %v, behind it %v, efficiency %.1f %%; by the model %v in the open, %.1f %%; %.2f MB of tables a rank",
				ranks, batch, s.compute(), got.pull, got.rest, s.efficiency(got.step), open, s.efficiency(s.compute()+open), 1e-6*float64(got.traffic.BytesSent()))
		}
		s.calculate(t, got)
	}
}

// compute returns the compute of a step.
func (s scene) compute() time.Duration { return s.perSample * time.Duration(s.batch) }

// efficiency returns the compute of a step as a percentage of its time.
func (s scene) efficiency(step time.Duration) float64 {
	return 100 * s.compute().Seconds() / step.Seconds()
}

// calculate prints, for 1024 ranks, each of which has as much to send as one of those that were
// simulated, how long rows and gradients take in the open by several ways, and the efficiency.
func (s scene) calculate(t *testing.T, got seen) {
	const many, perHost, groups = 1024, 8, 32
	links := collective.Level{Alpha: s.net.Latency.Seconds() + float64(s.net.Overhead)/s.net.BytesPerSecond, Beta: 1 / s.net.BytesPerSecond, Post: perPost.Seconds()}
	costs, local := collective.Costs{Links: links}, collective.DefaultCosts().Local
	hosts := func(n, ranks int) collective.Shape {
		return collective.Shape{Size: n * ranks, Hosts: n, Most: ranks, Least: ranks}
	}
	took := func(by collective.Algorithm, shape collective.Shape) func(bytes float64) float64 {
		return func(bytes float64) float64 {
			return costs.Predict(shape, by, collective.CallAllToAllV, collective.Sum, collective.Uint8, int(bytes))
		}
	}
	rest := s.exposed(many, got)
	for _, sent := range []int64{got.traffic.RowBytesSent, got.traffic.GradBytesSent} {
		rest -= s.called(many, collective.CallAllToAllV, collective.Uint8, share(sent, s.ranks))
	}
	for _, way := range []struct {
		name string
		took func(bytes float64) float64
	}{
		{"a rank a host, direct", took(collective.Pairwise, hosts(many, 1))},
		{"a rank a host, forwarded", took(collective.Bruck, hosts(many, 1))},
		{"eight ranks a host, direct", took(collective.Pairwise, hosts(many/perHost, perHost))},
		{"eight ranks a host, forwarded", took(collective.Bruck, hosts(many/perHost, perHost))},
		{"eight ranks a host, one of which sends for all, direct", func(b float64) float64 { // with two copies in the host
			return 2*perHost*b*local.Beta + took(collective.Pairwise, hosts(many/perHost, 1))(perHost*b)
		}},
		{"a rank a host, groups of 32 with all tables each, direct", took(collective.Pairwise, hosts(groups, 1))},
	} {
		seconds := 0.0
		for _, sent := range []int64{got.traffic.RowBytesSent, got.traffic.GradBytesSent} {
			seconds += way.took(float64(share(sent, s.ranks)))
		}
		t.Logf("%d ranks, batch %d each, %s: rows and gradients %.2f ms, efficiency %.1f %%",
			many, s.batch, way.name, 1e3*seconds, s.efficiency(s.compute()+rest+time.Duration(1e9*seconds)))
	}
	// Groups have to make their tables equal, here 10 million rows of 11 values.
	sum := s.called(many/groups, collective.CallAllReduce, collective.Float32, 10_000_000*11*4/groups)
	t.Logf("the tables of %d groups are made equal in %v", many/groups, sum)
}
