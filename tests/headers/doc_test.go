// Package headers compares the bindings of the CUDA driver, cuBLAS, NCCL and NVML with NVIDIA's own
// headers and libraries, the oldest and the newest that are supported, and assembles the kernels for
// each kind of device. None of it needs a device.
//
//	tests/headers/install DIR
//	WDLRUN_CUDA_WHEELS=DIR CGO_ENABLED=1 go test -tags gpu ./tests/headers
//
// The tests are skipped without the variable. They need the build tag gpu, g++ and nm.
package headers
