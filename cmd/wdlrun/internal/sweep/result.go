package sweep

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/runs/report"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/runs/sweep"
)

// verdict describes the best trial, with its test metrics.
func (s *sweeping) verdict() []string {
	if s.Best == 0 {
		return []string{"no trial has finished"}
	}
	best, m := s.Trials[s.Best-1], s.Options.Metric
	peak := s.Peak(best)
	lines := []string{
		fmt.Sprintf("trial %d is the best by %s of the validation data: %s", best.Number, m, meanText(sweep.Of(peak, m, false))),
		strings.Join(best.Pairs(), " "),
	}
	lines = append(lines, s.Removed...)
	if near := s.Near(); len(near) > 0 {
		lines = append(lines, fmt.Sprintf("trials that differ from it by no more than its seeds do: %d: %s", len(near), some(near)))
	}
	var parts []string
	for _, name := range slices.Compact([]string{m, "auc", "logloss", "rmse"}) {
		if values := sweep.Of(peak, name, true); len(values) > 0 && !slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, name+" ") }) {
			parts = append(parts, name+" "+meanText(values))
		}
	}
	tried := 0
	for _, t := range s.Trials {
		if s.Peak(t) != nil {
			tried++
		}
	}
	if len(parts) == 0 {
		return append(lines, fmt.Sprintf("it was chosen among %d by its validation metric, which is therefore optimistic; there is no test data to correct it: name some in data.test", tried))
	}
	return append(lines, "test data: "+strings.Join(parts, ", "),
		fmt.Sprintf("it was chosen among %d by its validation metric, which is therefore optimistic: report the test metrics", tried))
}

// writeResults writes the report and the best configuration.
func (s *sweeping) writeResults() error {
	if err := s.save(); err != nil {
		return err
	}
	_, err := command.WriteWhole(filepath.Join(s.dir, sweepReport), func(w io.Writer) error {
		return report.WriteSweep(w, filepath.Base(s.dir), s.Sweep, s.space, s.verdict(), time.Now())
	})
	if err != nil || s.Best == 0 {
		return err
	}
	best := s.Trials[s.Best-1]
	c, err := s.config(best)
	if peak := s.Peak(best)[0]; err == nil && s.Options.Method == sweep.ASHA {
		err = config.Set(c, "train.epochs", fmt.Sprint(peak.Epochs))
	}
	if err != nil {
		return err
	}
	var head strings.Builder
	for _, line := range s.verdict() {
		fmt.Fprintf(&head, "# %s\n", command.Clean(line, 1<<10))
	}
	return rundir.WriteFile(s.dir, sweepBest, append([]byte(head.String()), c.YAML()...))
}

func (s *sweeping) print(w io.Writer, np int) {
	head := []string{"trial", "state", "epochs", s.Options.Metric, "deviation", "seconds"}
	for _, p := range s.space {
		head = append(head, command.Clean(p.Key, 48))
	}
	rows := [][]string{head}
	all := s.Ranking()
	for _, t := range all[:min(len(all), maxShown)] {
		row := []string{fmt.Sprint(t.Number), report.SweepState(s.Sweep, t), "-", "-", "-", "-"}
		if peak := s.Peak(t); peak != nil {
			mean, deviation := sweep.Spread(sweep.Of(peak, s.Options.Metric, false))
			row[2], row[3] = sweep.EpochsOf(peak), fmt.Sprintf("%.5f", mean)
			if !math.IsNaN(deviation) {
				row[4] = fmt.Sprintf("%.5f", deviation)
			}
		}
		if len(t.Outcomes) > 0 {
			seconds := 0.0
			for _, x := range t.Outcomes {
				seconds += x.Seconds
			}
			row[5] = fmt.Sprintf("%.1f", seconds)
		}
		for _, p := range s.space {
			row = append(row, cmp.Or(command.Clean(t.Value(p.Key), command.WidestSetting), "-"))
		}
		rows = append(rows, row)
	}
	if s.Options.Repeats < 2 {
		for i, row := range rows {
			rows[i] = slices.Delete(row, 4, 5)
		}
	}
	fmt.Fprint(w, command.Aligned(rows))
	if n := len(all) - maxShown; n > 0 {
		fmt.Fprintf(w, "%d more trials: see %s\n", n, filepath.Join(s.dir, sweepReport))
	}
	fmt.Fprintln(w)
	for _, line := range s.verdict() {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "\n%s\n  %-12s    trials, the effect of each key\n  %-12s    every outcome\n  trial-*         run directories: wdlrun runs %s\n", s.dir, sweepReport, sweepState, command.QuotedPath(s.dir))
	if s.Best > 0 {
		ranks := ""
		if np > 1 {
			ranks = fmt.Sprintf(" -np %d", np)
		}
		fmt.Fprintf(w, "  %-12s    the configuration of the best trial\nnext  %s%s train -config %s\n", sweepBest, command.Called(os.Args[0]), ranks, command.QuotedPath(filepath.Join(s.dir, sweepBest)))
	}
}

// some formats the first few of some numbers.
func some(numbers []int) string {
	const few = 5
	text := strings.Trim(fmt.Sprint(numbers[:min(few, len(numbers))]), "[]")
	if len(numbers) > few {
		text += " …"
	}
	return text
}

// meanText formats mean and deviation over seeds.
func meanText(values []float64) string {
	mean, deviation := sweep.Spread(values)
	if math.IsNaN(deviation) {
		return fmt.Sprintf("%.5f (one seed)", mean)
	}
	return fmt.Sprintf("%.5f ± %.5f (%d seeds)", mean, deviation, len(values))
}

// line formats an outcome.
func (s *sweeping) line(t *sweep.Trial, x sweep.Outcome) string {
	seed := ""
	if s.Options.Repeats > 1 {
		seed = fmt.Sprintf(" seed %d", x.Seed)
	}
	if x.Error != "" {
		return fmt.Sprintf("trial %d%s failed: %s", t.Number, seed, x.Error)
	}
	return fmt.Sprintf("trial %d%s, epochs: %s, validation %s: %.5f, %.1f s", t.Number, seed, sweep.EpochsOf([]sweep.Outcome{x}), s.Options.Metric, x.Valid[s.Options.Metric], x.Seconds)
}
