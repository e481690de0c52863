package jobs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/hosts/doctor"
)

// TestDoctor examines three hosts and each pair of hosts once, and then this machine alone. An
// error that would end a job sets the exit code.
func TestDoctor(t *testing.T) {
	t.Parallel()
	client, _ := fakeSSH(t, login)
	dir := t.TempDir()
	var r struct {
		doctor.Report
		ExitCode int `json:"exit_code"`
	}
	o := run(t, dir, "-H", "a:2,b,c", "-ssh", client, "-ports", "20000-29999", "doctor", "--json")
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil || o.code != 0 || r.ExitCode != 0 || len(r.Hosts) != 3 || len(r.Pairs) != 3 {
		t.Fatalf("%v: %+v", err, o)
	}
	for i, name := range []string{"a", "b", "c"} {
		if h := r.Hosts[i]; h.Name != name || h.Ranks != 1+(2-i)/2 || h.CPUs < 1 || h.Available == 0 || h.OpenFiles == 0 || h.FreePorts < 2 || len(h.Disks) != 3 {
			t.Errorf("host %s: %+v", name, h)
		}
	}
	for _, p := range r.Pairs {
		if p.RoundTrip <= 0 || p.Rates[0] <= 0 || p.Rates[1] <= 0 {
			t.Errorf("pair of hosts: %+v", p)
		}
	}
	o = run(t, dir, "-np", "2", "-mem", "15t", "-ports", "1-1", "doctor")
	for _, want := range []string{": 30 TiB of memory are needed for 2 ranks of 15 TiB, and ", " of -ports are free, and 2 ranks need one each: give a larger range\n"} {
		if o.code != 1 || strings.Count(o.stdout, "error: host ") != 2 || !strings.Contains(o.stdout, want) {
			t.Errorf("this machine: %q is missing: %+v", want, o)
		}
	}
}
