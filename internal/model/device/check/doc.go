// Package check examines the GPUs of a machine. It checks that:
//
//   - the libraries are found
//   - each kernel gives the same bits as its counterpart on the CPU
//   - trainings agree with the CPU
//   - collectives over NCCL give correct results and can be aborted
//
// It also measures the speed of memory and NCCL.
//
// A check that fails does not end the others, but a device that fails is not used again. A
// check that does not end within a limit ends the run, because a hanging driver cannot be
// interrupted. The package is for builds with the tag gpu.
package check
