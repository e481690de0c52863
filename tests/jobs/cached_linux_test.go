package jobs

import (
	"bufio"
	"flag"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// cacheTime is how old names and attributes of TestCachedDisk may be. docs/running.md has the result of 30 s.
var cacheTime = flag.String("cache", "8s", "TestCachedDisk: how old names and attributes may be")

// cached mounts one folder on all hosts and the launcher's, each with its own caches, and returns
// where.
func (c *cluster) cached(t *testing.T, flags ...string) (disk string) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("%v: mounting a file system with caches needs FUSE", err)
	}
	program := c.folder + "/cachedfs"
	if out, err := exec.Command("go", "build", "-C", "../cachedfs", "-o", program, ".").CombinedOutput(); err != nil {
		t.Skipf("go-fuse cannot be built, perhaps without a network: %v: %s", err, out)
	}
	disk = c.folder + "/disk"
	fatal.If(t, os.MkdirAll(c.folder+"/back", 0o755))
	fatal.If(t, os.MkdirAll(disk, 0o755))
	for _, pid := range append([]string{c.hub}, c.hosts...) {
		args := append(append([]string{"-t", pid, "-m", program}, flags...), c.folder+"/back", disk)
		cmd := exec.Command("nsenter", args...)
		out, err := cmd.StdoutPipe()
		fatal.If(t, err)
		cmd.Stderr = os.Stderr
		fatal.If(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
		if line, _ := bufio.NewReader(out).ReadString('\n'); line != "mounted\n" {
			t.Skipf("FUSE cannot be mounted here: %q", line)
		}
	}
	return disk
}

// TestCachedDisk trains on hosts whose shared disk has caches of names and attributes, as network
// file systems have. No checkpoint fails, and the disk is not taken for separate ones.
func TestCachedDisk(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	for _, x := range []struct {
		name  string
		flags []string
	}{
		{"old names and attributes", []string{"-cache", *cacheTime}},
		{"operations that were done before", []string{"-cache", "1s", "-repeat", "3"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := newCluster(t, 2)
			disk := c.cached(t, x.flags...)
			cmd := c.launch(t, append([]string{"-H", "a:2,b:2", "-wdir", disk, "train", "--json"}, append(few(t), "-set", "train.checkpoint.every_steps=100", "-set", "train.epochs=2")...)...)
			cmd.Args = append([]string{"nsenter", "-m"}, cmd.Args[1:]...) // the launcher sees the disk too
			fatal.If(t, cmd.Start())
			o := end(t, cmd)
			if o.code != 0 || strings.Contains(o.stderr, "failed") || strings.Contains(o.stderr, "do not share") {
				t.Fatalf("exit code %d\n%s", o.code, o.stderr)
			}
			r := parseTrained(t, o)
			for _, line := range strings.Split(o.stderr, "\n") {
				if strings.Contains(line, "warn") {
					t.Error(line)
				}
			}
			verify := run(t, c.folder+"/back", "ckpt", "verify", r.RunDir)
			if verify.code != 0 {
				t.Errorf("%s%s", verify.stdout, verify.stderr)
			}
		})
	}
}
