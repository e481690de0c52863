package jobs

import (
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestPlacement: ranks run on the CPUs that -plan prints, on this host and on another one. These
// are among the CPUs that the launcher may use. A host without enough memory is named before a
// rank starts.
func TestPlacement(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	all, err := cpus.Here()
	if err != nil || len(all) < 2 {
		t.Skipf("this process may run on one CPU only (%v)", err)
	}
	client, _ := fakeSSH(t, login)
	dir, n := t.TempDir(), fmt.Sprint(len(all))
	var planned struct{ Ranks []struct{ CPUs string } }
	if o := run(t, dir, "-np", n, "-bind", "core", "-plan", "-json"); json.Unmarshal([]byte(o.stdout), &planned) != nil || len(planned.Ranks) != len(all) {
		t.Fatal(o)
	}
	allowed := []string{"grep", "Cpus_allowed_list", "/proc/self/status"}
	for _, where := range [][]string{nil, {"-H", "a:" + n, "-ssh", client}} {
		o := run(t, dir, append(append(append(where, "-np", n), "-bind", "core"), allowed...)...)
		for r, p := range planned.Ranks {
			if want := regexp.MustCompile(fmt.Sprintf(`(?m)^\[%d\] Cpus_allowed_list:\s+%s$`, r, p.CPUs)); p.CPUs == "" || !want.MatchString(o.stdout) {
				t.Errorf("%q: want %s:\n%s%s", where, want, o.stdout, o.stderr)
			}
		}
	}
	if o := run(t, dir, "-np", fmt.Sprint(len(all)+1), "-bind", "core", "-plan"); o.code != 0 || strings.Contains(o.stdout, "CPUs") {
		t.Errorf("more ranks than CPUs: %+v", o)
	}
	last := all[len(all)-1].ID
	cmd := command(t, dir, append([]string{"-np", "1", "-bind", "core"}, allowed...)...)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fatal.If(t, cpus.On([]int{last}, cmd.Start))
	if o := end(t, cmd); strings.Join(strings.Fields(o.stdout), " ") != fmt.Sprintf("[0] Cpus_allowed_list: %d", last) {
		t.Errorf("ranks bound by another launcher: %+v", o)
	}
	o := run(t, dir, "-H", "a:1,b:2", "-ssh", client, "-mem", "15t", "true")
	if want := regexp.MustCompile(`^wdlrun: host a: 15728640 MiB of memory are needed for 1 rank of 15728640 MiB, and \d+ MiB.* are available there: .* \(and other hosts failed too: b\)\n$`); o.code != 1 || !want.MatchString(o.stderr) {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
}
