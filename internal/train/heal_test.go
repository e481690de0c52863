package train

import (
	"bytes"
	"context"
	"errors"
	flags "flag"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// moments is the number of exchanges at which a rank is lost, for each kind of test.
var moments = flags.Int64("moments", 3, "tried by TestAnyRankMayDieAtAnyExchange, of each kind")

var errDied = errors.New("this rank died")

// mortal is a transport whose group is lost at a given exchange of its rank.
type mortal struct {
	*mem.Transport
	left  *atomic.Int64 // exchanges left until the loss
	after bool          // the loss is after that exchange rather than before it

	barriers *[]int64 // numbers of the exchanges that belong to barriers, from 1
}

func (m mortal) Exchange(tag collective.Tag, to int, send []byte, from int, recv []byte) error {
	n := m.left.Add(-1)
	last := n == 0
	if tag.Call == collective.CallBarrier {
		*m.barriers = append(*m.barriers, -n)
	}
	if last && !m.after {
		m.Abort(errDied)
	}
	err := m.Transport.Exchange(tag, to, send, from, recv)
	if last && m.after {
		time.Sleep(time.Millisecond) // let the others continue
		m.Abort(errDied)
		err = errDied
	}
	return err
}

// death is the loss of a rank, at an exchange of that rank or of a rank that notices the loss
// after its exchange.
type death struct {
	rank int
	at   int64
	by   int
}

// deaths is a job in which ranks are lost, by generation. If hosts are given, all ranks of the
// host are lost.
type deaths []death

// run runs the job to its end, over as many groups as necessary. It returns the result, the
// number of exchanges of the last rank of the first group, and which of them belong to
// barriers.
func (d deaths) run(t *testing.T, size int, opt Options) (res report.Result, exchanges int64, barriers []int64) {
	t.Helper()
	return d.watched(t, size, opt, func(*Job, func() int64) {})
}

// watched is like run and calls watch for every rank's job before it runs, with a function that
// returns the number of its exchanges.
func (d deaths) watched(t *testing.T, size int, opt Options, watch func(j *Job, made func() int64)) (res report.Result, exchanges int64, barriers []int64) {
	t.Helper()
	opt.Out, opt.Replicas = t.TempDir(), 2
	memories := make([]*Memory, size)
	for generation := range len(d) + 2 {
		jobs, errs, results := make([]*Job, size), make([]error, size), make([]report.Result, size)
		left, at := make([]atomic.Int64, size), make([]mortal, size)
		if generation < len(d) {
			left[d[generation].by].Store(d[generation].at)
		}
		var all sync.WaitGroup
		for r, x := range mem.New(size, 2) {
			o := opt
			o.Warn = func(line string) { t.Log(line) }
			at[r] = mortal{x, &left[r], generation < len(d) && d[generation].by != d[generation].rank, new([]int64)}
			jobs[r] = NewJob(collective.New(at[r]), trace.New(0), o)
			jobs[r].UseMemory(memories[r])
			watch(jobs[r], func() int64 { return -left[r].Load() })
			all.Go(func() {
				if results[r], errs[r] = jobs[r].Run(context.Background()); errs[r] != nil {
					jobs[r].Comm.Abort(errs[r])
				}
			})
		}
		all.Wait()
		if generation == 0 {
			exchanges, barriers = -left[size-1].Load(), *at[size-1].barriers
		}
		err := errors.Join(errs...)
		if err == nil {
			return results[0], exchanges, barriers
		}
		if generation >= len(d) || !strings.Contains(err.Error(), errDied.Error()) {
			t.Fatal(err)
		}
		done := false
		for r, job := range jobs {
			if memories[r] = nil; errs[r] == nil {
				done = true // the process of this rank has ended
				continue
			}
			memories[r] = job.TakeMemory(errs[r])
			opt.Again = job.runDir
			if dead := d[generation].rank; r == dead || opt.Hosts != nil && opt.Hosts[r] == opt.Hosts[dead] {
				memories[r].drop()
				memories[r] = nil
			}
		}
		for r := range memories {
			if done && memories[r] != nil {
				memories[r].drop()
				memories[r] = nil
			}
		}
	}
	t.Fatal("the job did not end")
	return res, 0, nil
}

// sameModels compares the last checkpoints of two runs, part by part.
func sameModels(t *testing.T, size int, got, want report.Result) {
	t.Helper()
	dir := func(r report.Result) string {
		return checkpoint.Dir(filepath.Join(r.RunDir, checkpoint.Folder), want.Steps)
	}
	for r := range size {
		part := fmt.Sprintf("rank-%04d-of-%04d.wck", r, size)
		if !bytes.Equal(read(t, filepath.Join(dir(got), part)), read(t, filepath.Join(dir(want), part))) {
			t.Errorf("%s of step %d differs", part, want.Steps)
		}
	}
	if *got.TestAUC != *want.TestAUC || got.TrainLogLoss != want.TrainLogLoss || got.Samples != want.Samples || got.BestEpoch != want.BestEpoch {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestAnyRankMayDieAtAnyExchange: if a rank is lost at any exchange, the job ends with the
// bits of an undisturbed job.
func TestAnyRankMayDieAtAnyExchange(t *testing.T) {
	path, moments := traintest.Clicks(t, 200), *moments
	if testing.Short() {
		moments = 3
	}
	for name, k := range map[string]struct {
		size int
		how  step.Tolerance
	}{
		"2 ranks": {2, step.Tolerance{}}, "3 ranks": {3, step.Tolerance{}}, "speculate": {3, step.Tolerance{Mode: slots.Speculate}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "2 ranks" {
				everyday(t)
			}
			t.Parallel()
			recipe := recipes["schedule"]
			opt := Options{Config: traintest.ClicksConfig(t, path, recipe[0], recipe[1]), Tolerance: k.how}
			want, exchanges, _ := deaths{}.run(t, k.size, opt)
			healed := 0
			for i := range moments {
				at := 1 + exchanges*i/moments
				got, _, _ := deaths{{int(i) % k.size, at, int(i) % k.size}}.run(t, k.size, opt)
				sameModels(t, k.size, got, want)
				if n := len(got.Uncounted); n != got.Healed || n == 1 && (got.Uncounted[0].Rank != int(i)%k.size || got.Uncounted[0].Step > got.Steps) {
					t.Errorf("rank %d was lost; not counted: %+v", int(i)%k.size, got.Uncounted)
				}
				if healed += got.Healed; t.Failed() {
					t.Fatalf("rank %d was lost at exchange %d of %d", int(i)%k.size, at, exchanges)
				}
			}
			for i := range moments { // then the replacement, or another rank, soon after
				at := 1 + exchanges*(i+1)/(moments+2)
				got, _, _ := deaths{{int(i) % k.size, at, int(i) % k.size}, {int(i+i/3) % k.size, 1 + 4*i, int(i+i/3) % k.size}}.run(t, k.size, opt)
				sameModels(t, k.size, got, want)
				if t.Failed() {
					t.Fatalf("rank %d was lost at exchange %d, and rank %d at exchange %d of the next group", int(i)%k.size, at, int(i+i/3)%k.size, 1+4*i)
				}
			}
			if moments > 5 && healed < int(moments/2) {
				t.Errorf("training resumed from memory %d times, want %d", healed, moments)
			}
		})
	}
}

// TestRanksThatDisagreeAboutAStep: one rank notices a loss at exchanges around the barrier of a
// step, so that the third rank may be one step ahead.
func TestRanksThatDisagreeAboutAStep(t *testing.T) {
	everyday(t)
	t.Parallel()
	const size = 3
	opt := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 250), "", "")}
	want, exchanges, barriers := deaths{}.run(t, size, opt)
	if len(barriers) < 10 {
		t.Fatalf("%d exchanges of barriers, want some in each step", len(barriers))
	}
	middle := barriers[len(barriers)/2]
	for at := middle - 3; at <= middle+1; at++ {
		got, _, _ := deaths{{0, at, size - 1}}.run(t, size, opt)
		if sameModels(t, size, got, want); t.Failed() {
			t.Fatalf("rank %d noticed the loss of rank 0 after exchange %d of %d", size-1, at, exchanges)
		}
	}
}

// TestLateMicrobatchesAreCountedThroughALoss: the result counts the late microbatches of all
// groups, like the log of the run, and records the step from which a lost rank was counted
// again.
func TestLateMicrobatchesAreCountedThroughALoss(t *testing.T) {
	patient.Long(t)
	const size = 3
	slow, err := chaos.Parse("slow:30x@2")
	fatal.If(t, err)
	opt := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", ""), Tolerance: step.Tolerance{Mode: slots.Drop, Backup: 1}, Chaos: slow}
	_, exchanges, _ := deaths{}.run(t, size, opt)
	for victim := range size {
		res, _, _ := deaths{{victim, exchanges / 3, victim}}.run(t, size, opt) // the number of exchanges varies
		records, err := save.ReadCommits(res.RunDir)
		fatal.If(t, err)
		late := int64(0)
		for _, r := range records {
			late += int64(r.Leased - len(r.Pieces))
		}
		if res.Healed != 1 || late == 0 || res.LateSlots != late || int64(len(records)) != res.Steps+1 {
			t.Errorf("rank %d was lost: %d late microbatches in %d steps, the log has %d in %d; healed %d times", victim, res.LateSlots, res.Steps, late, len(records)-1, res.Healed)
		}
		if line := res.Differs(); len(res.Uncounted) != 1 || !strings.Contains(line, fmt.Sprintf("not measured: rank %d until step %d, whose counters were lost with it", victim, res.Uncounted[0].Step)) {
			t.Errorf("%+v: %s", res.Uncounted, line)
		}
	}
}

// TestTheBestEpochOutlivesALoss: rank 0, which commits checkpoints, is lost in the steps after
// the best epoch. The best epoch is still restored.
func TestTheBestEpochOutlivesALoss(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	const size, victim = 2, 0
	opt := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", ", optimizer: {deep: {kind: adam, learning_rate: 0.5}}, early_stop: {patience: 4, metric: logloss}")}
	var ends []int64 // exchanges of rank 0 until the end of each epoch
	want, _, _ := deaths{}.watched(t, size, opt, func(j *Job, made func() int64) {
		j.PrintProgress = func(line string) {
			if strings.HasPrefix(line, "epoch ") {
				ends = append(ends, made())
			}
		}
	})
	if want.BestEpoch == 0 || want.BestEpoch >= len(ends) {
		t.Fatalf("%d epochs, the best is %v, want one before the last", len(ends), want.BestEpoch)
	}
	best := ends[want.BestEpoch-1]
	for after := int64(1); after < 60; after += 13 {
		got, _, _ := deaths{{victim, best + after, victim}}.run(t, size, opt)
		if got.Healed != 1 || got.BestEpoch != want.BestEpoch || *got.TestAUC != *want.TestAUC {
			t.Errorf("rank %d was lost %d exchanges after the best epoch: healed %d times, best epoch %d, AUC %v; undisturbed: %d, %v",
				victim, after, got.Healed, got.BestEpoch, *got.TestAUC, want.BestEpoch, *want.TestAUC)
		}
	}
}

// TestAHostMayDie: all ranks of one of two hosts are lost at once. The copies of their shards
// are on the other host.
func TestAHostMayDie(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	const size = 4
	opt := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 250), "", "")}
	want, exchanges, _ := deaths{}.run(t, size, opt)
	opt.Hosts = []string{"a", "a", "b", "b"}
	for dead, at := range map[int]int64{0: exchanges / 3, 3: 2 * exchanges / 3} {
		got, _, _ := deaths{{dead, at, dead}}.run(t, size, opt)
		sameModels(t, size, got, want)
		if got.Healed != 1 || len(got.Uncounted) != 2 {
			t.Errorf("the host of rank %d was lost: healed %d times, not counted: %+v", dead, got.Healed, got.Uncounted)
		}
	}
}
