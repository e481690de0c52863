package copies

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// apart counts the ranks whose buddy is on another host.
func apart(ring Ring, hosts []string) (n int) {
	for r, b := range ring {
		if hosts[r] != hosts[b] {
			n++
		}
	}
	return n
}

// checkRing checks a ring against the documentation of NewRing.
func checkRing(t interface {
	Helper()
	Fatalf(string, ...any)
}, hosts []string) {
	t.Helper()
	size, most, count := len(hosts), 0, map[string]int{}
	for _, h := range hosts {
		count[h]++
		most = max(most, count[h])
	}
	ring := NewRing(size, hosts)
	if len(ring) != size {
		t.Fatalf("hosts %v: %d ranks have buddies, there are %d", hosts, len(ring), size)
	}
	for r, b := range ring {
		if b < 0 || b >= size || b == r || ring.Ward(b) != r {
			t.Fatalf("hosts %v: rank %d has the buddy %d, whose ward is %d", hosts, r, b, ring.Ward(b))
		}
	}
	// If a host has more than half of the ranks, only as many as are on other hosts can be
	// paired.
	if got, want := apart(ring, hosts), min(size, 2*(size-most)); got != want {
		t.Fatalf("hosts %v, buddies %v: %d are on another host, %d can be", hosts, ring, got, want)
	}
}

// TestRing tests every layout of up to 7 ranks on up to 4 hosts, in any order.
func TestRing(t *testing.T) {
	for size := 2; size <= 7; size++ {
		layouts := 1
		for range size {
			layouts *= 4
		}
		for x := range layouts {
			hosts := make([]string, size)
			for r := range hosts {
				hosts[r], x = fmt.Sprint(x%4), x/4
			}
			checkRing(t, hosts)
		}
	}
}

// TestLargeRing tests random larger layouts.
func TestLargeRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringN(0, 3, -1), 1, 20, rapid.ID[string]).Draw(t, "names")
		checkRing(t, rapid.SliceOfN(rapid.SampledFrom(names), 2, 200).Draw(t, "hosts"))
	})
}

// TestUsualRings tests common placements of ranks.
func TestUsualRings(t *testing.T) {
	for _, x := range []struct {
		hosts []string
		want  Ring
	}{
		{nil, Ring{1, 2, 3, 0}},
		{[]string{"a", "a", "a", "a"}, Ring{1, 2, 3, 0}},
		{[]string{"a", "b", "c", "d"}, Ring{1, 2, 3, 0}},
		{[]string{"a", "a", "b", "b"}, Ring{2, 3, 0, 1}},
		{[]string{"a", "b", "a", "b"}, Ring{1, 0, 3, 2}},
		{[]string{"a", "a", "a", "b"}, Ring{3, 0, 1, 2}},
	} {
		if got := NewRing(4, x.hosts); !slices.Equal(got, x.want) {
			t.Errorf("hosts %v: buddies %v, want %v", x.hosts, got, x.want)
		}
	}
}
