package train

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
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

// TestSpeculateGivesTheBitsOfWait: the checkpoint does not depend on which rank computes a
// microbatch, or when.
func TestSpeculateGivesTheBitsOfWait(t *testing.T) {
	const size = 3
	path := traintest.Clicks(t, 900)
	slow, err := chaos.Parse("slow:300x@1,stop:20ms@2@step5")
	fatal.If(t, err)
	for name, r := range recipes {
		if name == "regular" {
			continue // batch normalisation waits for all ranks
		}
		t.Run(name, func(t *testing.T) {
			if name != "rows" {
				everyday(t)
			}
			t.Parallel()
			c := traintest.ClicksConfig(t, path, r[0], r[1])
			wait := runJob(t, size, Options{Config: c})
			again := runJob(t, size, Options{Config: c, Tolerance: step.Tolerance{Mode: slots.Speculate}, Chaos: slow})
			sameModel(t, wait, again)
		})
	}
}

func sameModel(t *testing.T, a, b report.Result) {
	t.Helper()
	if a.Steps != b.Steps || a.Samples != b.Samples || *a.TestAUC != *b.TestAUC {
		t.Errorf("%+v and %+v", a, b)
	}
	dir := func(r report.Result) string {
		return checkpoint.Dir(filepath.Join(r.RunDir, checkpoint.Folder), r.Steps)
	}
	sameContents(t, open(t, dir(a)), open(t, dir(b)))
}

// TestDropLeavesASlowRankBehind trains with one rank that is far slower. The job must not wait
// for it, and all its samples must count.
func TestDropLeavesASlowRankBehind(t *testing.T) {
	t.Parallel()
	const size = 3
	path := traintest.Clicks(t, 1500)
	slow, err := chaos.Parse("slow:100x@1")
	fatal.If(t, err)
	c := traintest.ClicksConfig(t, path, "", "")
	backup := step.Tolerance{Mode: slots.Drop, Backup: 1}
	usual := runJob(t, size, Options{Config: c, Tolerance: backup}) // steps of the same size
	drop := runJob(t, size, Options{Config: c, Tolerance: backup, Chaos: slow})
	if drop.Samples != usual.Samples || math.Abs(*drop.TestAUC-*usual.TestAUC) > 0.02 {
		t.Errorf("with a slow rank: %d samples, AUC %.4f; without: %d, %.4f", drop.Samples, *drop.TestAUC, usual.Samples, *usual.TestAUC)
	}
	if in := usual.Input; in.Depth < 1 || in.Threads < 1 || in.WorkShare <= 0 {
		t.Errorf("the input is reported as %+v", in)
	}
	records, err := save.ReadCommits(drop.RunDir)
	fatal.If(t, err)
	times := map[slots.Batch]int{}
	late := 0
	for _, r := range records {
		for _, p := range r.Pieces {
			times[p.Batch]++
		}
		late += len(r.Queue.Late)
	}
	for b, n := range times {
		if n != 1 {
			t.Errorf("microbatch %v counted %d times", b, n)
		}
	}
	if late == 0 || int64(len(records)) != drop.Steps+1 {
		t.Errorf("%d late microbatches in %d of %d steps", late, len(records)-1, drop.Steps)
	}
}

// TestResumeWithLateMicrobatches resumes from a checkpoint inside an epoch with late
// microbatches. Other numbers of ranks and settings of a step are rejected.
func TestResumeWithLateMicrobatches(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	const size = 3
	path := traintest.Clicks(t, 1500)
	how := step.Tolerance{Mode: slots.Drop, Backup: 1}
	whole := runJob(t, size, Options{Config: traintest.ClicksConfig(t, path, "", ""), Tolerance: how})
	middle := checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), 20)
	again := runJob(t, size, Options{Resume: middle, Tolerance: how})
	if again.Samples != whole.Samples || math.Abs(*again.TestAUC-*whole.TestAUC) > 0.02 {
		t.Errorf("resumed %d samples, AUC %.4f; uninterrupted %d, %.4f", again.Samples, *again.TestAUC, whole.Samples, *whole.TestAUC)
	}
	end := filepath.Base(checkpoint.Dir("", whole.Steps))
	for _, x := range []struct {
		ranks int
		set   []string
		want  string // "" if the training can resume
	}{
		{size, nil, ""},
		{2, nil, "here there are"},
		{size, []string{"train.mode=wait", "train.backup=0"}, "resume with the mode of that training"},
	} {
		err := Check(t.Context(), Options{Resume: middle, Set: x.set}, x.ranks)
		if (err == nil) != (x.want == "") {
			t.Errorf("%d ranks, %v: %v, want %q", x.ranks, x.set, err, x.want)
		}
		for _, part := range []string{x.want, "it is of -np 3; ", end} {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%v\ndoes not contain %q", err, part)
			}
		}
	}
}

// TestReplayGivesTheSameBits: the replay of a training whose commit sets depended on timing has
// the same bits.
func TestReplayGivesTheSameBits(t *testing.T) {
	t.Parallel()
	const size = 3
	path := traintest.Clicks(t, 900)
	slow, err := chaos.Parse("slow:20x@1,stop:20ms@2@step5,stop:10ms@0@step9")
	fatal.If(t, err)
	c := traintest.ClicksConfig(t, path, "", ", schedule: {kind: cosine, warmup: 10}")
	run := runJob(t, size, Options{Config: c, Tolerance: step.Tolerance{Mode: slots.Drop, Backup: 1}, Chaos: slow})
	sameModel(t, run, runJob(t, size, Options{Replay: run.RunDir}))
}

// TestResumeAtTheEndOfAnEpoch: a training can resume from a checkpoint of the last step of an
// epoch, taken before the epoch was closed.
func TestResumeAtTheEndOfAnEpoch(t *testing.T) {
	t.Parallel()
	const size, last = 2, 19
	path, how := traintest.Clicks(t, 1500), step.Tolerance{Mode: slots.Speculate}
	whole := runJob(t, size, Options{Config: traintest.ClicksConfig(t, path, "", ""), Tolerance: how})
	stop, err := chaos.Parse(fmt.Sprintf("kill:0@step%d", last))
	fatal.If(t, err)
	out := t.TempDir()
	var stopped report.Result
	traintest.OnRanks(t, size, func(comm *collective.Comm) error {
		var j *Job
		opt := Options{Config: traintest.ClicksConfig(t, path, "", ""), Tolerance: how, Out: out, Chaos: stop, Kill: func() { j.RequestStop() }}
		j = NewJob(comm, trace.New(0), opt)
		res, err := j.Run(t.Context())
		if comm.Rank() == 0 {
			stopped = res
		}
		return err
	})
	var at cursor
	if err := save.ReadJSON(open(t, stopped.Checkpoint), save.SectionCursor, &at); err != nil || at.Step != last || at.Consumed != at.Rows || at.Epoch != 0 {
		t.Fatalf("%v: %+v", err, at)
	}
	again := runJob(t, size, Options{Resume: stopped.RunDir})
	sameModel(t, again, whole)
	if lines(t, again.RunDir, "valid")[0].Step != last {
		t.Error("the first epoch was not evaluated")
	}
}

// TestLateMicrobatchesAreCountedThroughARestart: the result of a resumed training includes
// the late microbatches of earlier steps.
func TestLateMicrobatchesAreCountedThroughARestart(t *testing.T) {
	t.Parallel()
	const size = 3
	slow, err := chaos.Parse("slow:100x@1")
	fatal.If(t, err)
	opt := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", ""), Set: []string{"train.epochs=1"}, Tolerance: step.Tolerance{Mode: slots.Drop, Backup: 1}, Chaos: slow}
	first := runJob(t, size, opt)
	last := runJob(t, size, Options{Resume: first.RunDir, Set: []string{"train.epochs=2"}, Chaos: slow})
	records, err := save.ReadCommits(first.RunDir)
	fatal.If(t, err)
	late := int64(0)
	for _, r := range records {
		late += int64(r.Leased - len(r.Pieces))
	}
	if first.LateSlots == 0 || last.LateSlots != late || last.LateSlots <= first.LateSlots || last.Since != first.Steps {
		t.Errorf("%d late microbatches until step %d, %d until step %d; the log has %d", first.LateSlots, first.Steps, last.LateSlots, last.Steps, late)
	}
}

// TestReplayOfATrainingThatContinuedOtherwise: a replay of a training that resumed in another
// mode is rejected, with the step and both modes. One that resumed in the same mode is not.
func TestReplayOfATrainingThatContinuedOtherwise(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	opt := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", ""), Set: []string{"train.epochs=1"}, Tolerance: step.Tolerance{Mode: slots.Drop, Backup: 1}}
	first := runJob(t, 3, opt)
	runJob(t, 3, Options{Resume: first.RunDir, Set: []string{"train.epochs=2"}})
	fatal.If(t, CheckReplay(t.Context(), Options{Replay: first.RunDir}, 3))
	if err := CheckReplay(t.Context(), Options{Replay: first.RunDir}, 2); err == nil || !strings.Contains(err.Error(), "use -np 3") {
		t.Errorf("replay on another number of ranks: %v", err)
	}
	second := runJob(t, 3, Options{Resume: first.RunDir, Set: []string{"train.epochs=3"}})
	runJob(t, 2, Options{Resume: first.RunDir, Set: []string{"train.epochs=4"}})
	for _, ranks := range []int{2, 3} {
		err := CheckReplay(t.Context(), Options{Replay: first.RunDir}, ranks)
		if want := fmt.Sprintf("ran on 3 ranks in %v, and after step %d on 2 ranks in", opt.Tolerance, second.Steps); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("on %d ranks: %v; want %q", ranks, err, want)
		}
	}
}

// TestReplayOfATrainingThatContinuedWithOtherSettings: changed settings that affect steps are
// reported. Runs with other changes, or with more epochs if no rate depends on the end, can
// be replayed.
func TestReplayOfATrainingThatContinuedWithOtherSettings(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	path, how := traintest.Clicks(t, 300), step.Tolerance{Mode: slots.Drop, Backup: 1}
	for _, x := range []struct {
		train string
		set   []string
		want  string // "" if the run can be replayed
	}{
		{"", []string{"train.epochs=2", "train.checkpoint.keep=7"}, ""},
		{"", []string{"train.epochs=2", "train.global_batch=60"}, "train.global_batch: 64 → 60"},
		{"", []string{"train.epochs=2", "train.schedule.kind=cosine"}, "train.schedule.kind: constant → cosine"},
		{"", []string{"train.epochs=2", "train.optimizer.deep.learning_rate=0.5"}, "train.optimizer.deep.learning_rate: "},
		{", schedule: {kind: linear}", []string{"train.epochs=2"}, "train.epochs: 1 → 2"},
	} {
		c := traintest.ClicksConfig(t, path, "", x.train)
		first := runJob(t, 3, Options{Config: c, Set: []string{"train.epochs=1"}, Tolerance: how})
		again := runJob(t, 3, Options{Resume: first.RunDir, Set: x.set})
		err := CheckReplay(t.Context(), Options{Replay: first.RunDir}, 3)
		if want := fmt.Sprintf(", and after step %d on 3 ranks in %v with ", first.Steps, how); x.want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%v: %v; want %q and %q", x.set, err, want, x.want)
		}
		if x.want != "" {
			continue
		}
		if err != nil {
			t.Fatalf("%v: %v", x.set, err)
		}
		sameModel(t, runJob(t, 3, Options{Replay: first.RunDir}), again)
	}
}
