package jobs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// stormFaults is the number of faults that TestStorm injects, or 0 for the default.
// docs/benchmarks.md has the results of 200.
var stormFaults = flag.Int("faults", 0, "TestStorm: faults of one training; 200 take minutes")

// storm returns a -chaos specification with faults of every kind, drawn from a seed. About half
// of them end the group. The others delay a rank or fill its disk. They are spread over the
// steps of a training, after its first checkpoint.
func storm(seed uint64, faults, np int, steps int64) string {
	rng := rand.New(rand.NewPCG(seed, 200))
	all := make([]string, faults)
	for i := range all {
		at, r := 25+rng.Int64N(steps-25), rng.IntN(np)
		switch rng.IntN(6) {
		case 0, 1:
			all[i] = fmt.Sprintf("kill:%d@step%d", r, at)
		case 2:
			all[i] = fmt.Sprintf("cut:%d-%d@step%d", r, (r+1)%np, at)
		case 3, 4:
			all[i] = fmt.Sprintf("stop:%dms@%d@step%d", 20+rng.IntN(100), r, at)
		case 5:
			// It must not hit the last checkpoint, because a training whose model is not saved
			// fails.
			all[i] = fmt.Sprintf("diskfull@%d@step%d", r, min(at, steps-60))
		}
	}
	return strings.Join(all, ",")
}

// TestStorm injects faults of every kind at random steps of a training of real processes. The
// training ends by itself, and each microbatch of each epoch counts exactly once. In mode
// speculate the model has the bits of an undisturbed training, in mode drop its AUC. The number
// of the launcher's descriptors does not grow with the faults.
func TestStorm(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	const np = 3
	faults := cmp.Or(*stormFaults, 20)
	epochs := max(2, faults/16)
	job := []string{"train", "--json", "-set", fmt.Sprint("train.epochs=", epochs), "-set", "train.checkpoint.every_steps=20", "-set", "model.hidden=[32]"}
	dir := t.TempDir()
	calm := train(t, dir, np, job[2:]...)
	for _, mode := range []string{"speculate", "drop"} {
		if mode == "drop" && faults < 100 {
			continue // TestSlowRank covers short trainings
		}
		t.Run(mode, func(t *testing.T) {
			flags := []string{"-np", fmt.Sprint(np), "-oversubscribe", "-restarts", "10", "-timeout", "20s"}
			disturbed := append(slices.Clip(job), "-mode", mode, "-chaos", storm(7, faults, np, calm.Steps))
			if mode == "drop" {
				disturbed = append(disturbed, "-backup", "1")
			}
			begin := time.Now()
			r, fallen := survive(t, dir, append(flags, disturbed...))
			t.Logf("%s: %d faults, %d of which ended the group, in %.1f s; AUC %.5f, undisturbed %.5f", mode, faults, fallen, time.Since(begin).Seconds(), r.AUC, calm.AUC)
			if fallen < faults/4 {
				t.Errorf("only %d of %d faults ended the group: too few for this test", fallen, faults)
			}
			if r.Samples != calm.Samples {
				t.Errorf("%d samples, want %d", r.Samples, calm.Samples)
			}
			onceEach(t, filepath.Join(dir, r.RunDir), epochs)
			if mode == "speculate" {
				sameModel(t, dir, r, calm)
			}
			if d := r.AUC - calm.AUC; d > 0.0015 || d < -0.0015 {
				t.Errorf("AUC %.5f, undisturbed %.5f", r.AUC, calm.AUC)
			}
		})
	}
}

// survive runs a job with injected faults until it ends. It returns the number of restarts and
// checks the descriptors of the launcher in each generation.
func survive(t *testing.T, dir string, args []string) (r trained, fallen int) {
	t.Helper()
	bin, err := wdlrun()
	fatal.If(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	lines := &lineCount{of: " start again in "}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, new(bytes.Buffer), lines
	fatal.If(t, cmd.Start())
	ended := make(chan struct{})
	looked := make(chan []int)
	go func() { looked <- countDescriptors(cmd.Process.Pid, ended) }()
	err = cmd.Wait()
	close(ended)
	descriptors := <-looked
	if err != nil {
		t.Fatalf("%v\n%s", err, lines.text.String())
	}
	if len(descriptors) < 4 || len(descriptors) > 8 && grows(descriptors) { // in few generations, the random differences are as large
		t.Errorf("the launcher had %v descriptors in its generations", descriptors)
	}
	return parseTrained(t, outcome{stdout: cmd.Stdout.(*bytes.Buffer).String()}), lines.n
}

// grows reports whether the counts of successive generations grow by at least one in every
// second generation. A count also varies by a few, because ranks may be starting or ending at
// the moment.
func grows(counts []int) bool {
	median := func(some []int) int { return slices.Sorted(slices.Values(some))[len(some)/2] }
	n := len(counts)
	return median(counts[n/2:])-median(counts[:n/2]) > n/4
}

// TestGrows: grows reports leaks, but not random differences.
func TestGrows(t *testing.T) {
	t.Parallel()
	leaks, half := []int{24, 21, 24, 24, 22, 24, 23, 24, 24, 24, 24, 24, 26}, []int{24, 24}
	if grows(leaks) {
		t.Errorf("%v is reported as a leak", leaks)
	}
	for i := range leaks {
		leaks[i] += i
	}
	for i := range 12 {
		half = append(half, 24+2*i/3)
	}
	for _, counts := range [][]int{leaks, half, {24, 25, 27, 27}} {
		if !grows(counts) {
			t.Errorf("%v is not reported as a leak", counts)
		}
	}
}

// countDescriptors counts the open files of a launcher once in each generation of its ranks.
func countDescriptors(launcher int, ended <-chan struct{}) (counts []int) {
	for last := 0; ; {
		select {
		case <-ended:
			return counts
		case <-time.After(50 * time.Millisecond):
		}
		pids := ranksOf(launcher)
		if len(pids) < 3 || pids[0] == last {
			continue
		}
		if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", launcher)); err == nil {
			last = pids[0]
			counts = append(counts, len(fds))
		}
	}
}

// lineCount stores the text written to it and counts the occurrences of a string.
type lineCount struct {
	of   string
	n    int
	text bytes.Buffer
}

func (l *lineCount) Write(b []byte) (int, error) {
	l.n += bytes.Count(b, []byte(l.of)) // each call writes whole lines
	return l.text.Write(b)
}

// onceEach checks in a run's log of commit sets that each microbatch of each epoch counted
// exactly once.
func onceEach(t *testing.T, runDir string, epochs int) {
	t.Helper()
	f, err := os.Open(filepath.Join(runDir, "commits.log"))
	fatal.If(t, err)
	defer f.Close()
	log, err := slots.NewLogReader(f)
	fatal.If(t, err)
	if log.Record().Step != 0 {
		t.Fatalf("the log begins at step %d", log.Record().Step)
	}
	counted, total := map[[2]int64]int{}, log.Record().Queue.Total
	for {
		r, err := log.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		fatal.If(t, err)
		for _, p := range r.Pieces {
			counted[[2]int64{p.Batch.Epoch, p.Batch.First}]++
		}
	}
	for epoch := range int64(epochs) {
		for first := range total {
			if n := counted[[2]int64{epoch, first}]; n != 1 {
				t.Errorf("microbatch %d of epoch %d counted %d times", first, epoch, n)
			}
		}
	}
	if want := epochs * int(total); len(counted) != want {
		t.Errorf("%d microbatches counted, want %d", len(counted), want)
	}
}
