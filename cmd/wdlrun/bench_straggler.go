package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/bench/straggler"
	"github.com/wdlrun/wdlrun/internal/chaos"
	"github.com/wdlrun/wdlrun/internal/plural"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/rank/member"
)

func benchStragglerCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "straggler",
		Usage:     "measure what slow ranks cost, and what -backup and -mode save",
		UsageText: "wdlrun [launch flags] bench straggler [flags]",
		Description: `Measures training steps of a small model with one rank that computes five times slower,
or with the faults of -chaos and -stalls. If there are at most as many ranks as cores, the ranks
are processes. Otherwise they are goroutines of one process over modelled links of 25 Gbit/s,
and a rank sleeps for the modelled time of a microbatch. Without -mode and -backup it measures
-mode wait.

The same measurement in virtual time is a test of the source:
go test ./internal/bench/straggler -run TestVirtual -v -np 32 -backup 2 -stalls .01

Examples:
   wdlrun -np 32 bench straggler -stalls 0.01
   wdlrun -np 8 bench straggler -mode wait -chaos slow:5x@5
   wdlrun -np 8 bench straggler -backup 1 -chaos slow:5x@5
   wdlrun -np 32 bench straggler -backup 3 -stalls 0.01 -json`,
		Flags: append([]cli.Flag{
			&cli.Int64Flag{Name: "steps", Value: 100, Usage: "measure `NUMBER` steps"},
			&cli.Float64Flag{Name: "stalls", Usage: "let a `SHARE` of the microbatches stall, for four steps on average"},
			jsonFlag(),
		}, toleranceFlags()...),
		Action: func(c *cli.Context) error { return p.benchStraggler(c) },
	}
}

// modelledCompute returns the modelled time of a microbatch if ranks are goroutines. It grows
// with their number, so that their real work is small compared with it.
func modelledCompute(ranks int) time.Duration {
	return time.Duration(ranks) * 5 * time.Millisecond
}

func (p *program) benchStraggler(c *cli.Context) error {
	job := straggler.Job{Steps: c.Int64("steps"), StallShare: c.Float64("stalls"), Seed: 1}
	_, inRank, err := rank.FromEnv(p.getenv)
	if err != nil {
		return err
	}
	if np := c.Int("np"); !inRank && np > runtime.NumCPU() {
		if err := slowness(c, np, &job); err != nil {
			return err
		}
		job.Compute = modelledCompute(np)
		m, err := straggler.Simulate(np, job)
		if err != nil {
			return err
		}
		b, err := json.Marshal(m)
		if err != nil {
			return err
		}
		return printStraggler(p.stdout, np, asJSON(c), b)
	}
	work := func(_ context.Context, c *cli.Context, m *member.Member, _ func(string)) (any, error) {
		if err := slowness(c, m.World.Size, &job); err != nil {
			return nil, err
		}
		m.Session.Watch(func() rank.Status { return rank.Status{Phase: "bench", Waits: true} })
		return straggler.Measure(m.Comm, job)
	}
	check := func(c *cli.Context) error {
		ranks, _, _, err := p.world(c.Lineage()[len(c.Lineage())-2]) // the last is an empty parent
		if err != nil {
			return err
		}
		return slowness(c, ranks, &job)
	}
	return p.everywhere(c, check, work, printStraggler)
}

// slowness parses the flags about slow ranks.
func slowness(c *cli.Context, np int, job *straggler.Job) (err error) {
	if job.Tolerance, err = tolerance(c.String("mode"), c.String("backup")); err != nil {
		return err
	}
	if err := job.Validate(np); err != nil {
		return err
	}
	text := c.String("chaos")
	if text == "" && job.StallShare == 0 && np > 1 {
		text = fmt.Sprintf("slow:5x@%d", np-1)
	}
	return faulty(text, np, job)
}

// faulty sets the faults of a job from their text form.
func faulty(text string, np int, job *straggler.Job) error {
	spec, err := chaos.Parse(text)
	if err == nil {
		err = spec.Validate(np)
	}
	if err != nil {
		return fmt.Errorf("-chaos: %w", err)
	}
	for _, f := range spec {
		if f.Kind != chaos.Slow && f.Kind != chaos.Stop {
			return fmt.Errorf("-chaos: bench straggler knows slow and stop, not %s", f.Kind)
		}
	}
	plan := spec.Plan(1, np)
	job.Faults = func(r int) straggler.Faults { return chaos.NewInjector(plan, r) }
	return nil
}

func printStraggler(w io.Writer, _ int, asJSON bool, result []byte) error {
	if asJSON {
		_, err := fmt.Fprintf(w, "%s\n", result)
		return err
	}
	var m straggler.Measured
	if err := json.Unmarshal(result, &m); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s, %s, backup %d: %.0f samples/s, %d samples in %d steps, late microbatches: %d\n",
		plural.Of(m.Ranks, "rank"), m.Mode, m.Backup, m.SamplesPerSecond, m.CommittedSamples, m.Steps, m.LateSlots)
	for _, n := range m.Notes {
		fmt.Fprintln(w, n)
	}
	return err
}
