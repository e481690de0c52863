package inventory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestNear has two devices behind one bridge with a network card, one behind another bridge of
// the same NUMA node, one of another node, and one whose node and bridge are unknown.
func TestNear(t *testing.T) {
	sys := t.TempDir()
	for name, at := range map[string]struct{ path, node string }{
		"0000:07:00.0": {"pci0000:00/0000:00:01.0/0000:07:00.0", "0"},
		"0000:0f:00.0": {"pci0000:00/0000:00:02.0/0000:0f:00.0", "0"},
		"0000:87:00.0": {"pci0000:80/0000:80:01.0/0000:87:00.0", "1"},
		"0001:00:00.0": {"pci0001:00/0001:00:00.0", "-1"},
		"eth0":         {"pci0000:00/0000:00:01.0/0000:08:00.0", "0"},
		"eth1":         {"pci0000:40/0000:40:00.0", "0"},
	} {
		device, link := filepath.Join(sys, "devices", at.path), filepath.Join(sys, "bus/pci/devices", name)
		if name[0] == 'e' {
			link = filepath.Join(sys, "class/net", name, "device")
		}
		for _, dir := range []string{device, filepath.Dir(link)} {
			fatal.If(t, os.MkdirAll(dir, 0o755))
		}
		fatal.If(t, os.Symlink(device, link))
		fatal.If(t, os.WriteFile(filepath.Join(device, "numa_node"), []byte(at.node+"\n"), 0o644))
	}
	for _, x := range []struct {
		bus, network string
		near         []int
		want         Near
	}{
		{"00000000:07:00.0", "eth0", []int{0, 1, 9}, Near{CPUs: 2, Card: 3}},
		{"00000000:0F:00.0", "eth0", []int{1}, Near{CPUs: 1, Card: 2}},
		{"00000000:87:00.0", "eth0", nil, Near{}},
		{"00000001:00:00.0", "eth0", nil, Near{}},
		{"00000000:07:00.0", "eth1", nil, Near{Card: 1}},
		{"00000000:07:00.0", "lo", nil, Near{}},
		{"00000000:07:00.0", "", nil, Near{}},
		{"00000000:ff:00.0", "eth0", nil, Near{}},
		{"..", "eth0", nil, Near{}},
		{"", "eth0", []int{0}, Near{CPUs: 1}},
	} {
		d := Device{CPUs: x.near}
		if x.bus != "" {
			d.Bus = &x.bus
		}
		if got := d.near([]int{0, 1, 2}, x.network, sys); got != x.want {
			t.Errorf("%s and %s, CPUs %v: %+v, want %+v", x.bus, x.network, x.near, got, x.want)
		}
	}
}
