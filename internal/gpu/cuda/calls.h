// What package cuda uses of the CUDA driver and cuBLAS: name and parameters of functions, and numbers
// under the names of NVIDIA's headers. tests/headers compares all of it with these headers.

#ifndef WDLRUN_CALLS_H
#define WDLRUN_CALLS_H

#define CUDA_CALLS(X) \
	X(cuInit, (unsigned)) \
	X(cuDeviceGetCount, (int *)) \
	X(cuDeviceGet, (int *, int)) \
	X(cuDeviceGetName, (char *, int, int)) \
	X(cuDeviceGetUuid, (char *, int)) \
	X(cuDeviceGetUuid_v2, (char *, int)) \
	X(cuDeviceGetAttribute, (int *, int, int)) \
	X(cuDevicePrimaryCtxRetain, (context *, int)) \
	X(cuDevicePrimaryCtxRelease_v2, (int)) \
	X(cuCtxSetCurrent, (context)) \
	X(cuMemGetInfo_v2, (size_t *, size_t *)) \
	X(cuMemAlloc_v2, (address *, size_t)) \
	X(cuMemFree_v2, (address)) \
	X(cuMemHostAlloc, (void **, size_t, unsigned)) \
	X(cuMemFreeHost, (void *)) \
	X(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **)) \
	X(cuModuleUnload, (void *)) \
	X(cuModuleGetFunction, (function *, void *, const char *)) \
	X(cuStreamCreate, (stream *, unsigned)) \
	X(cuStreamDestroy_v2, (stream)) \
	X(cuStreamQuery, (stream)) \
	X(cuStreamSynchronize, (stream)) \
	X(cuStreamWaitEvent, (stream, event, unsigned)) \
	X(cuEventCreate, (event *, unsigned)) \
	X(cuEventDestroy_v2, (event)) \
	X(cuEventRecord, (event, stream)) \
	X(cuEventSynchronize, (event)) \
	X(cuMemcpyHtoDAsync_v2, (address, const void *, size_t, stream)) \
	X(cuMemcpyDtoHAsync_v2, (void *, address, size_t, stream)) \
	X(cuLaunchKernel, (function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, stream, void **, void **)) \
	X(cuGetErrorName, (int, const char **)) \
	X(cuGetErrorString, (int, const char **))

#define CUBLAS_CALLS(X) \
	X(cublasCreate_v2, (blas *)) \
	X(cublasDestroy_v2, (blas)) \
	X(cublasSetStream_v2, (blas, stream)) \
	X(cublasGemmEx, (blas, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int, const void *, void *, int, int, int, int))

// NUMBERS lists own name, NVIDIA's name, value.
#define CUDA_NUMBERS(X) \
	X(out_of_memory, CUDA_ERROR_OUT_OF_MEMORY, 2) \
	X(not_ready, CUDA_ERROR_NOT_READY, 600) \
	X(multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16) \
	X(capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
	X(capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
	X(error_log, CU_JIT_ERROR_LOG_BUFFER, 5) \
	X(error_log_size, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6) \
	X(non_blocking, CU_STREAM_NON_BLOCKING, 1) \
	X(blocking_sync, CU_EVENT_BLOCKING_SYNC, 1) \
	X(no_timing, CU_EVENT_DISABLE_TIMING, 2)

#define CUBLAS_NUMBERS(X) \
	X(not_transposed, CUBLAS_OP_N, 0) \
	X(transposed, CUBLAS_OP_T, 1) \
	X(float32, CUDA_R_32F, 0) \
	X(default_algorithm, CUBLAS_GEMM_DEFAULT, -1) \
	X(compute_fp32, CUBLAS_COMPUTE_32F, 68) \
	X(compute_bf16, CUBLAS_COMPUTE_32F_FAST_16BF, 75) \
	X(compute_tf32, CUBLAS_COMPUTE_32F_FAST_TF32, 77)

#endif
