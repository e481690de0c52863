package shm

import "golang.org/x/sys/unix"

// Cores returns how many cores of this host the ranks may run on, all of them
// together: each may be bound to one of its own.
func (t *Transport) Cores() int { return t.cores }

// countCores counts the cores that any of the processes may run on. What is not to be
// seen of one, as across containers, is taken to be as this one's; so is process 0.
func countCores(pids []int) int {
	var all unix.CPUSet
	for _, pid := range append(pids, 0) {
		var its unix.CPUSet
		if unix.SchedGetaffinity(pid, &its) != nil {
			continue
		}
		for i := range all {
			all[i] |= its[i]
		}
	}
	return max(all.Count(), 1)
}
