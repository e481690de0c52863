// Package launcher starts the ranks of a job as processes, watches them and ends
// them: it decides where ranks run (hosts.go, plan.go), starts any program there
// (start.go), forwards its output line by line and shows progress (console.go,
// display.go), and carries a job from its first process to its exit code
// (job.go), over failures if it may (again.go). It hosts the job's coordinator, package internal/control, but knows
// nothing of what the ranks compute.
//
// # What a rank gets
//
// The launcher's environment with the WDLRUN_ variables of package rank in place
// of any that were there; standard output and error that reach the launcher's,
// whole lines at a time, prefixed "[rank] ". A line of more than 64 KiB is broken
// into several, each with the prefix. Each rank is a process group of its own, so
// that a terminal's Ctrl-C reaches the launcher alone, which then ends everyone.
//
// Standard input is Job.Stdin for rank 0, as with mpirun, and empty for the
// others. A file, a pipe or a device is handed on as it is. A terminal cannot be
// read by rank 0's process group, so the launcher reads it, while it is in the
// terminal's foreground; Ctrl-D ends the input. A rank 0 that reads nothing holds
// up nothing.
//
// # Ctrl-Z
//
// With Job.Suspends Ctrl-Z (SIGTSTP) stops the ranks and then the launcher, and
// fg (SIGCONT) wakes it and then them; nobody is judged for the time between.
// Where no shell could wake it Ctrl-Z does nothing.
// SIGSTOP at the launcher cannot be caught: the ranks go on, and wait once they
// have written more than a pipe holds.
//
// # Several hosts
//
// With a host in the plan that is not this machine, a host process on each host (host.go)
// does what the launcher does for ranks of its own: it starts them in groups of their own,
// guards them and reports how they end. The launcher starts it by ssh, or directly on this
// machine (remote.go), and passes on outputs, input and the connections of the ranks to the
// coordinator. The hosts choose a network by trying it (network.go). The ranks get the
// environment of the login, with what Job.Remote passes. When the stream to the launcher
// ends, or is silent for 7 s, the host process kills its ranks; the launcher counts the host
// as lost, which rank.Group judges as one cause. At the end nothing stays on a host, also no
// process outside the groups.
//
// # How a job ends
//
// When all ranks have ended with code 0, well. When one fails (ends otherwise,
// reports an error, falls silent), with one verdict, told when it is given
// (Job.Judged): the others, and those that stood still and are woken, get 3 s to
// end by themselves if they attend the coordinator, then SIGTERM, and 3 s later
// SIGKILL. The exit code is that of the first failure, 128 + signal for a signal;
// 127 if the program is not found and 126 if it cannot be run, as with shells.
//
// # Starting again
//
// With Job.Restarts a failed job is started again, as the next generation: after a
// pause that doubles while no step is gained, on the ranks that are left where
// Job.MinRanks allows and with a replacement where it does not (package
// internal/restart), but not after the same error of its own twice in a row at the same
// step (again.go). The programs find the generation in their environment
// (WDLRUN_GENERATION) and their work where they saved it.
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
	// they are told to by signal. A busy machine must keep it, else the exit code of
	// the rank that failed is that of the signal.
	ownEnd = 3 * time.Second

	// reapTime bounds the wait for a process that was sent SIGKILL. Only one
	// that is stuck in the kernel takes longer.
	reapTime = 5 * time.Second

	// readTime is how long the news that a process has ended may wait for what it
	// wrote, so that a verdict stands below it. It is there at once, unless what the
	// rank started elsewhere holds the pipe; and a dead rank is to be told of within
	// 200 ms.
	readTime = 20 * time.Millisecond
)
