package hosts

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/online"
	"github.com/wdlrun/wdlrun/internal/hosts/kube"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/rank"
)

func ManifestCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "manifest",
		Usage:     "print the Kubernetes manifests of a training, or of an online loop",
		UsageText: "wdlrun -np N manifest -as job|jobset -hosts H -image IMAGE [flags]\n   wdlrun manifest -online FILE -image IMAGE -claim NAME [flags]",
		Description: `Prints a Secret with a new key for the ranks, a ConfigMap with the configuration, a Service and
an Indexed Job, or a JobSet. A host is a pod with a container for each of its ranks. The ranks
wait for each other, and for the DNS name of the first pod. A restarted training resumes from its
last checkpoint in -out.

With -online, it also prints a StatefulSet with the join, and a Deployment with servers and its Service, for the
parts in the configuration of wdlrun online. Their working directory is /data, the volume of -claim, which many pods
must be able to mount. A training that fails is then always started again.

Examples:
   wdlrun -np 8 manifest -hosts 8 -image registry.example/wdlrun:1 -config ctr.yaml -claim clicks
   wdlrun -np 32 manifest -as jobset -hosts 4 -image registry.example/wdlrun:1 -memory 8Gi -claim clicks
   wdlrun manifest -online online.yaml -servers 2 -image registry.example/wdlrun:1 -claim clicks`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "as", Value: kube.Job, Usage: "print a `KIND`: job, or jobset, which replaces all pods after a failure"},
			&cli.StringFlag{Name: "name", Value: "wdlrun", Usage: "call all objects `NAME`"},
			&cli.IntFlag{Name: "hosts", Value: 1, Usage: "use `H` pods, with -np/H ranks each"},
			&cli.StringFlag{Name: "image", Usage: "run `IMAGE`, which has wdlrun in its PATH"},
			&cli.IntFlag{Name: "cpus", Value: 1, Usage: "request `N` CPUs for each rank, and for each pod of the join and of the servers"},
			&cli.StringFlag{Name: "memory", Value: "2Gi", Usage: "request `BYTES` of memory, such as 8Gi, for each rank, and for each pod of the join and of the servers"},
			&cli.StringFlag{Name: "claim", Usage: "mount PersistentVolumeClaim `NAME` at /data of all pods, which is then their working directory"},
			&cli.StringFlag{Name: "config", Usage: "use configuration `FILE` (YAML), with paths as the pods see them"},
			&cli.StringFlag{Name: "online", Usage: "print the parts of an online loop of the configuration `FILE` of wdlrun online"},
			&cli.IntFlag{Name: "servers", Value: 1, Usage: "with -online, serve with `N` pods"},
			&cli.StringSliceFlag{Name: "set", Usage: "override one key of the configuration: `KEY=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "out", Value: "/data/runs", Usage: "create the run directory in `DIR` of the pods"},
			&cli.DurationFlag{Name: "grace", Value: 2 * time.Minute, Usage: "give a pod that is to end `DURATION` for its last checkpoint"},
			&cli.DurationFlag{Name: "wait", Value: 5 * time.Minute, Usage: "let ranks wait `DURATION` for each other and for progress"},
		},
		Action: func(c *cli.Context) error {
			s, notes, err := manifestOf(c)
			if err != nil {
				return err
			}
			b, err := kube.Manifest(s)
			if err != nil {
				return err
			}
			for _, line := range notes {
				fmt.Fprintln(p.Stderr, "wdlrun: manifest: "+line)
			}
			_, err = p.Stdout.Write(b)
			return err
		},
	}
}

// manifestOf parses the flags. The notes are warnings.
func manifestOf(c *cli.Context) (s kube.Spec, notes []string, err error) {
	if c.Args().Present() {
		return s, nil, fmt.Errorf("manifest takes no arguments, but got %q", c.Args().First())
	}
	if c.IsSet("servers") && !c.IsSet("online") {
		return s, nil, errors.New("-servers: only a loop has servers: give -online FILE, or leave it out")
	}
	var loop online.Parts
	if path := command.PathOf(c, "online"); path != "" {
		if c.IsSet("config") {
			return s, nil, errors.New("-config: the configuration of the training is train.config of -online")
		}
		if loop, err = online.ReadParts(path); err != nil {
			return s, nil, fmt.Errorf("-online: %w", err)
		}
		if notes, err = checkLoop(c, loop); err != nil {
			return s, nil, fmt.Errorf("-online: %s: %w", path, err)
		}
	}
	np := cmp.Or(loop.Ranks, c.Int("hosts"))
	if root := c.Lineage()[len(c.Lineage())-2]; root.IsSet("np") {
		np = root.Int("np")
	}
	if np < 1 || np > rank.MaxSize {
		return s, nil, fmt.Errorf("-np %d: must be within 1 … %d", np, rank.MaxSize)
	}
	if err := rank.CheckTimeout(c.Duration("wait")); err != nil {
		return s, nil, fmt.Errorf("-wait: %w, such as 5m", err)
	}
	s = kube.Spec{
		Kind: c.String("as"), Name: c.String("name"), Image: c.String("image"), Ranks: np, Hosts: c.Int("hosts"), CPUs: c.Int("cpus"), Memory: c.String("memory"),
		Claim: c.String("claim"), Grace: c.Duration("grace"), Wait: c.Duration("wait"), Key: rank.NewKey(),
		Train: []string{"-out", c.String("out"), "-resume", command.ResumeAuto},
	}
	if c.IsSet("online") {
		s.Train = append(s.Train, loop.Train...)
		s.Online = &kube.Online{Join: loop.Join, Serve: loop.Serve, Servers: c.Int("servers"), TLS: loop.TLS, MetricsPort: loop.MetricsPort, AdminPort: loop.AdminPort}
	}
	for _, v := range c.StringSlice("set") {
		s.Train = append(s.Train, "-set", v)
	}
	if path := cmp.Or(command.PathOf(c, "config"), loop.Config); path != "" {
		if !c.IsSet("online") { // otherwise checkLoop has checked it
			if _, err := command.Config(path, c.StringSlice("set")); err != nil {
				return s, nil, err
			}
		}
		if s.Config, err = regular.ReadFile(path, 1<<20); err != nil {
			return s, nil, fmt.Errorf("-config: %w", err)
		}
	}
	return s, notes, nil
}

// checkLoop checks the flags of the parts of a loop as the parts do before they start, and returns warnings.
func checkLoop(c *cli.Context, loop online.Parts) ([]string, error) {
	j, err := command.Parsed(c.App, "join", loop.Join)
	if err != nil {
		return nil, err
	}
	if err := data.CheckJoin(j); err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	if _, err := command.Parsed(c.App, "train", loop.Train); err != nil {
		return nil, err
	}
	if _, err := command.Parsed(c.App, "serve", loop.Serve); err != nil {
		return nil, err
	}
	lines, err := loop.Apart(kube.DataPath, c.StringSlice("set"))
	return append(lines, loop.Notes...), err
}
