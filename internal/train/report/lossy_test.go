package report

import (
	"slices"
	"testing"
	"time"
)

// TestLossyLinksAreNamed: the ranks of a host report the packets to the host with the most losses. A link
// is named after two windows above the limit, once in a minute, and remains in the result.
func TestLossyLinksAreNamed(t *testing.T) {
	hosts := []string{"a", "a", "b", "c"}
	window := func(share float64) (by [][lossWords]int64) {
		for rank := range hosts {
			own := Resenter(func(report func(peer int, packets, again uint64)) {
				for peer := range hosts {
					again := uint64(1)
					if hosts[rank] == "a" && peer == 3 {
						again = uint64(1000 * share)
					}
					if hosts[peer] != hosts[rank] {
						report(peer, 1000, again)
					}
				}
			})
			by = append(by, own.worst(hosts))
		}
		return by
	}
	if w := window(.05); w[0] != [lossWords]int64{4, 1000, 50} || w[1] != w[0] || w[3] != [lossWords]int64{1, 2000, 2} {
		t.Errorf("words %v", w)
	}
	l := losses{hosts: hosts}
	var lines []string
	for _, share := range []float64{.001, .05, .01, .05, .05, .05, 0} {
		lines = append(lines, l.addWindow(2*time.Second, window(share))...)
	}
	want := []string{"the link from host a to host c loses packets: 5.0 % were sent again in the last 2s; check its cables, network cards and switch ports, or choose another network with -net"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
	if got := l.report(); !slices.Equal(got, []LossyLink{{"a", "c", .05, 8. / 14}}) {
		t.Errorf("%+v", got)
	}
	for range 30 {
		lines = append(lines, l.addWindow(2*time.Second, window(.05))...)
	}
	if len(lines) != 2 {
		t.Errorf("%d messages in a minute more, want 2 in all", len(lines))
	}
	few := losses{hosts: hosts}
	for range 5 {
		if lines := few.addWindow(time.Second, [][lossWords]int64{{4, 20, 7}}); len(lines) > 0 {
			t.Errorf("few packets: %q", lines)
		}
	}
	unknown := Resenter(func(report func(peer int, packets, again uint64)) { report(9, 5, 5) })
	if w := unknown.worst(hosts); w != [lossWords]int64{} {
		t.Errorf("an unknown host: %v", w)
	}
	few.addWindow(time.Second, [][lossWords]int64{{9, 20, 19}, {0, 0, 0}}) // no such rank
}
