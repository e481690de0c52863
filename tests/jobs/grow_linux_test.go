package jobs

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// grown runs wdlrun hosts on the only run directory of dir.
func grown(t *testing.T, dir, what string, hosts ...string) outcome {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if len(found) != 1 {
		t.Fatalf("run directories %v", found)
	}
	rel, err := filepath.Rel(dir, found[0])
	fatal.If(t, err)
	return run(t, dir, append([]string{"hosts", what, rel}, hosts...)...)
}

// TestGrowAndShrink adds ranks to a training and removes them. The model has the bits of one
// undisturbed rank. A change that the training rejects is undone. Injected pauses leave time for
// the changes. If a training ends before all changes are made, the test repeats it with more
// epochs.
func TestGrowAndShrink(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	for epochs := 2; ; epochs *= 4 {
		dir := t.TempDir()
		flags := append(few(t), "-set", "train.slots=4", "-set", fmt.Sprintf("train.epochs=%d", epochs))
		cmd := command(t, dir, append([]string{"-np", "1", "train", "--json", "-chaos", "stop:1s@0@step40,stop:1s@0@step80"}, flags...)...)
		fatal.If(t, cmd.Start())
		waitRun(t, dir, cmd)
		var said [3]outcome
		for i, x := range [][2]string{{"add", "localhost:1"}, {"add", "localhost:1"}, {"drop", "localhost:1"}} {
			said[i] = grown(t, dir, x[0], x[1])
		}
		o := end(t, cmd)
		if last := said[2]; last.code != 0 && strings.Contains(last.stderr, "ended") && epochs < 1<<12 {
			continue
		}
		if o.code != 0 {
			t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
		}
		for i, want := range []string{"the training continues with 2 ranks on localhost:2\n", "; the job returns to its previous hosts\n", "the training continues with 1 rank on localhost:1\n"} {
			if !strings.Contains(said[i].stdout+said[i].stderr, want) {
				t.Errorf("change %d: %+v, want %q\n%s", i, said[i], want, o.stderr)
			}
		}
		if want := "train.slots: 4 slots on 3 ranks: give a power of two"; !strings.Contains(said[1].stderr, want) {
			t.Errorf("rejected change: %+v, want %q", said[1], want)
		}
		changed := parseTrained(t, o)
		if strings.Contains(o.stderr, "was not injected") {
			t.Errorf("a fault that was injected is reported as not injected:\n%s", o.stderr)
		}
		if changed.WorldSize != 1 || strings.Count(o.stderr, "wdlrun: the training returns to its previous hosts: localhost:2, from the checkpoint of step ") != 1 {
			t.Errorf("%+v\n%s", changed, o.stderr)
		}
		one := train(t, dir, 1, flags...)
		sameModel(t, dir, one, changed)
		if late := run(t, dir, "hosts", "drop", changed.RunDir, "localhost:1"); late.code != 1 || !strings.Contains(late.stderr, "has ended (finished); to continue it on other hosts: wdlrun -H HOSTS train -resume ") {
			t.Errorf("change after the end of the training: %+v", late)
		}
		return
	}
}

// TestGrowToHosts adds hosts by ssh: one that works, one that cannot be reached, and one
// that refuses the second login. Then it removes the host of rank 0.
func TestGrowToHosts(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	client, homes := fakeSSH(t, `case $1 in d) echo "ssh: connect to host d port 22: Connection refused" >&2; exit 255;; c) [ ! -e once ] || exit 255; touch once;; esac; `+login)
	dir := t.TempDir()
	cmd := command(t, dir, append([]string{"-H", "a:1", "-ssh", client, "train"}, append(few(t), "-set", "train.epochs=100000")...)...)
	fatal.If(t, cmd.Start())
	waitRun(t, dir, cmd)
	for _, x := range []struct{ what, host, want string }{
		{"add", "b", "the training continues with 2 ranks on a:1,b:1\n"},
		{"add", "d", "port 22: Connection refused; start sshd there, or name its port: -ssh \"ssh -p 2222\"; the job continues on its hosts\n"},
		{"add", "c:2", "; the job returns to its previous hosts\n"},
		{"add", "b", "host b is in the job with 1 rank: to add N more, give b:N\n"},
		{"drop", "a", "the training continues with 1 rank on b:1\n"},
	} {
		if o := grown(t, dir, x.what, x.host); !strings.HasSuffix(o.stdout+o.stderr, x.want) {
			t.Errorf("%s %s: %+v, want %q", x.what, x.host, o, x.want)
		}
	}
	fatal.If(t, cmd.Process.Signal(syscall.SIGTERM))
	o := end(t, cmd)
	if o.code != 143 || strings.Count(o.stderr, "wdlrun: the hosts change: ") != 3 || !strings.Contains(o.stdout, "wdlrun -np 1 -H b:1 -ssh "+client+" train -resume ") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	eventually(t, "the end of all processes", func() bool { return len(below(homes)) == 0 })
}

// TestGrowAfterALoss requests a change as soon as a rank is lost, and while a rank is stopped that is killed
// afterwards. The change is made after the ranks have resumed from memory.
func TestGrowAfterALoss(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		dir := t.TempDir()
		cmd := command(t, dir, append([]string{"-np", "2", "train", "-replicas", "2"}, append(few(t), "-set", "train.epochs=100000")...)...)
		fatal.If(t, cmd.Start())
		pids := waitRanks(t, cmd.Process.Pid, 2)
		waitRun(t, dir, cmd)
		kill(t, pids[1], sig)
		changed := make(chan outcome, 1)
		go func() { changed <- grown(t, dir, "add", "localhost:1") }()
		if sig == syscall.SIGSTOP {
			time.Sleep(time.Second) // rank 0 hears that it is to end, and cannot complete its step
			kill(t, pids[1], syscall.SIGKILL)
		}
		if o := <-changed; o.stdout != "the training continues with 3 ranks on localhost:3\n" {
			t.Errorf("%v: the change after a loss: %+v", sig, o)
		}
		fatal.If(t, cmd.Process.Signal(syscall.SIGTERM))
		if o := end(t, cmd); o.code != 143 || !strings.Contains(o.stderr, "training resumes from memory") {
			t.Errorf("%v: exit code %d\n%s", sig, o.code, o.stderr)
		}
	}
}
