package jobs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// fakeSSH returns an ssh client whose hosts are folders under homes. Each host has a home
// directory and no other environment. script runs instead of a login shell, with the host in $1
// and the command in $2.
func fakeSSH(t *testing.T, script string) (client, homes string) {
	t.Helper()
	homes = t.TempDir()
	client = filepath.Join(homes, "client")
	text := fmt.Sprintf(`#!/bin/sh
while [ $# -gt 2 ]; do shift; done
HOME=%s/$1
mkdir -p $HOME && cd $HOME || exit 255
set -- "$1" "$2"
exec env -i HOME=$HOME PATH=$PATH sh -c '%s' login "$1" "$2"
`, homes, script)
	write(t, homes, "client", text)
	fatal.If(t, os.Chmod(client, 0o700))
	return client, homes
}

const login = `exec sh -c "$2"`

// TestHosts trains on two hosts with the bits of one local rank and leaves no process.
func TestHosts(t *testing.T) {
	t.Parallel()
	client, homes := fakeSSH(t, `echo welcome to $1; `+login)
	dir := t.TempDir()
	flags := append(few(t), "-set", "train.slots=4", "-set", "train.epochs=1")
	one := train(t, dir, 1, flags...)
	o := run(t, dir, append([]string{"-H", "a,b", "-ssh", client, "train", "--json"}, flags...)...)
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	two := parseTrained(t, o)
	if two.WorldSize != 2 || two.AUC != one.AUC || two.LogLoss != one.LogLoss {
		t.Errorf("two hosts: %+v, one rank: %+v", two, one)
	}
	sameModel(t, dir, one, two)
	eventually(t, "the end of all processes", func() bool { return len(below(homes)) == 0 })
}

// TestHostsProgram starts a program of the user on hosts, with the requested environment and
// working directory. The program is only sent if the host lacks it or with -ship always.
func TestHostsProgram(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	client, homes := fakeSSH(t, login)
	dir, work := t.TempDir(), t.TempDir()
	write(t, dir, "prog", "#!/bin/sh\nread line\necho $0 $1 $WDLRUN_RANK $WDLRUN_HOST $COLOUR $SHAPE $NCCL_DEBUG $GOMEMLIMIT $GOMAXPROCS $PRIVATE $line $PWD \"$2\"\n")
	fatal.If(t, os.Chmod(filepath.Join(dir, "prog"), 0o755))
	cmd := command(t, dir, "-H", "a,b", "-ssh", client, "-wdir", work, "-x", "COLOUR=blue", "-x", "SHAPE", "-output", "merged", dir+"/prog", "one", "it's \"two\" $HOME")
	cmd.Env = append(os.Environ(), "SHAPE=round", "NCCL_DEBUG=INFO", "GOMEMLIMIT=9GiB", "GOMAXPROCS=3", "PRIVATE=secret")
	cmd.Stdin = strings.NewReader("typed\n")
	fatal.If(t, cmd.Start())
	o := end(t, cmd)
	for r, host := range []string{"a", "b"} {
		typed := " typed"
		if r > 0 {
			typed = ""
		}
		want := fmt.Sprintf(" one %d %s blue round INFO 9GiB 3%s %s it's \"two\" $HOME\n", r, host, typed, work)
		if strings.Count(o.stdout, want) != 1 {
			t.Errorf("want %q once in:\n%s%s", want, o.stdout, o.stderr)
		}
	}
	if sent, err := filepath.Glob(filepath.Join(homes, "*", ".cache", "wdlrun", "programs", "*", "prog")); len(sent) != 0 || err != nil {
		t.Errorf("%q were sent, although the hosts have the program", sent) // one disk serves all hosts here
	}
	o = run(t, dir, "-H", "a,b", "-ssh", client, "-ship", "always", dir+"/prog", "one")
	if sent, err := filepath.Glob(filepath.Join(homes, "*", ".cache", "wdlrun", "programs", "*", "prog")); o.code != 0 || len(sent) != 2 || err != nil {
		t.Errorf("exit code %d; %q were sent\n%s%s", o.code, sent, o.stdout, o.stderr)
	}
	const long = 1_000_000 // bytes of a line; the launcher splits it
	o = run(t, dir, "-H", "a,b", "-ssh", client, "sh", "-c", fmt.Sprintf(`head -c %d /dev/zero | tr "\0" x; echo; echo end of $WDLRUN_HOST`, long))
	if o.code != 0 || strings.Count(o.stdout, "x") != 2*long || !strings.Contains(o.stdout, "\n[0] end of a\n") || !strings.Contains(o.stdout, "\n[1] end of b\n") {
		t.Errorf("exit code %d, %d bytes of long lines\n%s", o.code, strings.Count(o.stdout, "x"), o.stderr)
	}
}

// below returns the processes of the hosts below a folder: those whose executable, arguments or
// environment contain its path.
func below(folder string) (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range found {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil || pid == os.Getpid() || !alive(pid) {
			continue
		}
		exe, _ := os.Readlink(p + "/exe")
		args, _ := os.ReadFile(p + "/cmdline")
		env, _ := os.ReadFile(p + "/environ")
		if strings.Contains(exe, folder) || strings.Contains(string(args), folder) || strings.Contains(string(env), folder) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestHostsLeaveNoTrace kills each process of a job in turn. All other processes end, and a lost
// host is named once.
func TestHostsLeaveNoTrace(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	client, homes := fakeSSH(t, `[ $1 = a ] || sleep 0.5; sh -c "$2"; exit $?`)
	for _, x := range []struct {
		name   string
		victim func(launcher int, of []int) (pid int)
		code   int
		says   string
	}{
		{"launcher", func(launcher int, _ []int) int { return launcher }, -1, ""},
		{"ssh", func(launcher int, all []int) int { return find(all, "cmdline", "login\x00a\x00") }, 1, "wdlrun: host a (ranks 0, 1) was lost"},
		{"host process", func(_ int, all []int) int { return find(hostA(all), "cmdline", "\x00__host\x00") }, 1, "wdlrun: host a (ranks 0, 1) was lost"},
		{"rank", func(_ int, all []int) int { return rankIn(all, 1) }, 137, "wdlrun: rank 1 (host a, pid "},
		{"guard", func(_ int, all []int) int { return find(all, "cmdline", "\x00__guard\x00") }, 0, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			cmd := command(t, t.TempDir(), "-H", "a:2,b:2", "-ssh", client, "sh", "-c", "setsid sleep 1000 & env -i HOME=$HOME setsid sleep 1000 & sleep 3; [ $WDLRUN_RANK = 9 ] || exec sleep ${LONG:-1000}")
			if x.name == "guard" {
				cmd.Args = append([]string{cmd.Args[0], "-x", "LONG=3"}, cmd.Args[1:]...)
			}
			fatal.If(t, cmd.Start())
			eventually(t, "all ranks", func() bool { return countOf(below(homes), "environ", "WDLRUN_SIZE=4\x00") >= 12 })
			kill(t, x.victim(cmd.Process.Pid, below(homes)), syscall.SIGKILL)
			o := end(t, cmd)
			if o.code != x.code || strings.Count(o.stderr, x.says) < 1 || x.says != "" && strings.Count(o.stderr, "wdlrun: host a (")+strings.Count(o.stderr, "wdlrun: rank ") != 1 {
				t.Errorf("exit code %d, want %d and %q once:\n%s", o.code, x.code, x.says, o.stderr)
			}
			eventually(t, "the end of all processes", func() bool { return len(below(homes)) == 0 })
		})
	}
}

// hostA returns the processes with the home directory of host a.
func hostA(pids []int) (those []int) {
	for _, pid := range pids {
		if countOf([]int{pid}, "environ", "/001/a\x00") == 1 {
			those = append(those, pid)
		}
	}
	return those
}

// find returns the first process whose file in /proc contains a string, or 0.
func find(pids []int, file, text string) int {
	for _, pid := range pids {
		if countOf([]int{pid}, file, text) == 1 {
			return pid
		}
	}
	return 0
}

// rankIn returns the process of a rank, whose children have its environment too, or 0.
func rankIn(pids []int, rank int) int {
	text := fmt.Sprintf("WDLRUN_RANK=%d\x00", rank)
	for _, pid := range pids {
		if countOf([]int{pid}, "environ", text) == 1 && countOf([]int{parent(pid)}, "environ", text) == 0 {
			return pid
		}
	}
	return 0
}

// parent returns the parent of a process, or 0.
func parent(pid int) (id int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, found := strings.Cut(string(b), "\nPPid:"); found {
		fmt.Sscan(rest, &id)
	}
	return id
}

// countOf counts the processes whose file in /proc contains a string.
func countOf(pids []int, file, text string) (n int) {
	for _, pid := range pids {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)); err == nil && strings.Contains(string(b), text) {
			n++
		}
	}
	return n
}

// TestHostsRecipes runs the commands of the section on ssh in docs/running.md.
func TestHostsRecipes(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	b, err := os.ReadFile("../../docs/running.md")
	fatal.If(t, err)
	_, section, _ := strings.Cut(string(b), "\n## On several hosts, by ssh\n")
	section, _, _ = strings.Cut(section, "\n## ")
	client, _ := fakeSSH(t, login)
	bin, err := wdlrun()
	fatal.If(t, err)
	dir, n := t.TempDir(), 0
	write(t, dir, "hosts", "a slots=2\nb slots=2\n")
	adult, err := os.ReadFile("../../internal/config/adult.yaml")
	fatal.If(t, err)
	write(t, dir, "ctr.yaml", string(adult))
	for line := range strings.Lines(section) {
		command, ok := strings.CutPrefix(line, "    wdlrun -")
		if !ok {
			continue
		}
		n++
		if runs, _ := filepath.Glob(filepath.Join(dir, "runs", "2*")); len(runs) > 0 { // the names are times, so the last one is the newest
			command = strings.ReplaceAll(command, "RUN", filepath.Join("runs", filepath.Base(runs[len(runs)-1])))
		}
		cmd := exec.Command("sh", "-c", bin+" -ssh "+client+" -"+command)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s%v\n%s", line, err, out)
		}
	}
	if n < 4 {
		t.Errorf("only %d commands found", n)
	}
}

// TestHostsAgain: after the loss of a host the job starts again on it when it answers, and ends if it
// never does. Refused logins do not count as restarts. With -min-np it starts again without the host.
func TestHostsAgain(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	// After the first login host b refuses three logins.
	refuse := `echo "ssh: connect to host $1 port 22: Connection refused" >&2; exit 255; `
	client, _ := fakeSSH(t, `if [ $1 = b ]; then echo >> logins; n=$(wc -l < logins); if [ $n -gt 1 ] && [ $n -lt 5 ]; then `+refuse+`fi; fi; `+login)
	job := `[ $WDLRUN_GENERATION$WDLRUN_RANK = 02 ] && kill -9 $PPID; [ $WDLRUN_GENERATION = 0 ] && exec sleep 1000; echo $WDLRUN_RANK of $WDLRUN_SIZE on $WDLRUN_HOST`
	o := run(t, t.TempDir(), "-H", "a:2,b:2", "-ssh", client, "-restarts", "1", "sh", "-c", job)
	const lost, waits = "wdlrun: host b was lost; 4 ranks start again in ", "wdlrun: host b does not answer (no ssh server answers there: ssh: connect to host b port 22: Connection refused; "
	for _, want := range []string{"wdlrun: host b (ranks 2, 3) was lost: ", "wdlrun: check that the host is up", lost, waits} {
		if strings.Count(o.stderr, want) != 1 {
			t.Errorf("want %q once in:\n%s", want, o.stderr)
		}
	}
	if o.code != 0 || !strings.Contains(o.stdout, "3 of 4 on b\n") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	client, _ = fakeSSH(t, `if [ $1 = b ] && [ -e first ]; then `+refuse+`fi; touch first; `+login)
	o = run(t, t.TempDir(), "-H", "a:2,b:2", "-ssh", client, "-restarts", "3", "-restart-wait", "1s", "sh", "-c", job)
	for _, want := range []string{lost, waits, "wdlrun: host b (2 ranks) was lost: no ssh server answers there: ", "wdlrun: host b does not answer: the job has waited for 1s to start again (-restart-wait)\n"} {
		if strings.Count(o.stderr, want) != 1 {
			t.Errorf("want %q once in:\n%s", want, o.stderr)
		}
	}
	if o.code != 1 {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	client, _ = fakeSSH(t, login)
	o = run(t, t.TempDir(), "-H", "a:2,b:2", "-ssh", client, "-restarts", "1", "-min-np", "2", "sh", "-c", job)
	if o.code != 0 || !strings.Contains(o.stdout, "1 of 2 on a\n") || !strings.Contains(o.stderr, "wdlrun: host b was lost and is left out; 2 ranks start again in ") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// TestHostsExcluded: a host that is lost three times is excluded. Its ranks move to a host with
// free slots.
func TestHostsExcluded(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	client, _ := fakeSSH(t, login)
	job := `[ $WDLRUN_HOST$WDLRUN_LOCAL_RANK = b0 ] && kill -9 $PPID; [ $WDLRUN_GENERATION -lt 3 ] && exec sleep 1000; echo $WDLRUN_RANK of $WDLRUN_SIZE on $WDLRUN_HOST`
	o := run(t, t.TempDir(), "-H", "a:2,b:2,c:2", "-np", "4", "-ssh", client, "-restarts", "3", "sh", "-c", job)
	if o.code != 0 || !strings.Contains(o.stdout, "3 of 4 on c\n") || strings.Count(o.stderr, "wdlrun: host b was lost 3 times within 10m0s and is excluded: its ranks move to other hosts; 4 ranks start again in ") != 1 {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// TestHostsFiles trains on two hosts, each with its own working directory. Host b needs no
// configuration. It needs the same data files as host a.
func TestHostsFiles(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	client, homes := fakeSSH(t, login)
	out := t.TempDir()
	bin, err := wdlrun()
	fatal.If(t, err)
	records := "click,site\n" + strings.Repeat("1,a\n0,b\n", 64)
	for _, x := range []struct{ name, b, want string }{
		{"the same", records, ""},
		{"other content", strings.Replace(records, "1,a\n0,b", "0,a\n1,b", 1), "x.csv has the same size but different content on hosts b and a; all hosts need the same files"},
		{"no file", "", "x.csv: file does not exist"},
	} {
		for host, text := range map[string]string{"a": records, "b": x.b} {
			dir := filepath.Join(homes, host)
			fatal.If(t, errors.Join(os.MkdirAll(dir, 0o700), os.RemoveAll(filepath.Join(dir, "x.csv"))))
			if text != "" {
				write(t, dir, "x.csv", text)
			}
		}
		write(t, filepath.Join(homes, "a"), "c.yaml", "data: {train: [x.csv], header: true, valid_fraction: 0}\nlabel: {field: click}\nfeatures: [{field: site, encode: hash}]\ntrain: {epochs: 1, batch: 16}\n")
		o := run(t, t.TempDir(), "-H", "a,b", "-ssh", client, "sh", "-c", "cd $HOME; exec "+bin+" train -config c.yaml -out "+out)
		if (o.code == 0) != (x.want == "") || !strings.Contains(o.stderr, x.want) || o.code != 0 && !strings.Contains(o.stderr, "; reported by rank 1 (host b, ") {
			t.Errorf("%s: exit code %d, want %q of host b:\n%s", x.name, o.code, x.want, o.stderr)
		}
	}
}
