package jobs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/hosts/agent"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// agents are machines a and b, each with its own home directory in folder and an agent on the
// loopback network.
type agents struct {
	folder string
	ids    [2]string
	run    [2]*exec.Cmd // the agents
}

// newAgents starts two agents that admit each other and themselves.
func newAgents(t *testing.T) *agents {
	t.Helper()
	a := &agents{folder: t.TempDir()}
	for i := range a.ids {
		if _, err := agent.Key(a.config(i)); err != nil {
			t.Fatal(err)
		}
		id, err := agent.ID(a.config(i))
		fatal.If(t, err)
		a.ids[i] = id.String()
	}
	for i := range a.ids {
		for j, id := range a.ids {
			if _, err := agent.Allow(a.config(i), id, string(rune('a'+j))); err != nil {
				t.Fatal(err)
			}
		}
	}
	port := fmt.Sprint("127.0.0.1:", freePort(t))
	a.start(t, 0, "-listen", port)
	a.start(t, 1, "-listen", "none", "-bootstrap", "a@"+port)
	eventually(t, "both agents", func() bool {
		all, err := agent.Machines(a.config(0))
		return err == nil && len(all) == 2 && all[1].Name == "b" && all[1].Fault == ""
	})
	return a
}

func (a *agents) home(i int) string { return filepath.Join(a.folder, string(rune('a'+i))) }

func (a *agents) config(i int) string { return filepath.Join(a.home(i), ".config", "wdlrun") }

// command prepares a run of wdlrun on a machine. The environment contains only the home
// directory.
func (a *agents) command(t *testing.T, i int, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, a.home(i), args...)
	cmd.Env = []string{"HOME=" + a.home(i), "PATH=" + os.Getenv("PATH")}
	return cmd
}

// on runs wdlrun on a machine.
func (a *agents) on(t *testing.T, i int, args ...string) outcome {
	t.Helper()
	cmd := a.command(t, i, args...)
	fatal.If(t, cmd.Start())
	return end(t, cmd)
}

// start starts the agent of a machine and stops it when the test ends.
func (a *agents) start(t *testing.T, i int, flags ...string) {
	t.Helper()
	cmd := a.command(t, i, append([]string{"agent", "-mdns=false"}, flags...)...)
	fatal.If(t, cmd.Start())
	a.run[i] = cmd
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
}

// jobs returns the processes of jobs, without the agents.
func (a *agents) jobs() []int {
	return slices.DeleteFunc(below(a.folder), func(pid int) bool {
		return countOf([]int{pid}, "cmdline", "\x00agent\x00") == 1
	})
}

// resident returns the resident memory of a process, in kB.
func resident(t *testing.T, pid int) (kb int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	fatal.If(t, err)
	_, after, _ := strings.Cut(string(b), "VmRSS:")
	_, err = fmt.Sscan(after, &kb)
	fatal.If(t, err)
	return kb
}

// TestAgents trains on two machines, of which one does not listen, and gets the same bits as one
// local rank. The agents use little memory.
func TestAgents(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	flags := append(few(t), "-set", "train.slots=4", "-set", "train.epochs=1")
	one := train(t, a.home(0), 1, flags...)
	o := a.on(t, 0, append([]string{"-H", "@a:1,@b:1", "train", "--json"}, flags...)...)
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	two := parseTrained(t, o)
	if two.WorldSize != 2 || two.AUC != one.AUC || two.LogLoss != one.LogLoss {
		t.Errorf("two agents: %+v, one local rank: %+v", two, one)
	}
	sameModel(t, a.home(0), one, two)
	for _, x := range []struct{ hosts, want string }{
		{"@c", "wdlrun: host @c: no machine of this name is on the roster; try: wdlrun agent list\n"},
		{"@a:2,@b@:1", `"@b@" is not a name or address of a host`},
	} {
		if o := a.on(t, 0, "-H", x.hosts, "true"); o.code != 1 || !strings.Contains(o.stderr, x.want) {
			t.Errorf("%s: exit code %d, want %q\n%s", x.hosts, o.code, x.want, o.stderr)
		}
	}
	if o := a.on(t, 0, "-H", "@b", "-ship", "never", "sh", "-c", "echo on $WDLRUN_HOST; exit 3"); o.code != 3 || !strings.Contains(o.stdout, "on @b\n") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	for _, x := range []struct{ args, want string }{
		{"list", `(?s)\na \(here\) .* 0 +` + a.ids[0] + `\nb  .*` + a.ids[1] + `\n$`},
		{"id -json", `^{"id":"` + a.ids[0] + `"}`},
		{"allow x", "^$"},
		{"lst", "^$"},
		{"remove -json b", `^{"id":"` + a.ids[1] + `","name":"b"}`},
	} {
		if o := a.on(t, 0, append([]string{"agent"}, strings.Fields(x.args)...)...); !regexp.MustCompile(x.want).MatchString(o.stdout) || (o.code == 0) != (o.stderr == "") {
			t.Errorf("agent %s: %v, want %s", x.args, o, x.want)
		}
	}
	for _, cmd := range a.run {
		if kb := resident(t, cmd.Process.Pid); kb < 1000 || kb > 30_000 {
			t.Errorf("an agent uses %d kB of resident memory after its jobs, want at most 30 MB", kb)
		}
		kill(t, cmd.Process.Pid, syscall.SIGTERM)
		if o := end(t, cmd); o.code != 0 {
			t.Errorf("agent: exit code %d\n%s", o.code, o.stderr)
		}
	}
	eventually(t, "the end of all processes", func() bool { return len(below(a.folder)) == 0 })
}

// TestAgentsLeaveNoTrace kills each process of a job in turn. All other processes except the
// agents end, a lost machine is named once, and no socket or temporary file remains.
func TestAgentsLeaveNoTrace(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	kills := []struct {
		name   string
		victim func(a *agents, launcher int) (pid int)
		code   int
		says   string
	}{
		{"agent of the launcher", func(a *agents, _ int) int { return a.run[0].Process.Pid }, 1, "wdlrun: host @"},
		{"agent", func(a *agents, _ int) int { return a.run[1].Process.Pid }, 1, "wdlrun: host @b (ranks 2, 3) was lost"},
		{"host process", func(a *agents, _ int) int { return find(a.ofB(), "cmdline", "\x00__host\x00") }, 1, "wdlrun: host @b (ranks 2, 3) was lost: wdlrun was killed by signal 9"},
		{"launcher", func(_ *agents, launcher int) int { return launcher }, -1, ""},
		{"rank", func(a *agents, _ int) int { return find(a.jobs(), "environ", "WDLRUN_RANK=3\x00") }, 137, "wdlrun: rank 3 (host @b, pid "},
	}
	for _, x := range kills {
		t.Run(x.name, func(t *testing.T) {
			a := newAgents(t)
			cmd := a.command(t, 0, "-H", "@a:2,@b:2", "-ship", "never", "sh", "-c", "setsid sleep 1000 & env -i HOME=$HOME setsid sleep 1000 & exec sleep 1000")
			fatal.If(t, cmd.Start())
			eventually(t, "all ranks", func() bool { return countOf(a.jobs(), "cmdline", "sleep\x001000") == 12 })
			kill(t, x.victim(a, cmd.Process.Pid), syscall.SIGKILL)
			o := end(t, cmd)
			if o.code != x.code || !strings.Contains(o.stderr, x.says) || x.says != "" && strings.Count(o.stderr, "wdlrun: host @b (")+strings.Count(o.stderr, "wdlrun: host @a (")+strings.Count(o.stderr, "wdlrun: rank ") != 1 {
				t.Errorf("exit code %d, want %d and %q once:\n%s", o.code, x.code, x.says, o.stderr)
			}
			eventually(t, "the end of all processes", func() bool { return len(a.jobs()) == 0 })
			left, _ := filepath.Glob(filepath.Join(a.folder, "*", "*", "wdlrun", "*"))
			for _, path := range left {
				if name := filepath.Base(path); name != "host.key" && name != "roster" && name != "bin" {
					t.Errorf("%s was not removed", path)
				}
			}
			sockets, err := os.ReadFile("/proc/net/unix")
			fatal.If(t, err)
			for i, id := range a.ids {
				killed := x.victim(a, 0) == a.run[i].Process.Pid
				if bytes.Contains(sockets, []byte(id)) == killed {
					t.Errorf("agent %d was killed: %t; its socket:\n%s", i, killed, sockets)
				}
			}
		})
	}
}

// ofB returns the processes of jobs on machine b.
func (a *agents) ofB() []int {
	return slices.DeleteFunc(a.jobs(), func(pid int) bool { return countOf([]int{pid}, "environ", "HOME="+a.home(1)+"\x00") == 0 })
}

// localNetwork makes machines a and b with one network.
func localNetwork(t *testing.T) *cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making machines needs root")
	}
	c := &cluster{}
	for i := range 2 {
		pid := machine(t, "host-"+string(rune('a'+i)))
		c.hosts = append(c.hosts, pid)
		if i == 0 {
			c.do(t, pid, "ip link add br0 type bridge; ip addr add 10.80.0.1/24 dev br0; ip link set br0 up; ip link set lo up")
			continue
		}
		c.do(t, c.hosts[0], "ip link add v0 type veth peer name eth0 netns "+pid+"; ip link set v0 master br0 up")
		c.do(t, pid, "ip addr add 10.80.0.2/24 dev eth0; ip link set eth0 up; ip link set lo up; ip route add default via 10.80.0.1")
	}
	c.do(t, c.hosts[0], "ip route add default via 10.80.0.2")
	return c
}

// TestAgentsRecipes runs the commands of the section on agents in docs/running.md on two
// machines of one local network, which find each other by mDNS.
func TestAgentsRecipes(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	c := localNetwork(t)
	b, err := os.ReadFile("../../docs/running.md")
	fatal.If(t, err)
	_, section, _ := strings.Cut(string(b), "\n## On several hosts, by agents\n")
	section, _, _ = strings.Cut(section, "\n## ")
	folder, err := os.MkdirTemp("/var/tmp", "wdlrun-agents-") // machines have a /tmp of their own
	fatal.If(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	on := func(host int, args ...string) *exec.Cmd {
		cmd := command(t, folder, args...)
		cmd.Args = append([]string{"nsenter", "-t", c.hosts[host], "-m", "-n", "-u", "sh", "-c", "cd " + folder + " && exec \"$@\"", "sh"}, append([]string{cmd.Path}, cmd.Args[1:]...)...)
		cmd.Env = append(os.Environ(), "HOME=/root", "XDG_CONFIG_HOME=")
		if cmd.Path, err = exec.LookPath("nsenter"); err != nil {
			t.Skip(err)
		}
		fatal.If(t, cmd.Start())
		return cmd
	}
	id, ids, n := regexp.MustCompile(`12D3\w+`), []string(nil), 0
	for line := range strings.Lines(section) {
		words, ok := strings.CutPrefix(strings.TrimSpace(line), "wdlrun ")
		if !ok || !strings.HasPrefix(line, "    ") {
			continue
		}
		n++
		if id.MatchString(words) {
			words = id.ReplaceAllLiteralString(words, ids[strings.Index("ab", words[len(words)-1:])])
		}
		for host := range c.hosts {
			switch {
			case words == "agent":
				cmd := on(host, words)
				t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
			case words == "agent list":
				eventually(t, "the other machine", func() bool {
					o := end(t, on(host, "agent", "list"))
					return o.code == 0 && !strings.Contains(o.stdout, "note: ")
				})
			case host == 0 || words[0] != '-': // a job starts on any of them
				o := end(t, on(host, strings.Fields(words)...))
				if o.code != 0 {
					t.Fatalf("%s exit code %d\n%s%s", line, o.code, o.stdout, o.stderr)
				}
				if words == "agent id" {
					ids = append(ids, strings.TrimSpace(o.stdout))
				}
			}
		}
	}
	if n != 6 {
		t.Errorf("the section has %d commands, want 6", n)
	}
	differentFiles(t, c, folder, on)
}

// differentFiles trains on machines that do not share all files. Each has its own /tmp. Only the
// /tmp of the launcher contains the configuration.
func differentFiles(t *testing.T, c *cluster, folder string, on func(host int, args ...string) *exec.Cmd) {
	t.Helper()
	const rows = "{ echo click,site; for i in $(seq 200); do echo $((i%2)),s$((i%SITES)); done; }"
	c.do(t, c.hosts[0], strings.ReplaceAll(rows, "SITES", "9")+" | tee /tmp/x.csv >"+folder+"/x.csv; echo '{data: {train: [x.csv], header: true}, label: {field: click}, features: [{field: site, encode: hash}], train: {epochs: 1}}' >/tmp/x.yaml")
	c.do(t, c.hosts[1], strings.ReplaceAll(rows, "SITES", "8")+" >/tmp/x.csv")
	for _, x := range []struct {
		flags string
		code  int
		want  string
	}{
		{"", 0, ""},
		{"-out /tmp/runs", 0, "the hosts do not share /tmp/runs/"},
		{"-set data.train=[/tmp/x.csv]", 1, "/tmp/x.csv has the same size but different content on hosts @b and @a; all hosts need the same files: use a shared file system, or copy the files; reported by rank 1 (host @b, "},
	} {
		o := end(t, on(0, append([]string{"-H", "@a:1,@b:1", "train", "-config", "/tmp/x.yaml"}, strings.Fields(x.flags)...)...))
		if o.code != x.code || !strings.Contains(o.stderr, x.want) {
			t.Errorf("train %s: exit code %d, want %d and %q\n%s", x.flags, o.code, x.code, x.want, o.stderr)
		}
	}
}

// TestRosterWithoutAnAgent: if no agent is running, agent list prints the roster and fails.
func TestRosterWithoutAnAgent(t *testing.T) {
	t.Parallel()
	const b = "12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF"
	dir := t.TempDir()
	agent := func(args ...string) outcome {
		cmd := command(t, dir, append([]string{"agent"}, args...)...)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir)
		fatal.If(t, cmd.Start())
		return end(t, cmd)
	}
	agent("id")
	agent("allow", b, "-name", "b")
	if o := agent("list"); o.code != 1 || !strings.Contains(o.stdout, "\nb ") || !strings.Contains(o.stdout, b) || strings.Count(o.stderr, "no agent is running") != 1 {
		t.Errorf("agent list without an agent: %+v", o)
	}
}
