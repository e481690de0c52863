package command

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

	"github.com/wdlrun/wdlrun/collective/tcp"
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

// Peers returns the hosts of a job, and how their ranks read each other's files.
func Peers(m *member.Member, getenv func(string) string) train.Peers {
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
		if each.Memory, err = ParseBytes(text); err != nil || each.Memory == 0 {
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

// Starts returns the beginning of a proposed command for np ranks on the same hosts. The words
// of mpirun, srun and torchrun are unknown, so … takes their place.
func (p *Program) Starts(np int) string {
	if p.foreign {
		return "… " + Called(os.Args[0])
	}
	return fmt.Sprintf("%s -np %d%s", Called(os.Args[0]), np, p.hosts)
}

// hostFlags returns the flags that start another job on the hosts of a plan. It repeats -H
// or -hostfile if they lead to this plan, and otherwise writes -H from the plan.
func hostFlags(c *cli.Context, plan launcher.Plan) (flags hostWords) {
	if plan.Remote() == "" {
		return ""
	}
	names := []string{"H", "hostfile"}
	if first, err := Place(c); err != nil || plan.Hosts() != first.Hosts() {
		flags, names = hostWords(" -H "+Quoted(plan.Hosts())), nil
	}
	for _, name := range append(names, "ssh", "ship", "net", "ports", "wdir", "map", "bind", "mem") {
		if c.IsSet(name) {
			flags += hostWords(" -" + name + " " + Quoted(c.String(name)))
		}
	}
	for _, v := range c.StringSlice("x") {
		flags += hostWords(" -x " + Quoted(v))
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

// Enter changes to the directory of -wdir, so that relative paths mean the same here and
// in the ranks. If there are other hosts, it may be absent here.
func Enter(c *cli.Context) error {
	dir := c.String("wdir")
	if dir == "" {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	err = os.Chdir(dir)
	if plan, bad := Place(c); bad == nil && plan.Remote() != "" && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("-wdir: %w", err)
	}
	return c.Set("wdir", dir)
}

// Place checks the launch flags and assigns ranks to hosts.
func Place(c *cli.Context) (plan launcher.Plan, err error) {
	hosts, err := hostsOf(c)
	if err != nil {
		return plan, err
	}
	if np := c.Int("np"); c.IsSet("np") && np < 1 {
		return plan, fmt.Errorf("-np %d: at least one rank is needed", np)
	}
	by, each, err := shareOf(c)
	if err != nil {
		return plan, err
	}
	if plan, err = launcher.Place(c.Int("np"), hosts, c.Bool("oversubscribe"), by); err != nil {
		return plan, err
	}
	plan.Each = each
	if n := c.Int("min-np"); c.IsSet("min-np") && (n < 1 || n > len(plan.Ranks)) {
		return plan, fmt.Errorf("-min-np %d: must be within 1 … %d, the number of ranks", n, len(plan.Ranks))
	}
	if n := c.Int("restarts"); n < 0 {
		return plan, fmt.Errorf("-restarts %d: must not be negative", n)
	}
	if d := c.Duration("restart-wait"); d <= 0 {
		return plan, fmt.Errorf("-restart-wait %v: must be positive, such as 10m", d)
	}
	if err := rank.CheckTimeout(c.Duration("timeout")); err != nil {
		return plan, fmt.Errorf("-timeout: %w, such as 30s", err)
	}
	if t := c.String("transport"); (member.Options{Transport: t}).Validate() != nil {
		return plan, fmt.Errorf("-transport %q: there are %s, %s and %s", t, member.Auto, member.Shared, member.TCP)
	}
	if n := c.Int("streams"); n < 1 || n > tcp.MaxStreams {
		return plan, fmt.Errorf("-streams %d: 1 to %d", n, tcp.MaxStreams)
	}
	if _, err := ports.Parse(c.String("ports")); err != nil {
		return plan, fmt.Errorf("-ports %w", err)
	}
	if c.Bool("encrypt") && c.String("transport") == member.Shared {
		return plan, errors.New("-encrypt encrypts tcp links, and -transport shm uses none: leave one of them out")
	}
	if out := c.String("output"); out != "prefixed" && out != "merged" {
		return plan, fmt.Errorf("-output %q is neither prefixed nor merged", out)
	}
	return plan, nil
}

// memberHosts returns the host of each rank.
func memberHosts(m *member.Member) (all []string) {
	for _, member := range m.Session.Members() {
		all = append(all, member.Host)
	}
	return all
}

// OneEach returns a plan with the first rank of each host and no requirements.
func OneEach(plan launcher.Plan) launcher.Plan {
	var first []int
	for _, r := range plan.Ranks {
		if r.LocalRank == 0 {
			first = append(first, r.Rank)
		}
	}
	one := plan.Only(first)
	one.Each = launcher.Each{}
	return one
}

// Elsewhere reports whether the launch flags of a command place ranks on other hosts.
func Elsewhere(c *cli.Context) bool {
	plan, err := Place(c.Lineage()[len(c.Lineage())-2]) // the last is an empty parent
	return err == nil && plan.Remote() != ""
}

// checkNested returns an error if another launcher started this process as one of several, each of
// which would start a job of its own.
func checkNested(getenv func(string) string) error {
	w, found, err := rank.FromEnv(getenv)
	if err != nil || !found || w.Size == 1 {
		return err
	}
	return fmt.Errorf("this process is rank %d of %d that %s started (%s), and each would start a job of its own: leave out -np, and start programs other than wdlrun's commands without wdlrun; or set WDLRUN_SIZE=1 if that many jobs are meant", w.Rank, w.Size, w.By, w.Named)
}
