package cpus

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func TestOf(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"cpu0/topology/core_id": "0\n", "cpu0/topology/physical_package_id": "0\n", "cpu0/node0/x": "",
		"cpu1/topology/core_id": "0\n", "cpu1/topology/physical_package_id": "1\n", "cpu1/node1/x": "",
		"cpu3/topology/core_id": "none\n",
	} {
		path = filepath.Join(dir, path)
		fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
	}
	var may unix.CPUSet
	for _, id := range []int{0, 1, 3, 130} {
		may.Set(id)
	}
	want := []CPU{{0, 0, 0}, {1, 1 << 16, 1}, {3, 3, 0}, {130, 130, 0}}
	if got := of(may, dir); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestOn: the process is bound, and afterwards this thread is not.
func TestOn(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all, err := Here()
	fatal.If(t, err)
	last := []int{all[len(all)-1].ID}
	var out strings.Builder
	cmd := exec.Command("grep", "Cpus_allowed_list", "/proc/self/status")
	cmd.Stdout = &out
	fatal.If(t, On(last, cmd.Start))
	fatal.If(t, cmd.Wait())
	if got := strings.Fields(out.String()); len(got) != 2 || got[1] != List(last) {
		t.Errorf("%q, want %s", out.String(), List(last))
	}
	if now, err := Here(); err != nil || !slices.Equal(now, all) {
		t.Errorf("%v afterwards, %v before (%v)", now, all, err)
	}
	if err := On([]int{1000}, func() error { return nil }); err == nil || !strings.Contains(err.Error(), "bind to CPUs 1000") {
		t.Errorf("a CPU that is not there: %v", err)
	}
}
