// Package launcher starts the ranks of a job as processes, watches them and ends
// them: it decides where ranks run (hosts.go, plan.go), starts any program there
// (start.go), forwards its output line by line and shows progress (console.go,
// display.go), and carries a job from its first process to its exit code
// (job.go). It hosts the job's coordinator, package rank/control, but knows
// nothing of what the ranks compute.
//
// # What a rank gets
//
// The launcher's environment with the WDLRUN_ variables of package rank in place
// of any that were there; an empty standard input; standard output and error that
// reach the launcher's, whole lines at a time, prefixed "[rank] ". Each rank is a
// process group of its own, so that a terminal's Ctrl-C reaches the launcher
// alone, which then ends everyone.
//
// # How a job ends
//
// When all ranks have ended with code 0, well. When one fails (ends otherwise,
// reports an error, falls silent), with one verdict: the others get a second to
// end by themselves if they attend the coordinator, then SIGTERM, and 3 s later
// SIGKILL. The exit code is that of the first failure, 128 + signal for a signal.
//
// No process stays behind. What a rank has started in its group ends with the
// rank. If the launcher itself is killed, Linux kills the ranks (the parent
// death signal), their streams to the coordinator break, and the guard, a small
// child of the launcher that waits on a pipe for its end, kills their groups
// with all that they started. Only a program that makes a process group of its
// own escapes.
//
// Costs: one process and three goroutines a rank; starting a rank takes about a
// millisecond. Errors are returned for what the world can do; nothing panics.
package launcher

import "time"

const (
	// grace is the time between SIGTERM and SIGKILL: enough to flush files,
	// short enough that nobody reaches for Ctrl-C again.
	grace = 3 * time.Second

	// ownEnd is how long ranks that heard the verdict may take to end before
	// they are told to by signal.
	ownEnd = time.Second

	// reapTime bounds the wait for a process that was sent SIGKILL. Only one
	// that is stuck in the kernel takes longer.
	reapTime = 5 * time.Second
)
