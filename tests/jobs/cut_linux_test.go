package jobs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// linkRuns is the number of times that TestABrokenLinkIsNamed breaks every link in every way.
var linkRuns = flag.Int("links", 0, "TestABrokenLinkIsNamed: runs of each of its 48 faults; 0 runs a few once")

// mesh simulates hosts by network namespaces. Each pair of hosts has its own link, so that one
// link can be broken alone. Device wdl-J of host I leads to host J.
func mesh(t *testing.T, n int) (hosts []host) {
	t.Helper()
	nsenter, err := exec.LookPath("nsenter")
	if err != nil || os.Geteuid() != 0 {
		t.Skipf("making network namespaces needs root, and nsenter of util-linux (%v)", err)
	}
	var pids []string
	for i := range n {
		pids = append(pids, namespace(t))
		hosts = append(hosts, host{fmt.Sprintf("10.78.0.%d", i+1), []string{nsenter, "-t", pids[i], "-n", "-u"}})
		hosts[i].run(t, "sh", "-c", fmt.Sprintf("echo wdlrun-host-%d >/proc/sys/kernel/hostname; ip link set lo up", i))
	}
	for i := range n {
		for j := range i {
			hosts[i].run(t, "ip", "link", "add", "name", device(j), "type", "veth", "peer", "name", device(i), "netns", pids[j])
			for _, end := range [2][2]int{{i, j}, {j, i}} {
				h, to := hosts[end[0]], end[1]
				// The receiver can drop packets by size only if the sender splits the stream
				// itself.
				h.run(t, "sh", "-c", fmt.Sprintf("ip addr add %[1]s/24 dev %[2]s noprefixroute; ip link set %[2]s up gso_max_segs 1; ip route add %[3]s/32 dev %[2]s src %[1]s", h.ip, device(to), hosts[to].ip))
			}
		}
	}
	return hosts
}

func device(to int) string { return fmt.Sprintf("wdl-%d", to) }

// run runs a command on a host.
func (h host) run(t *testing.T, args ...string) {
	t.Helper()
	all := append(h.enter[:len(h.enter):len(h.enter)], args...)
	if out, err := exec.Command(all[0], all[1:]...).CombinedOutput(); err != nil {
		t.Skipf("this system cannot create such networks: %q: %v: %s", args, err, out)
	}
}

// linkFault is a fault of the link between two hosts. Each host runs one rank.
type linkFault struct {
	lost     string // which packets are lost
	from, to int
	encrypt  bool
	launcher bool // runs the coordinator on a separate host; else rank 0 runs it
}

// Packets that are lost.
const (
	bothWays = "both ways" // all packets
	oneWay   = "one way"   // all packets from one host to the other
	large    = "large"     // those above 600 bytes from one host to the other
)

func (f linkFault) String() string {
	return fmt.Sprintf("%s, %d to %d, encrypt=%t, launcher=%t", f.lost, f.from, f.to, f.encrypt, f.launcher)
}

// harm breaks the link.
func (f linkFault) harm(t *testing.T, from, to host) {
	switch f.lost {
	case bothWays:
		from.run(t, "ip", "link", "set", device(f.to), "down")
	case oneWay: // the receiver ignores frames for another device
		from.run(t, "ip", "neigh", "replace", to.ip, "lladdr", "02:00:00:00:00:01", "dev", device(f.to))
	case large: // the receiver drops packets above its MTU
		to.run(t, "ip", "link", "set", device(f.from), "mtu", "600")
	}
}

// linkFaults returns all faults after which both ranks still reach the coordinator.
func linkFaults() (all []linkFault) {
	for _, lost := range []string{bothWays, oneWay, large} {
		for _, pair := range [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}, {1, 2}, {2, 1}} {
			if lost == bothWays && pair[0] > pair[1] {
				continue
			}
			for _, encrypt := range []bool{false, true} {
				all = append(all, linkFault{lost, pair[0], pair[1], encrypt, true})
				if lost == large || pair[0]*pair[1] > 0 {
					all = append(all, linkFault{lost, pair[0], pair[1], encrypt, false})
				}
			}
		}
	}
	return all
}

// TestABrokenLinkIsNamed drops packets between two of three hosts. Both still reach the
// coordinator. The error names the link and blames no rank.
func TestABrokenLinkIsNamed(t *testing.T) {
	faults := []linkFault{{oneWay, 1, 2, true, false}, {large, 2, 1, false, false}, {bothWays, 0, 1, true, true}, {large, 0, 2, true, false}, {oneWay, 1, 0, false, true}}
	faults = faults[:patient.Size(1, len(faults))]
	if *linkRuns > 0 {
		faults = linkFaults()
	}
	for i := range max(1, *linkRuns) {
		for _, f := range faults {
			t.Run(fmt.Sprintf("%v/%d", f, i), func(t *testing.T) {
				t.Parallel()
				f.test(t)
			})
		}
	}
}

func (f linkFault) test(t *testing.T) {
	dir, hosts := t.TempDir(), mesh(t, 3)
	cmds := f.start(t, dir, hosts)
	t.Cleanup(func() {
		for _, cmd := range cmds {
			if t.Failed() && cmd.ProcessState == nil { // the training did not start
				cmd.Process.Kill()
				t.Logf("%v: %s", cmd.Wait(), cmd.Stderr)
			}
		}
	})
	waitRun(t, dir, cmds...)
	f.harm(t, hosts[f.from], hosts[f.to])
	begin := time.Now()
	var said string
	for r, cmd := range cmds {
		o := end(t, cmd)
		if o.code != 1 {
			t.Errorf("process %d: exit code %d", r, o.code)
		}
		if r == 0 {
			t.Logf("the job ended %.1f s after the fault", time.Since(begin).Seconds())
		}
		said += o.stderr
	}
	a, b := min(f.from, f.to), max(f.from, f.to)
	want := fmt.Sprintf("wdlrun: ranks %d and %d no longer reach each other (host wdlrun-host-%[1]d ↔ host wdlrun-host-%[2]d); both answer the coordinator", a, b)
	if strings.Count(said, want) != 1 || strings.Contains(said, "small messages pass") != (f.lost == large) || strings.Contains(said, "wdlrun: rank ") {
		t.Errorf("want %q once, no blamed rank, and a hint about packet size only if large packets are dropped:\n%s", want, said)
	}
}

// start starts a training with a rank on each host, with a launcher or without one.
func (f linkFault) start(t *testing.T, dir string, hosts []host) []*exec.Cmd {
	flags := []string{"-set", "train.epochs=1000", "-set", "model.hidden=[256]", "-set", "train.global_batch=1024"}
	if !f.launcher {
		return onHosts(t, dir, hosts, 1, f.encrypt, flags...)
	}
	cmd := overHosts(t, dir, hosts, append([]string{fmt.Sprintf("-encrypt=%t", f.encrypt), "train"}, flags...)...)
	fatal.If(t, cmd.Start())
	return []*exec.Cmd{cmd}
}

// overHosts prepares a launcher with a rank on each host.
func overHosts(t *testing.T, dir string, hosts []host, args ...string) *exec.Cmd {
	t.Helper()
	enter, names := "", make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = fmt.Sprintf("wdlrun-host-%d", i)
		enter += fmt.Sprintf("[ $1 = %s ] && exec %s sh -c \"$2\"; ", names[i], strings.Join(h.enter, " "))
	}
	client, _ := fakeSSH(t, enter)
	return command(t, dir, append([]string{"-H", strings.Join(names, ","), "-ssh", client}, args...)...)
}

// TestALossyLinkIsNamed loses one in twenty packets from one of three hosts to another. The job
// continues, and names that link and no other in its output, and in the result.
func TestALossyLinkIsNamed(t *testing.T) {
	t.Parallel()
	dir, hosts := t.TempDir(), mesh(t, 3)
	hosts[2].run(t, "nft", fmt.Sprintf("table inet wdlrun { chain in { type filter hook input priority 0; ip saddr %s meta l4proto tcp numgen random mod 100 < 5 drop; }; }", hosts[1].ip))
	cmds := onHosts(t, dir, hosts, 1, false, "-log-format", "json", "-set", "train.epochs=1000", "-set", "model.hidden=[256]")
	const want = "the link from host wdlrun-host-1 to host wdlrun-host-2 loses packets: "
	inRun := func(name string) string {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", name))
		b, _ := os.ReadFile(strings.Join(found, ""))
		return string(b)
	}
	eventually(t, "the line about the link", func() bool { return strings.Contains(inRun("log-0000.jsonl"), want) })
	fatal.If(t, cmds[0].Process.Signal(os.Interrupt))
	for r, cmd := range cmds {
		if o := end(t, cmd); strings.Count(o.stderr, " loses packets: ") != strings.Count(o.stderr, want) {
			t.Errorf("rank %d: %s", r, o.stderr)
		}
	}
	if b := inRun("result.json"); !strings.Contains(b, `"lossy_links": [`) {
		t.Errorf("the result: %s", b)
	}
}
