package cpus

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// host returns a host of nodes × cores × threads CPUs, numbered as in Linux: all first
// threads before all second ones.
func host(nodes, cores, threads int) (all []CPU) {
	for id := range nodes * cores * threads {
		core := id % (nodes * cores)
		all = append(all, CPU{ID: id, Core: core, Node: core / cores})
	}
	return all
}

func TestShare(t *testing.T) {
	core, numa := Binding{To: Core}, Binding{To: NUMA}
	spread := Binding{To: Core, Spread: true}
	for _, c := range []struct {
		name string
		cpus []CPU
		how  Binding
		n    int
		want string // CPUs of each rank
	}{
		{"one core each", host(1, 4, 1), core, 4, "0 1 2 3"},
		{"a share each", host(1, 8, 1), core, 3, "0-1 2-4 5-7"},
		{"all for one", host(2, 2, 1), core, 1, "0-3"},
		{"both threads of a core", host(1, 2, 2), core, 2, "0,2 1,3"},
		{"more ranks than cores", host(1, 2, 2), core, 4, "0 2 1 3"},
		{"more ranks than threads", host(1, 2, 2), core, 5, ""},
		{"nodes one after another", host(2, 2, 1), core, 4, "0 1 2 3"},
		{"nodes in turn", host(2, 2, 1), spread, 4, "0 2 1 3"},
		{"nodes in turn, a share each", host(2, 4, 1), spread, 3, "0-1 4-7 2-3"},
		{"nodes in turn, too many", host(2, 1, 1), spread, 3, ""},
		{"a node for two", host(2, 2, 1), numa, 4, "0-1 0-1 2-3 2-3"},
		{"nodes in turn for two", host(2, 2, 1), Binding{NUMA, true}, 4, "0-1 2-3 0-1 2-3"},
		{"nodes for one", host(2, 2, 1), numa, 1, "0-3"},
		{"not bound", host(1, 4, 1), Binding{To: None}, 2, ""},
		{"the default", host(1, 4, 1), Binding{}, 2, ""},
		{"nothing is known", nil, core, 2, ""},
		{"a mask with gaps", []CPU{{7, 7, 0}, {2, 2, 0}, {5, 5, 1}}, core, 3, "2 7 5"},
	} {
		var got []string
		for _, s := range Share(c.cpus, c.how, c.n) {
			got = append(got, List(s))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
}

// TestSharesAreWhole: ranks bound to cores do not share CPUs. If there are at most as many
// ranks as cores, no CPU is left over.
func TestSharesAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := host(rapid.IntRange(1, 3).Draw(t, "nodes"), rapid.IntRange(1, 5).Draw(t, "cores"), rapid.IntRange(1, 2).Draw(t, "threads"))
		n := rapid.IntRange(1, 12).Draw(t, "ranks")
		how := Binding{Core, rapid.Bool().Draw(t, "spread")}
		shares := Share(all, how, n)
		if shares == nil {
			if n <= len(all) && !how.Spread {
				t.Fatalf("%d ranks on %d CPUs are not bound", n, len(all))
			}
			return
		}
		seen := map[int]bool{}
		for _, s := range shares {
			if len(s) == 0 || !slices.IsSorted(s) {
				t.Fatalf("%v", shares)
			}
			for _, id := range s {
				if seen[id] {
					t.Fatalf("CPU %d is in two of %v", id, shares)
				}
				seen[id] = true
			}
		}
		if len(seen) != len(all) && !(how.Spread && n < len(all)) {
			t.Fatalf("%v are not all of %d CPUs", shares, len(all))
		}
	})
}

func TestList(t *testing.T) {
	for want, cpus := range map[string][]int{"": nil, "3": {3}, "0-1": {0, 1}, "0-3,8": {0, 1, 2, 3, 8}, "1,3,5-6": {1, 3, 5, 6}} {
		if got := List(cpus); got != want {
			t.Errorf("%v: %q, want %q", cpus, got, want)
		}
	}
}

func ExampleShare() {
	// Four ranks on a host with two nodes of four cores.
	for rank, cpus := range Share(host(2, 4, 1), Binding{To: Core}, 4) {
		fmt.Println(rank, List(cpus))
	}
	// Output:
	// 0 0-1
	// 1 2-3
	// 2 4-5
	// 3 6-7
}
