package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/gpu"
	"github.com/wdlrun/wdlrun/internal/hosts/doctor"
	"github.com/wdlrun/wdlrun/internal/machine/ports"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

func DoctorCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "examine the hosts of a job and the links between them, and print what to change",
		UsageText: "wdlrun [launch flags] doctor [--json]",
		Description: `Starts one rank on each host, as a job would, and measures the round trip and the bandwidth of
each pair of hosts. Without -H it examines this machine. It prints the resources of each host,
then one line with advice for each problem. An error is a problem with which a job with these
launch flags would fail, such as too little memory for -mem, too few free ports, or a directory
that cannot be written. A warning is a host or link that is slower than the others, for example.
The exit code is 1 if there is an error or a host cannot be reached. A build with the tag gpu also
prints the GPUs of each host and their libraries.

Examples:
   wdlrun doctor
   wdlrun -np 8 -mem 2g doctor
   wdlrun -H a:8,b:8,c:8 -ports 20000-20100 doctor --json`,
		Flags: []cli.Flag{command.JSONFlag()},
		Action: func(c *cli.Context) error {
			var job doctor.Job
			check := func(c *cli.Context) error {
				if c.Args().Present() {
					return fmt.Errorf("doctor takes no arguments, but got %q", c.Args().First())
				}
				root := c.Lineage()[len(c.Lineage())-2] // the last is an empty parent
				plan, err := command.Place(root)
				job = doctor.Job{Memory: plan.Each.Memory, Streams: root.Int("streams"), Ports: root.IsSet("ports")}
				for _, r := range command.OneEach(plan).Ranks {
					job.Ranks = append(job.Ranks, ranksOn(plan, r.Host))
				}
				return err
			}
			shown := func(w io.Writer, _ int, asJSON bool, result []byte) error {
				var r doctor.Report
				if err := json.Unmarshal(result, &r); err != nil {
					return err
				}
				return diagnose(w, asJSON, r, job)
			}
			work := func(_ context.Context, _ *cli.Context, m *member.Member, _ func(string)) (any, error) {
				return examine(m, p.Getenv)
			}
			return p.OnRanks(c, check, work, shown)
		},
	}
}

func ranksOn(plan launcher.Plan, host string) (n int) {
	for _, r := range plan.Ranks {
		if r.Host == host {
			n++
		}
	}
	return n
}

// examine runs the part of doctor of one rank.
func examine(m *member.Member, getenv func(string) string) (any, error) {
	var done atomic.Int64
	m.Session.Watch(func() rank.Status {
		return rank.Status{Phase: "examine", Waits: true, Step: done.Load(), Progress: done.Load()}
	})
	work, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	within, err := ports.Parse(getenv("WDLRUN_PORTS"))
	if err != nil {
		return nil, err
	}
	files, err := gpu.Files(getenv)
	if err != nil {
		return nil, err
	}
	own := doctor.Here(m.World.Host, command.Version, work, filepath.Join(getenv("HOME"), ".cache", "wdlrun", "bin"), within, files)
	if within != (ports.Range{}) && m.World.Size > 1 {
		own.FreePorts++ // this rank listens on one
	}
	return doctor.Examine(m.Comm, own, func() { done.Add(1) })
}

// diagnose prints a report and its findings.
func diagnose(w io.Writer, asJSON bool, r doctor.Report, job doctor.Job) error {
	found := doctor.Judge(&r, job)
	code := 0
	if doctor.Fails(found) {
		code = 1
	}
	err := error(nil)
	if asJSON {
		var b []byte
		if b, err = json.Marshal(struct {
			doctor.Report
			Findings []doctor.Finding `json:"findings"`
			ExitCode int              `json:"exit_code"`
		}{r, found, code}); err == nil {
			_, err = fmt.Fprintf(w, "%s\n", b)
		}
	} else {
		err = doctor.Write(w, r, found)
	}
	if err == nil && code != 0 {
		return command.Exit(code)
	}
	return err
}
