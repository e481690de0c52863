// Package cpus assigns the CPUs of this host to its ranks, and starts processes bound to
// them. Share is a pure function. Only Linux binds processes.
package cpus

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CPU is a CPU on which this process may run.
type CPU struct {
	ID   int
	Core int // the same for the hardware threads of one core
	Node int // of memory (NUMA)
}

// Values of Binding.To.
const (
	None = "none"
	Core = "core" // its share of the cores
	NUMA = "numa" // its share of the NUMA nodes
)

// Binding configures how the ranks of a host are bound.
type Binding struct {
	To     string `json:",omitempty"` // None, Core or NUMA; "" is None
	Spread bool   `json:",omitempty"` // rank i is on NUMA node i mod the number of nodes
}

// Share returns the CPUs of each of n ranks of a host, nil if they are not bound.
//
// Ranks with consecutive numbers get neighbouring cores, in the order of the NUMA nodes.
// With b.Spread they get cores of different nodes instead. With Core and c cores, rank i
// gets the cores i·c/n up to (i+1)·c/n, with all their hardware threads. If there are fewer
// cores than ranks, hardware threads are divided in the same way. If there are fewer of
// these than ranks too, no rank is bound. With NUMA, nodes are divided in place of cores,
// and ranks share a node if there are fewer nodes than ranks.
func Share(all []CPU, b Binding, n int) [][]int {
	if b.To == "" || b.To == None || n < 1 || len(all) == 0 {
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b CPU) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Core, b.Core), cmp.Compare(a.ID, b.ID))
	})
	nodes := group(sorted, sameNode)
	if b.To == NUMA {
		return shareNodes(nodes, b.Spread, n)
	}
	if !b.Spread {
		nodes = [][]CPU{sorted}
	}
	return shareCores(nodes, n)
}

// shareNodes assigns one or several nodes to each rank.
func shareNodes(nodes [][]CPU, spread bool, n int) [][]int {
	shares := make([][]int, n)
	for i := range shares {
		lo, hi := part(len(nodes), n, i)
		if spread {
			lo = i % len(nodes)
			hi = lo + 1
		}
		shares[i] = ids(slices.Concat(nodes[lo:hi]...))
	}
	return shares
}

// shareCores assigns ranks to pools of cores in turn, and divides each pool among its
// ranks.
func shareCores(pools [][]CPU, n int) [][]int {
	shares := make([][]int, n)
	for p, pool := range pools {
		ranks := max(n-p+len(pools)-1, 0) / len(pools)
		units := group(pool, sameCore)
		if len(units) < ranks {
			units = group(pool, sameCPU)
		}
		if len(units) < ranks {
			return nil
		}
		for k := range ranks {
			lo, hi := part(len(units), ranks, k)
			shares[p+k*len(pools)] = ids(slices.Concat(units[lo:hi]...))
		}
	}
	return shares
}

// part returns the bounds of the i-th of n parts of some units. If there are fewer units
// than n, parts overlap and each has one.
func part(units, n, i int) (lo, hi int) {
	lo, hi = i*units/n, (i+1)*units/n
	return lo, max(hi, lo+1)
}

// group splits sorted CPUs into runs of equal ones.
func group(sorted []CPU, same func(a, b CPU) bool) (groups [][]CPU) {
	for i, c := range sorted {
		if i == 0 || !same(sorted[i-1], c) {
			groups = append(groups, nil)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], c)
	}
	return groups
}

func sameNode(a, b CPU) bool { return a.Node == b.Node }
func sameCore(a, b CPU) bool { return a.Node == b.Node && a.Core == b.Core }
func sameCPU(a, b CPU) bool  { return a.ID == b.ID }

func ids(all []CPU) (numbers []int) {
	for _, c := range all {
		numbers = append(numbers, c.ID)
	}
	slices.Sort(numbers)
	return numbers
}

// List formats CPUs as Linux does: "0-3,8".
func List(cpus []int) string {
	var b strings.Builder
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(cpus[i]))
		if j > i {
			fmt.Fprintf(&b, "-%d", cpus[j])
		}
		i = j + 1
	}
	return b.String()
}
