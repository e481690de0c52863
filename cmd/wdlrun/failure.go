package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/launcher"
)

// keepFailure leaves what ranks said about the end of their group in its run
// directory, and returns the folder, "" without a run directory:
//
//	failure-20261121-101500/verdict.txt        the verdict, and what others showed
//	failure-20261121-101500/rank-0003.stacks   of all its goroutines when it was given
//	failure-20261121-101500/rank-0003.trace    where its last steps spent their time
//
// A rank that has died says nothing; one that was stopped does when it is woken.
func (p *program) keepFailure(out launcher.Outcome) string {
	if out.Status.RunDir == "" {
		return ""
	}
	dir := filepath.Join(out.Status.RunDir, "failure-"+time.Now().Format("20060102-150405"))
	err := os.MkdirAll(dir, 0o755)
	keep := func(name string, body []byte) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), body, 0o644)
		}
	}
	verdict := append([]string{out.Verdict.String()}, out.Verdict.Others...)
	keep("verdict.txt", []byte(strings.Join(verdict, "\n  ")+"\n"))
	for _, w := range out.Words {
		if w.About == "stacks" || w.About == aboutTrace { // the name of a file comes from no rank
			keep(fmt.Sprintf("rank-%04d.%s", w.Rank, w.About), w.Body)
		}
	}
	if err != nil {
		fmt.Fprintf(p.stderr, "wdlrun: what the ranks said about the failure is not kept: %v\n", err)
		return ""
	}
	return dir
}

// aboutTrace names a rank's report of its last spans.
const aboutTrace = "trace"
