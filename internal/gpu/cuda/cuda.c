//go:build gpu

#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>

#define DECLARE(name, parameters) static int (*name) parameters;
CUDA_CALLS(DECLARE)
CUBLAS_CALLS(DECLARE)
static const char *(*cublasGetStatusString)(int);

static void *open_library(const char *names, char *reason, size_t size) {
	void *library = dlopen(names, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		snprintf(reason, size, "%s", dlerror());
	return library;
}

#define FIND(name, parameters)                                              \
	if (!(*(void **)&name = dlsym(library, #name))) {                       \
		snprintf(reason, size, "%s lacks %s: it is too old", path, #name); \
		return 1;                                                           \
	}

static int find_cuda(void *library, const char *path, char *reason, size_t size) {
	CUDA_CALLS(FIND)
	return 0;
}

static int find_cublas(void *library, const char *path, char *reason, size_t size) {
	CUBLAS_CALLS(FIND)
	FIND(cublasGetStatusString, (int))
	return 0;
}

int cuda_open(const char *cuda, const char *cublas, char *reason, size_t size) {
	void *library = open_library(cuda, reason, size);
	if (!library || find_cuda(library, cuda, reason, size))
		return 1;
	library = open_library(cublas, reason, size);
	return !library || find_cublas(library, cublas, reason, size);
}

void cuda_name(int status, const char **name, const char **text) {
	*name = *text = NULL;
	if (status >= cublas_status) {
		*name = cublasGetStatusString(status - cublas_status);
		return;
	}
	cuGetErrorName(status, name);
	cuGetErrorString(status, text);
}

// TRY returns the status of a call that failed; BLAS does so for cuBLAS. WITHIN sets the
// context, which is a property of the thread, and goroutines change threads.
#define TRY(call)          \
	do {                   \
		int s_ = (call);   \
		if (s_)            \
			return s_;     \
	} while (0)
#define BLAS(call)                       \
	do {                                 \
		int s_ = (call);                 \
		if (s_)                          \
			return s_ + cublas_status;   \
	} while (0)
#define WITHIN(c) TRY(cuCtxSetCurrent(c))

int cuda_nothing(context c) { return c == NULL; }

int cuda_init(int *devices) {
	TRY(cuInit(0));
	return cuDeviceGetCount(devices);
}

int cuda_describe(int ordinal, char *name, int size, int *sms, int *major, int *minor) {
	int device;
	TRY(cuDeviceGet(&device, ordinal));
	TRY(cuDeviceGetName(name, size, device));
	TRY(cuDeviceGetAttribute(sms, multiprocessors, device));
	TRY(cuDeviceGetAttribute(major, capability_major, device));
	return cuDeviceGetAttribute(minor, capability_minor, device);
}

int cuda_device(int ordinal, context *c, blas *b) {
	int device;
	TRY(cuDeviceGet(&device, ordinal));
	TRY(cuDevicePrimaryCtxRetain(c, device));
	WITHIN(*c);
	BLAS(cublasCreate_v2(b));
	return 0;
}

int cuda_uuid(int ordinal, char uuid[16], char gpu[16]) {
	int device;
	TRY(cuDeviceGet(&device, ordinal));
	TRY(cuDeviceGetUuid(gpu, device));
	return cuDeviceGetUuid_v2(uuid, device);
}

int cuda_device_close(int ordinal, context c, blas b) {
	int device;
	WITHIN(c);
	BLAS(cublasDestroy_v2(b));
	TRY(cuDeviceGet(&device, ordinal));
	return cuDevicePrimaryCtxRelease_v2(device);
}

int cuda_memory(context c, size_t *available, size_t *total) {
	WITHIN(c);
	return cuMemGetInfo_v2(available, total);
}

int cuda_alloc(context c, address *at, size_t size) {
	WITHIN(c);
	return cuMemAlloc_v2(at, size);
}

int cuda_free(context c, address at) {
	WITHIN(c);
	return cuMemFree_v2(at);
}

int cuda_pin(context c, void **at, size_t size) {
	WITHIN(c);
	return cuMemHostAlloc(at, size, 0);
}

int cuda_unpin(context c, void *at) {
	WITHIN(c);
	return cuMemFreeHost(at);
}

int cuda_module(context c, void **module, const char *ptx, char *log, int size) {
	int options[] = {error_log, error_log_size};
	void *values[] = {log, (void *)(uintptr_t)size};
	WITHIN(c);
	return cuModuleLoadDataEx(module, ptx, 2, options, values);
}

int cuda_module_close(context c, void *module) {
	WITHIN(c);
	return cuModuleUnload(module);
}

int cuda_function(context c, function *f, void *module, const char *name) {
	WITHIN(c);
	return cuModuleGetFunction(f, module, name);
}

int cuda_stream(context c, stream *s) {
	WITHIN(c);
	return cuStreamCreate(s, non_blocking);
}

int cuda_stream_close(context c, stream s) {
	WITHIN(c);
	return cuStreamDestroy_v2(s);
}

int cuda_stream_wait(context c, stream s) {
	WITHIN(c);
	return cuStreamSynchronize(s);
}

int cuda_event(context c, event *e) {
	WITHIN(c);
	return cuEventCreate(e, blocking_sync | no_timing);
}

int cuda_event_close(context c, event e) {
	WITHIN(c);
	return cuEventDestroy_v2(e);
}

int cuda_event_record(context c, event e, stream s) {
	WITHIN(c);
	return cuEventRecord(e, s);
}

int cuda_event_wait(context c, event e) {
	WITHIN(c);
	return cuEventSynchronize(e);
}

int cuda_stream_after(context c, stream s, event e) {
	WITHIN(c);
	return cuStreamWaitEvent(s, e, 0);
}

int cuda_copy_in(context c, stream s, address to, uintptr_t from, size_t size) {
	WITHIN(c);
	return cuMemcpyHtoDAsync_v2(to, (const void *)from, size, s);
}

int cuda_copy_out(context c, stream s, uintptr_t to, address from, size_t size) {
	WITHIN(c);
	return cuMemcpyDtoHAsync_v2((void *)to, from, size, s);
}

int cuda_launch(context c, stream s, function f, unsigned blocks, unsigned threads, void *args) {
	void *parameters[] = {args};
	WITHIN(c);
	return cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, s, parameters, NULL);
}

int cuda_multiply(context c, stream s, blas b, int ta, int tb, int m, int n, int k,
	address a, int lda, address b_, int ldb, address c_, int ldc, float beta, int compute) {
	float alpha = 1;
	WITHIN(c);
	int code = cublasSetStream_v2(b, s);
	if (!code)
		code = cublasGemmEx(b, ta, tb, m, n, k, &alpha, (const void *)a, float32, lda, (const void *)b_, float32, ldb, &beta, (void *)c_, float32, ldc, compute, default_algorithm);
	if (!code)
		return 0;
	// An earlier fault on the device fails every later call. cuBLAS does not name it; the
	// driver does.
	int cause = cuStreamQuery(s);
	return cause && cause != not_ready ? cause : code + cublas_status;
}
