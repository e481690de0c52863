// Package nccl binds NCCL, the library of collectives between GPUs.
//
// It needs the build tag gpu and cgo, but no SDK: libnccl.so.2 and libcuda.so.1 are
// opened at run time. Without the tag the package compiles, and Open returns ErrNotBuilt.
//
//	lib, err := nccl.Open(nccl.Config{})                // libnccl, 2.19 or later
//	comm, err := lib.Join(ctx, m, device)               // m is a *member.Member
//	err = comm.Launch(stream, nccl.Call{Kind: nccl.AllReduce, Send: p, Recv: p, Count: n, Type: nccl.Float32})
//	err = comm.Wait(ctx, stream)
//
// # Calls
//
// Launch enqueues one call, or several as a group, on a CUDA stream, in one crossing from
// Go to C. The C function makes the communicator's context current, because a goroutine
// changes threads; calls NCCL; and reads the error text of the call that failed, because
// NCCL keeps only the last one. A call costs at most 60 ns more than an empty crossing
// (BenchmarkLaunch) and allocates nothing. Send, Recv and Stream are addresses on the
// device. They are not checked.
//
// One goroutine at a time may call Launch and Wait on a Comm. Any may call Abort. NCCL keeps the state
// of groups per operating system thread, so a goroutine is locked to its thread until its call is
// done, and initialisation and Split have threads of their own.
//
// # Joining
//
// Join is a collective call of all ranks of a member. They exchange versions and the
// unique id over the member's Comm. A library older than 2.19, or another major or minor
// version on another rank, is an error on every rank that names path and version.
// Initialisation does not block: Join polls it until it ends, the group gets its verdict,
// the context ends, or the timeout of the job has passed. NCCL's sockets use the network
// interface of the job's address unless NCCL_SOCKET_IFNAME is set.
//
// # Failures
//
// NCCL does not report a rank that is lost, or one that made another call: the others
// wait forever. The job detects both.
//
//   - Each collective call is numbered and recorded in a ring of 1024. If no call begins
//     for a second and the last ones are not complete, the next heartbeat carries them,
//     and the coordinator compares them with the other ranks' calls
//     (docs/design/0011-disagreement.md). A difference is a verdict that names both sides.
//     Sends and receives differ between ranks, so they are recorded but not compared.
//   - Asynchronous errors of NCCL are polled ten times a second and reported to the job.
//     An error that may be the loss of another rank is reported two seconds later. If the
//     job detects the loss in that time, the verdict names the lost rank.
//   - When the job gives its verdict, all ranks stop launching. Each then aborts all its
//     communicators, each from its own thread, because an abort may wait for the other
//     ranks and for the other communicators of the device. The rings are sent to the
//     launcher as reports of the rank. If the communicators are not gone after 5 s,
//     Config.Stuck is called: the process must end.
//
// A communicator belongs to one generation of the job. The ranks of a new generation call
// Join again.
package nccl
