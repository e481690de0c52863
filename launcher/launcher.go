// Package launcher starts the ranks of a job as processes, watches them and ends them.
// It works for any program:
//
//	placement   where ranks run                                hosts.go, plan.go
//	start       the processes, and their output line by line   start.go
//	progress    what a terminal shows                          console.go, display.go
//	job         from the first process to the exit code        job.go
//	restarts    the next generation after a failure            again.go
//
// The launcher hosts the job's coordinator (package internal/control).
//
// # The environment of a rank
//
// A rank gets the launcher's environment, in which the WDLRUN_ variables of package rank
// replace existing ones. The launcher copies the rank's standard output and error to its
// own, in whole lines with the prefix "[rank] ". A line of more than 64 KiB is split into
// several, each with the prefix. Each rank is the leader of a process group, so a
// terminal's Ctrl-C reaches only the launcher, which then ends all ranks.
//
// The standard input of rank 0 is Job.Stdin, as with mpirun. The other ranks have an empty
// one. A file, a pipe or a device is passed to the process directly. The process group of
// rank 0 cannot read a terminal, so the launcher reads it while it is in the terminal's
// foreground. Ctrl-D ends the input. If rank 0 does not read its input, nothing blocks.
//
// # Ctrl-Z
//
// With Job.Suspends, Ctrl-Z (SIGTSTP) stops the ranks and then the launcher, and fg
// (SIGCONT) resumes the launcher and then the ranks. No rank is reported as silent
// because of that time. If no shell could resume the launcher, Ctrl-Z has no effect.
// SIGSTOP cannot be caught: if the launcher is stopped, the ranks continue until their
// output fills a pipe.
//
// # Placement
//
// Place decides how many ranks run on each host. Plan.Each is the share of its host to
// which a rank is bound (package internal/machine/cpus) and the memory that it needs. Each host
// divides the CPUs on which its host process, or the launcher, may run. If a host has too
// little memory, the job ends before any rank starts.
//
// # Several hosts
//
// If the plan contains a host other than this machine, a host process runs on each host
// (host.go). It starts the ranks of the host in separate process groups, guards them
// and reports how they end. The launcher starts host processes by ssh, by srun within an
// allocation of Slurm, by agents (hosts such as @a), or directly on this machine
// (remote.go). It forwards output, input and the connections of the ranks to the
// coordinator. The hosts choose a network by trying it (network.go). The ranks get the
// environment of the login, plus what Job.Remote passes. If the stream to the launcher
// ends or is silent for 8 s, the host process kills its ranks. The launcher counts the
// host as lost after 4 s, and rank.Group gives one verdict for it. No process stays behind
// on a host, including processes outside the groups.
//
// # How a job ends
//
// A job succeeds when all ranks have ended with code 0. It fails when one rank exits with
// another code, reports an error, or is silent. The verdict is reported at once
// (Job.Judged). The other ranks, including stopped ones, which are resumed, get 3 s to end
// by themselves if they have a session with the coordinator, then SIGTERM, and 3 s later
// SIGKILL. The exit code is the code of the first failure: 128 + signal for a signal, 127 if
// the program is not found and 126 if it cannot be run, as in shells.
//
// # Restarts
//
// With Job.Restarts a failed job starts again as the next generation (package
// internal/control/restart). The pause before it doubles while no step is gained. The job
// continues on the remaining ranks if Job.MinRanks allows it, otherwise with a
// replacement. It does not restart if a rank has reported the same error twice in a row
// at the same step (again.go). Programs find the generation in WDLRUN_GENERATION and
// their state where they saved it.
//
// # Other hosts
//
// With Job.Changes a running job continues on other hosts (change.go): its ranks
// write a checkpoint and end, and the next generation has a new plan. If that generation
// fails before its first step, the job returns to the previous plan. The ranks of a host
// that is lost three times move to free slots of Job.Hosts.
//
// # No process stays behind
//
// Processes that a rank has started in its group end with the rank. If the launcher is
// killed, Linux kills the ranks (parent death signal) and their streams to the coordinator
// break. The guard, a small child process that waits on a pipe for the launcher's end,
// kills the groups of the ranks. Only a program that makes a new process group escapes.
//
// Starting a rank takes about a millisecond, one process and three goroutines. Failures of
// the system are returned as errors; nothing panics.
package launcher

import "time"

const (
	// grace is the time between SIGTERM and SIGKILL: long enough to flush files, short
	// enough that the user does not press Ctrl-C again.
	grace = 3 * time.Second

	// ownEnd is how long ranks that received the verdict may take to end before they are
	// sent SIGTERM. It must be enough on a busy machine. Otherwise the exit code of the
	// failed rank is the code of the signal.
	ownEnd = 3 * time.Second

	// reapTime bounds the wait for a process that was sent SIGKILL. Only one
	// that is stuck in the kernel takes longer.
	reapTime = 5 * time.Second

	// readTime is how long the report of a process's end waits for the rest of its
	// output, so that the verdict is printed below it. The output is complete at once
	// unless a process outside the rank's group holds the pipe. The end of a rank must be
	// reported within 200 ms.
	readTime = 20 * time.Millisecond
)
