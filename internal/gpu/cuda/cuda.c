//go:build gpu

#include "cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

// The functions of the libraries. CALLS lists name and parameters.
#define CUDA_CALLS(X) \
	X(cuInit, (unsigned)) \
	X(cuDriverGetVersion, (int *)) \
	X(cuDeviceGetCount, (int *)) \
	X(cuDeviceGet, (int *, int)) \
	X(cuDeviceGetName, (char *, int, int)) \
	X(cuDeviceGetUuid, (char *, int)) \
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
	X(cublasGemmEx, (blas, int, int, int, int, int, const float *, address, int, int, address, int, int, const float *, address, int, int, int, int))

#define DECLARE(name, parameters) static int (*name) parameters;
CUDA_CALLS(DECLARE)
CUBLAS_CALLS(DECLARE)
static const char *(*cublasGetStatusString)(int); // since CUDA 11.4; may be absent

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
	*(void **)&cublasGetStatusString = dlsym(library, "cublasGetStatusString");
	return 0;
}

// The one driver of a process: a second copy would have contexts of its own.
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static void *cuda_library, *cublas_library;

int cuda_open(const char *cuda, const char *cublas, char *reason, size_t size) {
	int failed = 0;
	pthread_mutex_lock(&opening);
	if (!cublas_library) {
		void *library = cuda_library ? cuda_library : open_library(cuda, reason, size);
		failed = !library || find_cuda(library, cuda, reason, size);
		if (!failed) {
			cuda_library = library;
			library = open_library(cublas, reason, size);
			failed = !library || find_cublas(library, cublas, reason, size);
			if (!failed)
				cublas_library = library;
		}
	}
	pthread_mutex_unlock(&opening);
	return failed;
}

void cuda_name(int status, const char **name, const char **text) {
	*name = *text = NULL;
	if (status >= cublas_status) {
		if (cublasGetStatusString)
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

int cuda_version(int *version, int *devices) {
	TRY(cuInit(0));
	TRY(cuDriverGetVersion(version));
	return cuDeviceGetCount(devices);
}

int cuda_device(int ordinal, context *c, blas *b, char *name, int size, int *sms, int *major, int *minor) {
	int device;
	TRY(cuDeviceGet(&device, ordinal));
	TRY(cuDeviceGetName(name, size, device));
	TRY(cuDeviceGetAttribute(sms, 16, device));
	TRY(cuDeviceGetAttribute(major, 75, device));
	TRY(cuDeviceGetAttribute(minor, 76, device));
	TRY(cuDevicePrimaryCtxRetain(c, device));
	WITHIN(*c);
	BLAS(cublasCreate_v2(b));
	return 0;
}

int cuda_uuid(int ordinal, char uuid[16]) {
	int device;
	TRY(cuDeviceGet(&device, ordinal));
	return cuDeviceGetUuid(uuid, device);
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
	enum { error_log = 5, error_log_size = 6 };
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
	enum { non_blocking = 1 };
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
	enum { blocking = 1, no_timing = 2 };
	WITHIN(c);
	return cuEventCreate(e, blocking | no_timing);
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
	enum { float32 = 0, default_algorithm = -1 };
	float alpha = 1;
	WITHIN(c);
	int code = cublasSetStream_v2(b, s);
	if (!code)
		code = cublasGemmEx(b, ta, tb, m, n, k, &alpha, a, float32, lda, b_, float32, ldb, &beta, c_, float32, ldc, compute, default_algorithm);
	if (!code)
		return 0;
	// An earlier fault on the device fails every later call. cuBLAS does not name it; the
	// driver does.
	enum { not_ready = 600 };
	int cause = cuStreamQuery(s);
	return cause && cause != not_ready ? cause : code + cublas_status;
}
