package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestAHostWithoutItsDisk: a host is rebooted and accepts logins before the disk of all hosts is mounted there.
// The job waits for the disk and then starts again, or continues without the host.
func TestAHostWithoutItsDisk(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	c := newCluster(t, 2)
	disk := filepath.Join(c.folder, "disk")
	flags := append(few(t), "-set", "train.slots=4", "-set", "train.epochs=6")
	calm := train(t, c.folder, 1, append(flags, "-out", "calm")...)
	for least, size := range map[string]int{"4": 4, "2": 2} {
		work := filepath.Join(disk, least)
		fatal.If(t, os.MkdirAll(work, 0o700))
		cmd := c.launch(t, append([]string{"-H", "a:2,b:2", "-wdir", work, "-restarts", "1", "-min-np", least, "train", "--json"}, flags...)...)
		said, err := os.Create(filepath.Join(c.folder, "said-"+least))
		fatal.If(t, err)
		cmd.Stderr = said
		fatal.If(t, cmd.Start())
		eventually(t, "steps", func() bool { return steps(work, "runs") })
		c.do(t, c.hosts[1], "mount -t tmpfs tmpfs "+disk)
		for _, pid := range c.processes(1) {
			kill(t, pid, syscall.SIGKILL)
		}
		want := "wdlrun: host b cannot start its ranks (there is no working directory " + work
		if size == 4 {
			eventually(t, want, func() bool {
				b, _ := os.ReadFile(said.Name())
				return strings.Contains(string(b), want)
			})
			c.do(t, c.hosts[1], "umount "+disk)
		} else {
			want = "wdlrun: host b was lost and is left out; 2 ranks start again"
		}
		cmd.Wait()
		b, err := os.ReadFile(said.Name())
		fatal.If(t, err)
		o := outcome{fmt.Sprint(cmd.Stdout), string(b), cmd.ProcessState.ExitCode()}
		if o.code != 0 || strings.Count(o.stderr, want) != 1 {
			t.Fatalf("-min-np %s: exit code %d, want one line %q\n%s", least, o.code, want, o.stderr)
		}
		if r := parseTrained(t, o); r.AUC != calm.AUC || r.LogLoss != calm.LogLoss || r.WorldSize != size {
			t.Errorf("-min-np %s: %+v, undisturbed %+v\n%s", least, r, calm, o.stderr)
		}
		c.empty(t)
		if size == 2 {
			c.do(t, c.hosts[1], "umount "+disk)
		}
	}
}
