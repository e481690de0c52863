package tests

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// mesh makes hosts of this one: network namespaces of which each two have a link of
// their own, so that one can be broken alone. Device wdl-J of host I leads to host J.
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
		hosts[i].run(t, "sh", "-c", fmt.Sprintf("echo wdlrun-host-%d >/proc/sys/kernel/hostname", i))
		hosts[i].run(t, "ip", "link", "set", "lo", "up")
		hosts[i].run(t, "ip", "addr", "add", hosts[i].ip+"/32", "dev", "lo")
	}
	for i := range n {
		for j := range i {
			hosts[i].run(t, "ip", "link", "add", "name", device(j), "type", "veth", "peer", "name", device(i), "netns", pids[j])
			for _, end := range [2][2]int{{i, j}, {j, i}} {
				h, to := hosts[end[0]], end[1]
				// A packet is dropped by its size only if the sender cuts the stream itself.
				h.run(t, "ip", "link", "set", device(to), "up", "gso_max_segs", "1")
				h.run(t, "ip", "route", "add", hosts[to].ip+"/32", "dev", device(to), "src", h.ip)
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
		t.Skipf("this system makes no such networks: %q: %v: %s", args, err, out)
	}
}

// TestABrokenLinkIsNamed breaks the link between two of three hosts, which both reach
// the third one, that of rank 0.
func TestABrokenLinkIsNamed(t *testing.T) {
	for _, x := range []struct {
		name string
		harm func(t *testing.T, a, b host)
		want []string
		not  string
	}{
		{"all packets", func(t *testing.T, a, b host) {
			a.run(t, "ip", "link", "set", device(2), "down")
		}, []string{"ranks 1 and 2 no longer reach each other (host wdlrun-host-1 ↔ host wdlrun-host-2)", "both answer the coordinator"}, "small messages pass"},
		{"large packets one way", func(t *testing.T, a, b host) {
			a.run(t, "ip", "link", "set", device(2), "mtu", "600") // it drops larger ones that come
		}, []string{"ranks 1 and 2 no longer reach each other", "small messages pass"}, "wdlrun: rank "},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			dir, hosts := t.TempDir(), mesh(t, 3)
			cmds := onHosts(t, dir, hosts, 1, append(wide[:len(wide):len(wide)], "-set", "train.epochs=1000")...)
			waitRun(t, dir)
			x.harm(t, hosts[1], hosts[2])
			begin := time.Now()
			var said strings.Builder
			for r, cmd := range cmds {
				o := end(t, cmd)
				if o.code != 1 {
					t.Errorf("rank %d: exit code %d\n%s", r, o.code, o.stderr)
				}
				if r == 0 {
					t.Logf("ended %.1f s after the fault", time.Since(begin).Seconds())
				}
				said.WriteString(o.stderr)
			}
			for _, want := range x.want {
				if strings.Count(said.String(), want) != 1 {
					t.Errorf("want one line with %q:\n%s", want, said.String())
				}
			}
			for _, not := range []string{"wdlrun: rank ", x.not} {
				if strings.Contains(said.String(), not) {
					t.Errorf("%q is wrong:\n%s", not, said.String())
				}
			}
		})
	}
}
