package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/nccl"
	"github.com/wdlrun/wdlrun/rank"
)

// keepFailure writes the reports of ranks about the end of their group to its run
// directory. It returns a description and the folder, "" without a run directory:
//
//	failure-20261121-101500/verdict.txt        the verdict and related observations
//	failure-20261121-101500/rank-0003.stacks   stacks of all goroutines at the verdict
//	failure-20261121-101500/rank-0003.trace    the spans of its last steps
//	failure-20261121-101500/rank-0003.calls    its last calls between GPUs
//
// A dead rank writes nothing. A stopped rank reports when it is resumed, and a slow rank
// may report after the others have restarted. After a plain error of a rank, only the
// verdict is kept, because it contains the error, and the description is "".
func keepFailure(out launcher.Outcome, w io.Writer) string {
	v := out.Verdict
	traced := func(w launcher.Report) bool { return w.Rank == v.Rank && w.About == AboutTrace }
	if out.Status.RunDir == "" {
		return ""
	}
	plain := v.Kind == rank.Failed && !slices.ContainsFunc(out.Reports, traced)
	if plain {
		out.Reports = nil
	}
	dir, err := failureFolder(out.Status.RunDir, time.Now())
	if err == nil {
		defer dir.Close()
	}
	keep := func(name string, body []byte) {
		if err == nil {
			err = dir.WriteFile(name, body, 0o644)
		}
	}
	verdict := append([]string{v.String()}, v.Others...)
	keep(runs.FileVerdict, []byte(strings.Join(verdict, "\n  ")+"\n"))
	var stacks, traces []int
	for _, w := range out.Reports {
		switch w.About { // file names never come from a rank
		case aboutStacks:
			stacks = append(stacks, w.Rank)
		case AboutTrace:
			traces = append(traces, w.Rank)
		case nccl.AboutCalls:
		default:
			continue
		}
		keep(fmt.Sprintf("rank-%04d.%s", w.Rank, w.About), w.Body)
	}
	if err != nil {
		fmt.Fprintf(w, "wdlrun: the reports of the ranks about the failure could not be kept: %v\n", err)
		return ""
	}
	if plain {
		return ""
	}
	return describeKept(stacks, traces) + ": " + dir.Name()
}

// injectedFault returns the injected fault that ended a group, "" for none. The run directory
// records injected faults; the launcher cannot distinguish a rank killed by one from a
// rank killed by the system.
func (p *Program) injectedFault(out launcher.Outcome) string {
	if !p.chaos || out.Status.RunDir == "" {
		return ""
	}
	been, _ := train.InjectedFaults(out.Status.RunDir) // without a list there were none
	seen := min(p.faults, len(been))
	p.faults = len(been)
	kinds := map[rank.Kind]chaos.Kind{rank.Killed: chaos.Kill, rank.Lost: chaos.Cut, rank.Blamed: chaos.Cut, rank.Cut: chaos.Cut, rank.Silent: chaos.Stop, rank.Stuck: chaos.Stop}
	for _, f := range been[seen:] {
		if v := out.Verdict; f.Kind == kinds[v.Kind] && (f.Rank == v.Rank || f.Kind == chaos.Cut && f.Peer == v.Rank) {
			return f.String()
		}
	}
	return ""
}

// failureFolder makes a folder for a failure at the given time, with a suffix if there is
// one of the same second. It makes the run directory if only other hosts have it.
func failureFolder(runDir string, now time.Time) (*os.Root, error) {
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return nil, err
	}
	run, err := os.OpenRoot(runDir)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	name := "failure-" + now.Format("20060102-150405")
	dir := name
	for n := 2; n <= maxFailures; n++ {
		if err = run.Mkdir(dir, 0o755); err == nil {
			return regular.Subfolder(run, dir)
		}
		if !errors.Is(err, fs.ErrExist) {
			break
		}
		dir = fmt.Sprintf("%s-%d", name, n)
	}
	return nil, regular.WithPath(filepath.Join(runDir, dir), err)
}

// maxFailures is the maximum number of failures in one second; a failure takes a good part
// of one.
const maxFailures = 100

const (
	aboutStacks = string(control.Stacks)
	AboutTrace  = "trace" // a rank's report of its last spans
	AboutPart   = "part"  // rank 0's report of a part of its work
)

// describeKept describes which stacks and traces were kept.
func describeKept(stacks, traces []int) string {
	slices.Sort(stacks)
	slices.Sort(traces)
	switch {
	case len(stacks)+len(traces) == 0:
		return "only the verdict, because no rank reported"
	case slices.Equal(stacks, traces):
		return "stacks and traces of " + ofRanks(stacks)
	case len(traces) == 0:
		return "stacks, and no traces, of " + ofRanks(stacks)
	case len(stacks) == 0:
		return "traces, and no stacks, of " + ofRanks(traces)
	}
	return "stacks of " + ofRanks(stacks) + ", traces of " + ofRanks(traces)
}

// ofRanks names one rank or a few, and counts more.
func ofRanks(ranks []int) string {
	const few = 8
	switch n := len(ranks); {
	case n == 1:
		return fmt.Sprintf("rank %d", ranks[0])
	case n > few:
		return fmt.Sprintf("%d ranks", n)
	}
	return "ranks " + strings.ReplaceAll(strings.Trim(fmt.Sprint(ranks), "[]"), " ", ", ")
}

// printVerdict prints why a group ended, as soon as that is known.
func printVerdict(v *rank.Verdict, w io.Writer) {
	fmt.Fprintf(w, "wdlrun: %v\n", v)
	for _, line := range v.Others {
		fmt.Fprintf(w, "wdlrun:   %s\n", line)
	}
}

// printObservation prints an observation that may lead to a verdict.
func printObservation(line string, w io.Writer) { fmt.Fprintf(w, "wdlrun: %s\n", line) }

// printHint prints the probable cause of a verdict, after the output of the ranks: the
// injected fault, if there was one.
func printHint(v *rank.Verdict, purpose string, w io.Writer) {
	if purpose != "" {
		fmt.Fprintf(w, "wdlrun: this fault was injected: %s\n", purpose)
	} else if hint := v.Hint(); hint != "" {
		fmt.Fprintf(w, "wdlrun: %s\n", hint)
	}
}

// printAfter prints which files of a failed group are kept, and the hint.
func (p *Program) printAfter(out launcher.Outcome, w io.Writer) {
	if kept := keepFailure(out, w); kept != "" {
		fmt.Fprintf(w, "wdlrun: kept: %s\n", kept)
	}
	printHint(out.Verdict, p.injectedFault(out), w)
}

// printNext prints the command that resumes a failed job.
func (p *Program) printNext(v *rank.Verdict, command, runDir string) {
	if runDir == "" {
		return
	}
	if text := v.String(); strings.Contains(text, train.NothingLeft) || strings.Contains(text, report.Diverges) {
		return // the same command would end in the same way
	}
	own := v.Kind == rank.Failed // the cause contains advice, and recurs until the user follows it
	switch found, _ := checkpoint.List(filepath.Join(runDir, checkpoint.Folder)); {
	case own && len(found) > 0:
		fmt.Fprintf(p.Stderr, "wdlrun: after you fix this, resume from the last checkpoint: %s train -resume %s\n", command, QuotedPath(runDir))
	case len(found) > 0:
		fmt.Fprintf(p.Stderr, "wdlrun: to resume from the last checkpoint: %s train -resume %s\n", command, QuotedPath(runDir))
	case p.hosts != "" && !IsDir(filepath.Join(runDir, checkpoint.Folder)): // the ranks may have it on disks of their own
		fmt.Fprintf(p.Stderr, "wdlrun: to resume from the last checkpoint on the hosts, if there is one: %s train -resume %s\n", command, QuotedPath(runDir))
	case !own:
		fmt.Fprintf(p.Stderr, "wdlrun: there is no checkpoint yet in %s: start again; -set train.checkpoint.every_steps=N saves more often\n", runDir)
	}
}
