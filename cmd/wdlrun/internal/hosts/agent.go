package hosts

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/gologshim"
	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/hosts/agent"
	"github.com/wdlrun/wdlrun/internal/hosts/mesh"
	"github.com/wdlrun/wdlrun/launcher"
)

// agentProgram is the command agent and those below it.
type agentProgram struct{ *command.Program }

func AgentCommand(p *command.Program) *cli.Command {
	a := agentProgram{p}
	subs := []*cli.Command{
		{
			Name: "id", Usage: "print the peer ID of this machine", UsageText: "wdlrun agent id [flags]",
			Description: `The first call makes the key of this machine, ~/.config/wdlrun/host.key.

Example:
   wdlrun agent id`,
			Flags: []cli.Flag{command.JSONFlag()}, Action: a.id,
		},
		{
			Name: "allow", Usage: "add a machine to the roster", UsageText: "wdlrun agent allow [flags] ID",
			Description: `A machine on the roster can start any program here, as your user. Two machines use each
other if each has the other on its roster. A running agent reads the roster again.

Examples:
   wdlrun agent allow 12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF -name b
   wdlrun agent allow 12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF`,
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "name", Usage: "call the machine `NAME`, as in -H @NAME:8", DefaultText: "the name of its host"},
				command.JSONFlag(),
			}, Action: a.allow,
		},
		{
			Name: "remove", Usage: "remove a machine from the roster", UsageText: "wdlrun agent remove [flags] NAME|ID",
			Description: `A running agent closes the connection to the machine, and ends the host processes that
it has started.

Example:
   wdlrun agent remove b`,
			Flags: []cli.Flag{command.JSONFlag()}, Action: a.remove,
		},
		{
			Name: "list", Usage: "list the machines on the roster", UsageText: "wdlrun agent list [flags]",
			Description: `Asks the agent of this machine. A line has the name of a machine, its host, cores, free
memory, version of wdlrun, the jobs that run there, and its peer ID, or why it cannot be
used.

Examples:
   wdlrun agent list
   wdlrun agent list -json`,
			Flags: []cli.Flag{command.JSONFlag()}, Action: a.list,
		},
	}
	return &cli.Command{
		Name: "agent", Usage: "start ranks on this machine for others, without ssh", UsageText: "wdlrun agent [flags] | wdlrun agent id|allow|remove|list",
		Description: `Run an agent on each machine. Jobs then start with wdlrun -H @a:8,@b:8 train. An agent
runs in the foreground until a signal. It finds the machines on its roster in the local
network by mDNS, at the addresses of -bootstrap, and by asking the machines that it has
found. It rejects all other machines.

Examples:
   wdlrun agent
   wdlrun agent -listen 10.0.0.2:7345 -bootstrap a@10.0.0.1:7345
   wdlrun agent -listen none -bootstrap a@203.0.113.7:7345     behind NAT
   wdlrun agent allow 12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF -name b
   wdlrun agent list`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: ":7345", Usage: "listen for other agents on `HOST:PORT`; none: only connect to them"},
			&cli.StringSliceFlag{Name: "bootstrap", Usage: "connect to the agent `MACHINE@HOST:PORT`; MACHINE is a name or peer ID"},
			&cli.BoolFlag{Name: "mdns", Value: true, Usage: "find machines in the local network; -mdns=false turns this off"},
		},
		Subcommands: subs,
		Action:      a.run,
	}
}

// run accepts ranks until a signal.
func (p agentProgram) run(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("agent: %q is none of id, allow, remove and list; see: wdlrun agent --help", c.Args().First())
	}
	folder, err := agent.Folder(p.Getenv)
	if err != nil {
		return err
	}
	home := p.Getenv("HOME")
	if home == "" {
		return errors.New("agent: HOME is not set: set it to a folder for the programs of jobs")
	}
	gologshim.SetDefaultHandler(slog.DiscardHandler)
	log := func(format string, args ...any) { fmt.Fprintf(p.Stderr, "wdlrun: agent: "+format+"\n", args...) }
	m, err := mesh.New(mesh.Config{
		Folder: folder, Listen: c.String("listen"), Bootstrap: c.StringSlice("bootstrap"), MDNS: c.Bool("mdns"),
		Home: home, Version: command.Version, Command: []string{launcher.HostWord}, Log: log,
	})
	if err != nil {
		return err
	}
	p.OwnsRanks.Store(true) // it ends itself: no grace ends it before
	where := "listens nowhere"
	if addrs := m.Addrs(); len(addrs) > 0 {
		where = "listens on " + strings.Join(addrs, ", ")
	}
	log("peer %s %s", m.ID(), where)
	return m.Serve(c.Context)
}

// agentLine is a machine of the roster as JSON.
type agentLine struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

func (p agentProgram) id(c *cli.Context) error {
	folder, err := agent.Folder(p.Getenv)
	if err != nil {
		return err
	}
	if c.Args().Present() {
		return fmt.Errorf("agent id: takes no arguments, but got %q", c.Args().First())
	}
	key, err := agent.Key(folder)
	if err != nil {
		return err
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return err
	}
	if command.AsJSON(c) {
		return p.PrintJSON(agentLine{ID: id.String()})
	}
	_, err = fmt.Fprintln(p.Stdout, id)
	return err
}

func (p agentProgram) allow(c *cli.Context) error {
	return p.change(c, "admitted", func(folder, id string) (agent.Entry, error) {
		return agent.Allow(folder, id, c.String("name"))
	})
}

func (p agentProgram) remove(c *cli.Context) error {
	return p.change(c, "removed", agent.Remove)
}

// change changes the roster by one machine, which the argument names.
func (p agentProgram) change(c *cli.Context, done string, change func(folder, word string) (agent.Entry, error)) error {
	folder, err := agent.Folder(p.Getenv)
	if err != nil {
		return err
	}
	if c.NArg() != 1 {
		return fmt.Errorf("agent %s: one machine is asked for; see: wdlrun agent %[1]s --help", c.Command.Name)
	}
	e, err := change(folder, c.Args().First())
	if err != nil {
		return err
	}
	if command.AsJSON(c) {
		return p.PrintJSON(agentLine{e.ID.String(), e.Name})
	}
	_, err = fmt.Fprintf(p.Stdout, "%s: %s\n", done, strings.TrimSpace(e.ID.String()+" "+e.Name))
	return err
}

func (p agentProgram) list(c *cli.Context) error {
	folder, err := agent.Folder(p.Getenv)
	if err != nil {
		return err
	}
	if c.Args().Present() {
		return fmt.Errorf("agent list: takes no arguments, but got %q", c.Args().First())
	}
	all, err := agent.Machines(folder)
	if errors.Is(err, agent.ErrNotRunning) { // what is known without it
		r, _ := agent.LoadRoster(folder)
		for _, e := range r {
			all = append(all, agent.Machine{Name: e.Name, ID: e.ID.String(), Fault: agent.ErrNotRunning.Error()})
		}
	}
	if err != nil && len(all) == 0 {
		return err
	}
	if command.AsJSON(c) {
		return errors.Join(p.PrintJSON(map[string]any{"machines": all}), err)
	}
	return errors.Join(machineTable(p.Stdout, all), err)
}

func machineTable(to io.Writer, all []agent.Machine) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "name\thost\tcores\tfree\tversion\tjobs\tpeer")
	for _, m := range all {
		name := command.Clean(cmp.Or(m.Name, "-"), 64)
		if m.Here {
			name += " (here)"
		}
		if m.Fault != "" {
			fmt.Fprintf(t, "%s\t%s\t-\t-\t-\t-\t%s\n", name, command.Clean(cmp.Or(m.Host, "-"), 64), m.ID)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%d\t%s\n", name, command.Clean(m.Host, 64), m.Cores, fmt.Sprintf("%.1f GiB", float64(m.Free)/(1<<30)), command.Clean(m.Version, 32), m.Jobs, m.ID)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, m := range all {
		if m.Fault != "" && m.Fault != agent.ErrNotRunning.Error() { // which is the error of the command
			fmt.Fprintf(to, "note: %s: %s\n", command.Clean(cmp.Or(m.Name, m.ID), 64), command.Clean(m.Fault, 300))
		}
	}
	return nil
}
