package jobs

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// cluster is a network of simulated hosts, each with an sshd. Each host has namespaces with its
// own network, name, /tmp and home. All hosts share the folder.
type cluster struct {
	folder string
	hub    string   // process id of the namespace in which the launcher runs
	hosts  []string // process ids of the namespaces of hosts a, b, c …
	client string   // the ssh command
}

// newCluster starts n hosts with sshd. It skips the test if that is impossible.
func newCluster(t testing.TB, n int) *cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("simulating hosts needs root")
	}
	for _, tool := range []string{"/usr/sbin/sshd", "ssh-keygen", "nsenter", "unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: install openssh-server, util-linux and iproute2", err)
		}
	}
	folder, err := os.MkdirTemp("/var/tmp", "wdlrun-hosts-") // each host has its own /tmp
	fatal.If(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	c := &cluster{folder: folder, client: "ssh -F " + folder + "/config"}
	c.hub = machine(t, "launcher")
	c.do(t, c.hub, "ip link add br0 type bridge; ip addr add 10.78.0.254/24 dev br0; ip link set br0 up; ip link set lo up")
	c.do(t, c.hub, fmt.Sprintf("cd %s; ssh-keygen -q -t ed25519 -N '' -f key; ssh-keygen -q -t ed25519 -N '' -f hostkey; mkdir -p /run/sshd", folder))
	hostKey, err := os.ReadFile(folder + "/hostkey.pub")
	fatal.If(t, err)
	var config, known strings.Builder
	for i := range n {
		name, ip := string(rune('a'+i)), fmt.Sprintf("10.78.0.%d", i+1)
		pid := machine(t, "host-"+name)
		c.hosts = append(c.hosts, pid)
		c.do(t, c.hub, fmt.Sprintf("ip link add v%d type veth peer name eth0 netns %s; ip link set v%[1]d master br0 up", i, pid))
		// Every host has the same second address, as docker0 does.
		c.do(t, pid, "ip addr add "+ip+"/24 dev eth0; ip link set eth0 up; ip link set lo up; ip link add docker0 type veth peer name vd0; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up; ip link set vd0 up")
		fmt.Fprintf(&config, "Host %s\n HostName %s\n", name, ip)
		fmt.Fprintf(&known, "%s %s", ip, hostKey)
		sshd := fmt.Sprintf("ListenAddress %s\nHostKey %s/hostkey\nAuthorizedKeysFile %[2]s/key.pub\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n", ip, folder)
		write(t, folder, "sshd-"+name, sshd)
		server := exec.Command("nsenter", "-t", pid, "-m", "-n", "-u", "sh", "-c", "/usr/sbin/sshd -D -f "+folder+"/sshd-"+name+" & cat; kill $!")
		in, err := server.StdinPipe() // closed with this process
		fatal.If(t, err)
		fatal.If(t, server.Start())
		t.Cleanup(func() { in.Close(); server.Wait() })
	}
	fmt.Fprintf(&config, "Host *\n User root\n IdentityFile %s/key\n IdentitiesOnly yes\n UserKnownHostsFile %[1]s/known\n StrictHostKeyChecking yes\n", folder)
	write(t, folder, "config", config.String())
	write(t, folder, "known", known.String())
	eventually(t, "sshd", func() bool {
		return exec.Command("nsenter", "-t", c.hub, "-n", "ssh", "-F", folder+"/config", "-o", "BatchMode=yes", string(rune('a'+n-1)), "true").Run() == nil
	})
	return c
}

// machine creates the namespaces of one host and returns the process that holds them.
func machine(t testing.TB, name string) (pid string) {
	t.Helper()
	holder := exec.Command("unshare", "-m", "-n", "-u", "sh", "-c", "mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /root && echo "+name+" >/proc/sys/kernel/hostname && echo && exec cat")
	in, err := holder.StdinPipe() // closed with this process
	fatal.If(t, err)
	out, err := holder.StdoutPipe()
	fatal.If(t, err)
	var said bytes.Buffer
	holder.Stderr = &said
	if err := holder.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { in.Close(); holder.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Skipf("this system cannot create namespaces of network, name and mounts: %v: %s", err, said.String())
	}
	return fmt.Sprint(holder.Process.Pid)
}

// do runs a shell script on a host.
func (c *cluster) do(t testing.TB, pid, script string) {
	t.Helper()
	if out, err := exec.Command("nsenter", "-t", pid, "-m", "-n", "-u", "sh", "-ec", script).CombinedOutput(); err != nil {
		t.Skipf("this system cannot create a network of namespaces: %s: %v: %s", script, err, out)
	}
}

// launch prepares wdlrun on the launcher's host, in the shared folder.
func (c *cluster) launch(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return c.inside(t, append([]string{"-ssh", c.client}, args...)...)
}

// inside prepares wdlrun without launch flags on the launcher's host.
func (c *cluster) inside(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, c.folder, args...)
	cmd.Args = append([]string{"nsenter", "-t", c.hub, "-n", "-u"}, cmd.Args...)
	path, err := exec.LookPath("nsenter")
	fatal.If(t, err)
	cmd.Path = path
	return cmd
}

// processes returns the processes of a host, except for its sshd and the process that holds the
// namespaces.
func (c *cluster) processes(host int) (pids []int) {
	own, _ := os.Readlink("/proc/" + c.hosts[host] + "/ns/net")
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range found {
		ns, err := os.Readlink(p + "/ns/net")
		pid, _ := strconv.Atoi(filepath.Base(p))
		args, _ := os.ReadFile(p + "/cmdline")
		if err == nil && ns == own && filepath.Base(p) != c.hosts[host] && alive(pid) && !bytes.Contains(args, []byte("sshd")) && string(args) != "cat\x00" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// maxEndTime is the documented time within which no process of a job is left.
const maxEndTime = 10 * time.Second

// empty waits until the processes of jobs have ended on all hosts, and returns the waiting time.
func (c *cluster) empty(t testing.TB) time.Duration {
	t.Helper()
	begin := time.Now()
	eventually(t, "the end of all processes on all hosts", func() bool {
		for i := range c.hosts {
			if len(c.processes(i)) > 0 {
				return false
			}
		}
		return true
	})
	took := time.Since(begin)
	if took > maxEndTime {
		t.Errorf("the last process ended after %v, want at most %v", took, maxEndTime)
	}
	return took
}

// TestSSHD trains on four hosts with Debian's sshd with the bits of one local rank. Then it ends
// jobs in every way and checks that nothing remains.
func TestSSHD(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	c := newCluster(t, 4)
	t.Run("bits", c.sameBits)
	t.Run("login", c.logins)
	t.Run("bad hosts", c.badHosts)
	t.Run("together", c.together)
	t.Run("ports", c.ports)
	t.Run("interrupt", c.interrupt)
	t.Run("change", c.change)
	kills := []struct {
		name string
		kill func(t *testing.T, c *cluster, launcher int)
		says string
	}{
		{"launcher", func(t *testing.T, c *cluster, launcher int) { kill(t, launcher, syscall.SIGKILL) }, ""},
		{"network", func(t *testing.T, c *cluster, _ int) { c.do(t, c.hub, "ip link set v1 down") }, "wdlrun: host b ("},
		{"ssh", func(t *testing.T, c *cluster, launcher int) {
			all, _ := filepath.Glob("/proc/[0-9]*")
			var pids []int
			for _, p := range all {
				if pid, err := strconv.Atoi(filepath.Base(p)); err == nil && countOf([]int{pid}, "stat", fmt.Sprintf(") S %d ", launcher)) == 1 {
					pids = append(pids, pid)
				}
			}
			kill(t, find(pids, "cmdline", "\x00b\x00exec sh"), syscall.SIGKILL)
		}, "wdlrun: host b (ranks 2, 3) was lost"},
		{"host process", func(t *testing.T, c *cluster, _ int) {
			kill(t, find(c.processes(1), "cmdline", "\x00__host\x00"), syscall.SIGKILL)
		}, "wdlrun: host b (ranks 2, 3) was lost"},
		{"rank", func(t *testing.T, c *cluster, _ int) {
			kill(t, find(c.processes(1), "environ", "WDLRUN_RANK=3\x00"), syscall.SIGKILL)
		}, "wdlrun: rank 3 (host b, pid "},
	}
	// TestHostsLeaveNoTrace kills the same processes, with a client other than ssh.
	for _, x := range kills {
		t.Run(x.name, func(t *testing.T) { c.killed(t, x.kill, x.says) })
	}
}

// sameBits compares a training on four hosts with one rank on this machine.
func (c *cluster) sameBits(t *testing.T) {
	flags := append([]string{"train", "--json"}, append(few(t), "-set", "train.slots=8", "-set", "train.epochs=1", "-set", "train.global_batch=1024")...)
	o := run(t, c.folder, flags...)
	if o.code != 0 {
		t.Fatal(o)
	}
	one := parseTrained(t, o)
	cmd := c.launch(t, append([]string{"-H", "a:2,b:2,c:2,d:2"}, flags...)...)
	fatal.If(t, cmd.Start())
	if o = end(t, cmd); o.code != 0 {
		t.Fatal(o)
	}
	eight := parseTrained(t, o)
	if eight.WorldSize != 8 || eight.AUC != one.AUC || eight.LogLoss != one.LogLoss {
		t.Errorf("four hosts: %+v, one rank: %+v", eight, one)
	}
	sameModel(t, c.folder, one, eight)
	if want := "4 hosts exchange over 10.78.0.0/24: a 10.78.0.1, b 10.78.0.2, c 10.78.0.3, d 10.78.0.4"; !strings.Contains(o.stderr, want) {
		t.Errorf("%q is missing:\n%s", want, o.stderr)
	}
	b, err := os.ReadFile(filepath.Join(c.folder, eight.RunDir, "result.json"))
	if err != nil || !bytes.Contains(b, []byte(`"d":"10.78.0.4"`)) && !bytes.Contains(b, []byte(`"d": "10.78.0.4"`)) {
		t.Errorf("result.json does not contain the addresses: %s (%v)", b, err)
	}
	c.empty(t)
}

// logins checks that a failed login gives a one-line error that names the host.
func (c *cluster) logins(t *testing.T) {
	known, err := os.ReadFile(c.folder + "/known")
	fatal.If(t, err)
	for _, x := range []struct{ name, hosts, known, flag, want string }{
		{"a changed key", "a,b", strings.Replace(string(known), "10.78.0.2 ", "10.78.0.9 ", 1) + "10.78.0.2 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDvBGWDDpJ5WyZfCYbtnYIJq0pYqVHHOnJ7hRx7F4T5u\n", "", "wdlrun: host b: its host key has changed: "},
		{"an unknown key", "a,b", strings.Replace(string(known), "10.78.0.2 ", "10.78.0.9 ", 1), "", "wdlrun: host b: its host key is unknown: "},
		{"an unknown host", "a,z", string(known), "", "wdlrun: host z: its name is unknown: ssh: Could not resolve hostname z"},
		{"no permission", "a", string(known), " -l nosuchuser", "wdlrun: host a: login failed: nosuchuser@10.78.0.1: Permission denied (publickey"},
		{"no server", "a", string(known), " -p 2222", "wdlrun: host a: no ssh server answers there: ssh: connect to host 10.78.0.1 port 2222: Connection refused; start sshd there, or name its port: -ssh \"ssh -p 2222\""},
		{"another network", "a,b", string(known), "", "host a has no address that -net allows, but 10.78.0.1 (eth0), 172.17.0.1 (docker0), 127.0.0.1 (lo)"},
		{"docker0 alone", "a,b", string(known), "", "from b to host a at 172.17.0.1: "},
	} {
		write(t, c.folder, "known", x.known)
		args := []string{"-H", x.hosts, "-net", map[string]string{"another network": "192.168.0.0/16", "docker0 alone": "docker0"}[x.name], "true"}
		if x.flag != "" {
			args = append([]string{"-ssh", c.client + x.flag}, args...)
		}
		cmd := c.launch(t, args...)
		fatal.If(t, cmd.Start())
		if o := end(t, cmd); o.code != 1 || !strings.Contains(o.stderr, x.want) {
			t.Errorf("%s: exit code %d, want %q:\n%s", x.name, o.code, x.want, o.stderr)
		}
	}
	write(t, c.folder, "known", string(known))
	c.empty(t)
}

// badHosts prepares host b so that it cannot run a job, or only by another way. The error is one
// line that names b and the remedy. No rank has started.
func (c *cluster) badHosts(t *testing.T) {
	bin, err := wdlrun()
	fatal.If(t, err)
	program, err := os.ReadFile(bin)
	fatal.If(t, err)
	own, started := filepath.Join(c.folder, "wdlrun"), filepath.Join(c.folder, "started")
	fatal.If(t, os.WriteFile(own, program, 0o700))
	fatal.If(t, os.WriteFile(own+".old", bytes.ReplaceAll(program, []byte("the launcher is gone"), []byte("the launcher is away")), 0o700))
	shell, err := os.ReadFile("/bin/sh")
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(filepath.Join(c.folder, "dynamic"), bytes.ReplaceAll(shell, []byte("/ld-linux"), []byte("/ld-wrong")), 0o700))
	c.do(t, c.hosts[0], "mkdir /tmp/work")
	home := func(options string) [2]string {
		return [2]string{"mount -t tmpfs -o " + options + " tmpfs /root", "umount /root"}
	}
	bashrc := func(line string) [2]string {
		return [2]string{"echo '" + line + "' >/root/.bashrc", "rm /root/.bashrc"}
	}
	for _, x := range []struct {
		name    string
		prepare [2]string // of host b, and how to undo it
		flags   string
		want    string // "": the job runs
	}{
		{"noexec", home("noexec"), "", "wdlrun cannot be executed there: .*; if the file system is mounted noexec, install the same wdlrun elsewhere and give -ship never"},
		{"full", home("size=1m"), "", "its disk is full: .*No space left on device; make room in ~/.cache/wdlrun there, or "},
		{"read-only", home("ro"), "", "wdlrun cannot make ~/.cache/wdlrun/bin there: .*Read-only file system; make ~/.cache/wdlrun/bin writable there, or "},
		{"no directory", [2]string{"true", "true"}, "-wdir /tmp/work", "there is no working directory /tmp/work; make it there, or name another one with -wdir"},
		{"another build", [2]string{"mount --bind " + own + ".old " + own, "umount " + own}, "-ship never", own + " there is another build of wdlrun than the launcher: copy the launcher's there, or leave -ship never out"},
		{"no loader", [2]string{"true", "true"}, "-wdir " + c.folder + " ./dynamic", "host a: " + c.folder + "/dynamic needs a C library that its machine lacks: stat /.*/ld-wrong"},
		{"prints without end", bashrc("yes"), "", `its shell prints more than 1048576 bytes when it starts, such as "y\\n": its start-up files \(.bashrc\) must print nothing`},
		{"prints a line", bashrc("echo welcome; echo warning >&2"), "", ""},
	} {
		c.do(t, c.hosts[1], x.prepare[0])
		flags := append([]string{"-H", "a,b"}, strings.Fields(x.flags)...)
		if x.name != "no loader" {
			flags = append(flags, "touch", started)
		}
		cmd := c.launch(t, flags...)
		cmd.Args[slices.Index(cmd.Args, bin)] = own
		o := c.end(t, cmd)
		c.empty(t)
		c.do(t, c.hosts[1], x.prepare[1])
		ran := os.Remove(started) == nil
		if x.want == "" {
			if o.code != 0 || !ran {
				t.Errorf("%s: %+v", x.name, o)
			}
			continue
		}
		want := "^wdlrun: host b: " + x.want
		if x.name == "no loader" { // on all hosts
			want = "^wdlrun: " + x.want
		}
		if o.code == 0 || ran || !regexp.MustCompile(want).MatchString(o.stderr) || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, ranks started: %t, want one line %q:\n%s", x.name, o.code, ran, want, o.stderr)
		}
	}
}

// together runs jobs on the same hosts at once, to which each must send the binary.
func (c *cluster) together(t *testing.T) {
	for _, pid := range c.hosts[:2] {
		c.do(t, pid, "rm -rf /root/.cache")
	}
	cmds := make([]*exec.Cmd, 3)
	for i := range cmds {
		cmds[i] = c.launch(t, "-H", "a:2,b:2", "sh", "-c", fmt.Sprintf("echo job %d on $WDLRUN_HOST", i))
		fatal.If(t, cmds[i].Start())
	}
	for i, cmd := range cmds {
		o := end(t, cmd)
		if line := fmt.Sprintf("job %d on ", i); o.code != 0 || strings.Count(o.stdout, line+"a\n") != 2 || strings.Count(o.stdout, line+"b\n") != 2 {
			t.Errorf("job %d: %+v", i, o)
		}
	}
	c.empty(t)
	for _, pid := range c.hosts[:2] {
		if files, err := os.ReadDir("/proc/" + pid + "/root/root/.cache/wdlrun/bin"); err != nil || len(files) != 1 {
			t.Errorf("%v, %v, want one binary", files, err)
		}
	}
}

// ports trains with a firewall on every host that drops packets to all ports except sshd's and the
// ports of -ports.
func (c *cluster) ports(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skipf("%v: install nftables", err)
	}
	for _, pid := range c.hosts[:2] {
		c.do(t, pid, "nft add table ip wall; nft add chain ip wall in { type filter hook input priority 0 \\; policy drop \\; }; "+
			"nft add rule ip wall in ct state established accept; nft add rule ip wall in iif lo accept; nft add rule ip wall in tcp dport { 22, 20000-20001 } accept")
	}
	defer func() {
		for _, pid := range c.hosts[:2] {
			c.do(t, pid, "nft delete table ip wall")
		}
	}()
	for _, x := range []struct {
		ports string
		code  int
		says  string
	}{
		{"20000-20001", 0, "2 hosts exchange over 10.78.0.0/24"},
		{"20002-20003", 1, "to host a at 10.78.0.1: no answer"},
	} {
		cmd := c.launch(t, "-H", "a:2,b:2", "-ports", x.ports, "train", "-set", "train.epochs=1", "-set", "train.global_batch=1024")
		fatal.If(t, cmd.Start())
		if o := end(t, cmd); o.code != x.code || !strings.Contains(o.stderr, x.says) {
			t.Errorf("-ports %s: exit code %d, want %d and %q:\n%s%s", x.ports, o.code, x.code, x.says, o.stdout, o.stderr)
		}
	}
}

// interrupt stops a training with SIGINT. It writes a checkpoint and ends on every host.
func (c *cluster) interrupt(t *testing.T) {
	cmd := c.launch(t, "-H", "a:2,b:2", "train", "-out", "interrupted", "-set", "train.epochs=1000")
	fatal.If(t, cmd.Start())
	eventually(t, "steps", func() bool {
		found, _ := filepath.Glob(filepath.Join(c.folder, "interrupted", "*", "metrics.jsonl"))
		return len(found) > 0
	})
	kill(t, cmd.Process.Pid, syscall.SIGINT)
	o := end(t, cmd)
	saved, _ := filepath.Glob(filepath.Join(c.folder, "interrupted", "2*", "checkpoints", "step-*"))
	if o.code != 130 || len(saved) == 0 {
		t.Errorf("exit code %d, checkpoints %q\n%s%s", o.code, saved, o.stdout, o.stderr)
	}
	c.empty(t)
}

// change moves a training from host a to b and c. No process remains on a.
func (c *cluster) change(t *testing.T) {
	cmd := c.launch(t, append([]string{"-H", "a:2", "train", "-out", "changed"}, append(few(t), "-set", "train.epochs=100000")...)...)
	fatal.If(t, cmd.Start())
	var found []string
	eventually(t, "steps", func() bool {
		found, _ = filepath.Glob(filepath.Join(c.folder, "changed", "*", "metrics.jsonl"))
		return len(found) > 0
	})
	for _, x := range [][]string{{"add", "the training continues with 4 ranks on a:2,b:1,c:1\n", "b", "c"}, {"drop", "the training continues with 2 ranks on b:1,c:1\n", "a"}} {
		ask := c.inside(t, append([]string{"hosts", x[0], filepath.Dir(found[0])}, x[2:]...)...)
		fatal.If(t, ask.Start())
		if o := end(t, ask); o.stdout != x[1] {
			t.Errorf("%q: %+v", x, o)
		}
	}
	eventually(t, "the end of all processes on host a", func() bool { return len(c.processes(0)) == 0 })
	kill(t, cmd.Process.Pid, syscall.SIGINT)
	o := end(t, cmd)
	if want := "wdlrun: 2 hosts exchange over 10.78.0.0/24: b 10.78.0.2, c 10.78.0.3\n"; o.code != 130 || !strings.Contains(o.stderr, want) {
		t.Errorf("exit code %d, no %q in\n%s%s", o.code, want, o.stdout, o.stderr)
	}
	c.empty(t)
}

// used returns the sockets of all hosts that listen or have a name, and the temporary files of the
// hosts and of the launcher. Binaries that were sent stay on a host.
func (c *cluster) used(t *testing.T) (found []string) {
	sent := regexp.MustCompile(`/\.cache/wdlrun/bin/[0-9a-f]{64}$`)
	folders := []string{c.folder + "/tmp"}
	for _, pid := range append([]string{c.hub}, c.hosts...) {
		proc := "/proc/" + pid
		if pid != c.hub {
			folders = append(folders, proc+"/root/tmp", proc+"/root/root")
		}
		for _, kind := range []string{"tcp", "tcp6", "udp", "udp6", "unix"} {
			b, err := os.ReadFile(proc + "/net/" + kind)
			fatal.If(t, err)
			for line := range strings.Lines(string(b)) {
				switch words := strings.Fields(line); {
				case words[0] == "sl", words[0] == "Num":
				case kind == "unix" && len(words) == 8:
					found = append(found, fmt.Sprintf("host %s: unix %s", pid, words[7]))
				case kind[:3] == "udp", kind[:3] == "tcp" && words[3] == "0A":
					found = append(found, fmt.Sprintf("host %s: %s %s", pid, kind, words[1]))
				}
			}
		}
	}
	for _, folder := range folders {
		fatal.If(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !sent.MatchString(path) {
				found = append(found, path)
			}
			return err
		}))
	}
	slices.Sort(found)
	return found
}

// killed kills a process of a job of four ranks on two hosts, or cuts a host off. After at most
// maxEndTime no process is left, also none of its own session and environment whose parent has
// ended, and no socket or temporary file.
func (c *cluster) killed(t *testing.T, victim func(t *testing.T, c *cluster, launcher int), says string) {
	fatal.If(t, os.MkdirAll(c.folder+"/tmp", 0o700))
	before := c.used(t)
	cmd := c.launch(t, "-H", "a:2,b:2", "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & (env -i setsid sleep 1000 >/dev/null 2>&1 &); exec sleep 1000")
	cmd.Env = append(os.Environ(), "TMPDIR="+c.folder+"/tmp")
	fatal.If(t, cmd.Start())
	eventually(t, "all ranks", func() bool {
		return countOf(c.processes(0), "cmdline", "sleep\x001000") == 6 && countOf(c.processes(1), "cmdline", "sleep\x001000") == 6
	})
	begin := time.Now()
	victim(t, c, cmd.Process.Pid)
	o := end(t, cmd)
	if strings.Count(o.stderr, says) < 1 || says != "" && strings.Count(o.stderr, "wdlrun: host b (")+strings.Count(o.stderr, "wdlrun: rank ") != 1 {
		t.Errorf("exit code %d; want one verdict %q:\n%s", o.code, says, o.stderr)
	}
	ended, left := time.Since(begin), c.empty(t)
	c.do(t, c.hub, "ip link set v1 up")
	t.Logf("the job ended after %v, the last process %v later", ended.Round(10*time.Millisecond), left.Round(10*time.Millisecond))
	if ended+left > maxEndTime {
		t.Errorf("the last process ended %v after the fault, want at most %v", ended+left, maxEndTime)
	}
	if after := c.used(t); !slices.Equal(before, after) {
		t.Errorf("sockets and files before the job: %q\nand after it: %q", before, after)
	}
}
