package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/hosts/agent"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/internal/machine/ports"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

// remoteOf returns how to start ranks on other hosts.
func remoteOf(c *cli.Context, self string, getenv func(string) string) (*launcher.Remote, error) {
	pass, err := variables(c.StringSlice("x"), os.LookupEnv)
	if err != nil {
		return nil, err
	}
	ships := []string{"auto", "always", "never"}
	if ship := c.String("ship"); !slices.Contains(ships, ship) {
		return nil, fmt.Errorf("-ship %q: choose auto, always or never", ship)
	}
	if len(strings.Fields(c.String("ssh"))) == 0 {
		return nil, errors.New("-ssh is empty: name an ssh client and its flags, such as -ssh \"ssh -p 2222\"")
	}
	if _, err := hosts.ParseFilter(c.String("net")); err != nil {
		return nil, err
	}
	agents, _ := agent.Folder(getenv) // reported for hosts with agents
	return &launcher.Remote{Self: self, Agents: agents, Slurm: !listsHosts(c), Net: c.String("net"), SSH: c.String("ssh"), Ship: c.String("ship"), Pass: pass}, nil
}

// peers returns the hosts of a job, and how their ranks read each other's files.
func peers(m *member.Member, getenv func(string) string) train.Peers {
	return train.Peers{Hosts: memberHosts(m), Addresses: addresses(m.Session.Members()), Key: m.World.Key, Resent: m.Resent, Listen: func() (net.Listener, error) {
		ip, err := m.World.ListenIP()
		if err != nil {
			return nil, err
		}
		within, err := ports.Parse(getenv("WDLRUN_PORTS"))
		if err != nil {
			return nil, err
		}
		return within.Listen(ip)
	}}
}

// listsHosts reports whether flags name the hosts.
func listsHosts(c *cli.Context) bool { return c.String("H") != "" || c.String("hostfile") != "" }

// hostsOf returns the hosts named by flags. Without such flags it returns the hosts of the
// current Slurm allocation. If that is a single node, this machine, and -np is given, it
// returns none: the slots are no limit.
func hostsOf(c *cli.Context) (all []launcher.Host, err error) {
	if listsHosts(c) {
		return launcher.Hosts(c.String("H"), c.String("hostfile"))
	}
	nodes, err := hosts.Allocation(os.Getenv)
	for _, n := range nodes {
		all = append(all, launcher.Host{Name: n.Name, Slots: n.Tasks})
	}
	if len(all) == 1 && all[0].Local() && c.IsSet("np") {
		return nil, err
	}
	return all, err
}

// shareOf parses -map, -bind and -mem.
func shareOf(c *cli.Context) (by launcher.Mapping, each launcher.Each, err error) {
	each.Bind = c.String("bind")
	if binds := []string{cpus.Core, cpus.NUMA, cpus.None}; !slices.Contains(binds, each.Bind) {
		return by, each, fmt.Errorf("-bind %q: choose core, numa or none", each.Bind)
	}
	switch m := c.String("map"); {
	case m == "slot" || m == "node":
		by = launcher.Mapping(m)
	case m != "numa":
		return by, each, fmt.Errorf("-map %q: choose slot, node or numa", m)
	case each.Bind == cpus.None:
		return by, each, errors.New("-map numa has no effect on ranks that are not bound: give -bind core or -bind numa too")
	default:
		by, each.Spread = launcher.BySlot, true
	}
	if text := c.String("mem"); text != "" {
		if each.Memory, err = bytesOf(text); err != nil || each.Memory == 0 {
			return by, each, fmt.Errorf("-mem %q: expected a number of bytes above 0, such as 8g or 500m", text)
		}
	}
	return by, each, nil
}

// variables parses the values of -x.
func variables(given []string, lookup func(string) (string, bool)) (all []string, err error) {
	for _, v := range given {
		name, _, valued := strings.Cut(v, "=")
		if name == "" {
			return nil, fmt.Errorf("-x %q: expected NAME or NAME=VALUE", v)
		}
		if !valued {
			value, set := lookup(name)
			if !set {
				return nil, fmt.Errorf("-x %s: the variable is not set; set it, or give -x %s=VALUE", name, name)
			}
			v = name + "=" + value
		}
		all = append(all, v)
	}
	return all, nil
}

// hostWords are the host flags of a job as given, each after a space; "" on one host.
type hostWords string

// starts returns the beginning of a proposed command for np ranks on the same hosts. The words
// of mpirun, srun and torchrun are unknown, so … takes their place.
func (p *program) starts(np int) string {
	if p.foreign {
		return "… " + called(os.Args[0])
	}
	return fmt.Sprintf("%s -np %d%s", called(os.Args[0]), np, p.hosts)
}

// hostFlags returns the flags that start another job on the hosts of a plan. It repeats -H
// or -hostfile if they lead to this plan, and otherwise writes -H from the plan.
func hostFlags(c *cli.Context, plan launcher.Plan) (flags hostWords) {
	if plan.Remote() == "" {
		return ""
	}
	names := []string{"H", "hostfile"}
	if first, err := place(c); err != nil || plan.Hosts() != first.Hosts() {
		flags, names = hostWords(" -H "+quoted(plan.Hosts())), nil
	}
	for _, name := range append(names, "ssh", "ship", "net", "ports", "wdir", "map", "bind", "mem") {
		if c.IsSet(name) {
			flags += hostWords(" -" + name + " " + quoted(c.String(name)))
		}
	}
	for _, v := range c.StringSlice("x") {
		flags += hostWords(" -x " + quoted(v))
	}
	return flags
}

// addresses returns the listening address of the ranks of each host, nil if there is one
// host.
func addresses(members []rank.Member) map[string]string {
	all := map[string]string{}
	for _, m := range members {
		if ip, _, err := net.SplitHostPort(m.Addr); err == nil {
			all[m.Host] = ip
		}
	}
	if len(all) < 2 {
		return nil
	}
	return all
}

// enter changes to the directory of -wdir, so that relative paths mean the same here and
// in the ranks. If there are other hosts, it may be absent here.
func enter(c *cli.Context) error {
	dir := c.String("wdir")
	if dir == "" {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	err = os.Chdir(dir)
	if plan, bad := place(c); bad == nil && plan.Remote() != "" && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("-wdir: %w", err)
	}
	return c.Set("wdir", dir)
}
