package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// host is one of two simulated hosts: its address and the command that starts a rank there.
type host struct {
	ip    string
	enter []string
}

// wide returns the flags of a training of at least 8 steps with two buckets of dense gradients.
func wide(t testing.TB, flags ...string) []string {
	return append(append(few(t), "-set", "train.epochs=1", "-set", "model.hidden=[1200]", "-set", "train.global_batch=1024"), flags...)
}

// TestTwoHosts trains on two hosts over encrypted links. The ranks are started as by another
// launcher. The results equal a training on one host, although dense gradients are summed
// between hosts during the backward pass. A killed rank of the other host is named once.
func TestTwoHosts(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	for _, x := range []struct {
		name  string
		hosts func(t *testing.T) [2]host
	}{
		// A rank that dials uses the address 127.0.0.1, and rank 1 dials rank 0.
		{"addresses", func(*testing.T) [2]host { return [2]host{{ip: "127.0.0.2"}, {ip: "127.0.0.1"}} }},
		{"namespaces", namespaces},
	} {
		t.Run(x.name, func(t *testing.T) {
			hosts := x.hosts(t)
			t.Run("results", func(t *testing.T) { sameResults(t, dir, hosts, 1) })
			if x.name == "namespaces" {
				t.Run("results of four", func(t *testing.T) { sameResults(t, dir, hosts, 2) })
			}
			t.Run("killed", func(t *testing.T) { killRemote(t, hosts) })
			if x.name == "namespaces" {
				t.Run("cut off", func(t *testing.T) { cutOff(t, hosts) })
			}
		})
	}
}

// sameResults compares a training on two hosts with one of the same number of ranks on one host.
// With one rank on each host, both sum in the same order. With two ranks on each host, each host
// sums its two terms first (see package collective), so rounding may differ.
func sameResults(t *testing.T, dir string, hosts [2]host, each int) {
	here, cmds := oneHost(t, dir, 2*each), onHosts(t, dir, hosts[:], each, true, wide(t)...)
	var there trained
	for r, cmd := range cmds {
		o := end(t, cmd)
		if o.code != 0 {
			t.Fatalf("rank %d: exit code %d\n%s%s", r, o.code, o.stdout, o.stderr)
		}
		if r == 0 {
			there = parseTrained(t, o)
		}
	}
	if there.Steps != here.Steps || math.Abs(there.TrainLogLoss-here.TrainLogLoss) > 1e-6 || math.Abs(there.AUC-here.AUC) > 1e-4 {
		t.Errorf("two hosts: %+v, one host: %+v", there, here)
	}
	if each == 1 {
		got, want := parts(t, dir, there.RunDir, there.Steps), parts(t, dir, here.RunDir, here.Steps)
		samePart(t, "on two hosts", got, want)
	}
	for run, during := range map[string]bool{there.RunDir: true, here.RunDir: false} {
		b, err := os.ReadFile(filepath.Join(dir, run, "trace-0000.json"))
		if err != nil || bytes.Contains(b, []byte(`"sync, bucket 2"`)) != during {
			t.Errorf("%s: gradients are summed during the backward pass: want %t (%v)", run, during, err)
		}
	}
}

// oneHost returns the result of a training of np ranks on one host. The training runs once for
// dir.
func oneHost(t *testing.T, dir string, np int) (r trained) {
	t.Helper()
	out := fmt.Sprintf("of-%d", np)
	found, _ := filepath.Glob(filepath.Join(dir, out, "*", "result.json"))
	if len(found) == 0 {
		return train(t, dir, np, wide(t, "-out", out)...)
	}
	b, err := os.ReadFile(found[0])
	fatal.If(t, err)
	fatal.If(t, json.Unmarshal(b, &r))
	return r
}

// killRemote kills the last rank during its training.
func killRemote(t *testing.T, hosts [2]host) {
	const victim = 1
	dir := t.TempDir()
	cmds := onHosts(t, dir, hosts[:], 1, true, wide(t, "-set", "train.epochs=1000")...)
	waitRun(t, dir)
	kill(t, cmds[victim].Process.Pid, syscall.SIGKILL)
	var said strings.Builder
	for r, cmd := range cmds {
		o := end(t, cmd)
		if r != victim && o.code != 1 {
			t.Errorf("rank %d: exit code %d\n%s%s", r, o.code, o.stdout, o.stderr)
		}
		said.WriteString(o.stderr)
	}
	if line := fmt.Sprintf("wdlrun: rank %d (host ", victim); strings.Count(said.String(), line) != 1 || strings.Count(said.String(), "wdlrun: rank ") != 1 {
		t.Errorf("want one line that begins with %q:\n%s", line, said.String())
	}
}

// cutOff takes the link down, so no process of one host reaches the other. The coordinator names
// the silent rank. That rank names the host of rank 0.
func cutOff(t *testing.T, hosts [2]host) {
	dir := t.TempDir()
	cmds := onHosts(t, dir, hosts[:], 1, true, wide(t, "-set", "train.epochs=1000")...)
	waitRun(t, dir)
	in := hosts[1].enter
	if out, err := exec.Command(in[0], append(in[1:len(in):len(in)], "ip", "link", "set", "wdl0", "down")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o, verdicts := end(t, cmds[0]), 0
	for line := range strings.Lines(o.stderr) { // other lines warn that the rank is silent
		if strings.HasPrefix(line, "wdlrun: rank 1 (host ") && (strings.Contains(line, " has been silent for ") || strings.Contains(line, " was lost")) {
			verdicts++
		}
	}
	if verdicts != 1 || o.code != 1 {
		t.Errorf("exit code %d; want one verdict on rank 1:\n%s", o.code, o.stderr)
	}
	o = end(t, cmds[1])
	silent := strings.Contains(o.stderr, "rank 0, which hosts the coordinator, has been silent for ") // on a busy machine the limit of 7 s may expire first
	if o.code != 1 || !silent && !strings.Contains(o.stderr, "its host has not answered for ") {
		t.Errorf("rank 1: exit code %d, the loss of rank 0's host is not reported:\n%s", o.code, o.stderr)
	}
}

// onHosts starts a training on hosts, with each ranks on every host.
func onHosts(t *testing.T, dir string, hosts []host, each int, encrypt bool, flags ...string) (cmds []*exec.Cmd) {
	t.Helper()
	meeting := t.TempDir()
	for r := range len(hosts) * each {
		h := hosts[r/each]
		cmd := command(t, dir, append([]string{fmt.Sprintf("-encrypt=%t", encrypt), "train", "--json"}, flags...)...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("WDLRUN_RANK=%d", r), fmt.Sprintf("WDLRUN_SIZE=%d", len(hosts)*each),
			fmt.Sprintf("WDLRUN_LOCAL_RANK=%d", r%each), fmt.Sprintf("WDLRUN_LOCAL_SIZE=%d", each),
			"WDLRUN_JOB="+filepath.Base(meeting), "WDLRUN_RENDEZVOUS="+meeting, "WDLRUN_IP="+h.ip)
		if h.enter != nil {
			cmd.Args = append(h.enter[:len(h.enter):len(h.enter)], cmd.Args...)
			cmd.Path = h.enter[0]
		}
		fatal.If(t, cmd.Start())
		cmds = append(cmds, cmd)
	}
	return cmds
}

// namespaces simulates two hosts: network namespaces with a link between them and their own host
// names. The namespaces end with the processes that hold them.
func namespaces(t *testing.T) (hosts [2]host) {
	t.Helper()
	nsenter, err := exec.LookPath("nsenter")
	if err != nil || os.Geteuid() != 0 {
		t.Skipf("making network namespaces needs root, and nsenter of util-linux (%v)", err)
	}
	do := func(args ...string) {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("this system cannot create network namespaces with a link between them: %q: %v: %s", args, err, out)
		}
	}
	var pids [2]string
	for i := range hosts {
		pids[i] = namespace(t)
		hosts[i] = host{fmt.Sprintf("10.77.0.%d", i+1), []string{nsenter, "-t", pids[i], "-n", "-u"}}
	}
	do("ip", "link", "add", "name", "wdl0", "netns", pids[0], "type", "veth", "peer", "name", "wdl0", "netns", pids[1])
	for i, h := range hosts {
		inside := func(args ...string) { do(append(h.enter[:len(h.enter):len(h.enter)], args...)...) }
		inside("sh", "-c", fmt.Sprintf("echo wdlrun-host-%d >/proc/sys/kernel/hostname", i))
		inside("ip", "addr", "add", h.ip+"/24", "dev", "wdl0")
		inside("ip", "link", "set", "lo", "up")
		inside("ip", "link", "set", "wdl0", "up")
	}
	return hosts
}

// namespace creates a network namespace with its own host name and returns the id of the process
// that holds it during the test.
func namespace(t *testing.T) (pid string) {
	t.Helper()
	holder := exec.Command("unshare", "-n", "-u", "cat")
	in, err := holder.StdinPipe() // closed with this process
	fatal.If(t, err)
	out, err := holder.StdoutPipe()
	fatal.If(t, err)
	if err := holder.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { in.Close(); holder.Wait() })
	fmt.Fprintln(in)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Skipf("this system cannot create network namespaces: unshare -n -u: %v", err)
	}
	return fmt.Sprint(holder.Process.Pid)
}
