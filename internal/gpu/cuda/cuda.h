// The part of the CUDA driver's and cuBLAS's interfaces that package cuda calls, and one
// function for each of its operations. A function sets the context, calls, and returns the
// status of the first call that failed, 0 for none.

#ifndef WDLRUN_CUDA_H
#define WDLRUN_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "calls.h"

#define NUMBER(own, name, value) own = value,
enum { CUDA_NUMBERS(NUMBER) CUBLAS_NUMBERS(NUMBER) };
#undef NUMBER

typedef void *context;
typedef void *stream;
typedef void *event;
typedef void *function;
typedef void *blas;
typedef uint64_t address;

enum { cublas_status = 1 << 16 }; // added to a status of cuBLAS

// cuda_open opens the two libraries. It returns 0, or 1 and the reason.
int cuda_open(const char *cuda, const char *cublas, char *reason, size_t size);

// cuda_name names a status and describes it.
void cuda_name(int status, const char **name, const char **text);

// cuda_nothing calls no library: benchmarks measure the crossing from Go to C by it.
int cuda_nothing(context c);

int cuda_init(int *devices);
int cuda_describe(int ordinal, char *name, int size, int *sms, int *major, int *minor);
int cuda_device(int ordinal, context *c, blas *b);
int cuda_uuid(int ordinal, char uuid[16], char gpu[16]);
int cuda_device_close(int ordinal, context c, blas b);
int cuda_memory(context c, size_t *available, size_t *total);
int cuda_alloc(context c, address *at, size_t size);
int cuda_free(context c, address at);
int cuda_pin(context c, void **at, size_t size);
int cuda_unpin(context c, void *at);
int cuda_module(context c, void **module, const char *ptx, char *log, int size);
int cuda_module_close(context c, void *module);
int cuda_function(context c, function *f, void *module, const char *name);
int cuda_stream(context c, stream *s);
int cuda_stream_close(context c, stream s);
int cuda_stream_wait(context c, stream s);
int cuda_event(context c, event *e);
int cuda_event_close(context c, event e);
int cuda_event_record(context c, event e, stream s);
int cuda_event_wait(context c, event e);
int cuda_stream_after(context c, stream s, event e);
// Pinned memory is passed as a number: cgo would look for pointers in it.
int cuda_copy_in(context c, stream s, address to, uintptr_t from, size_t size);
int cuda_copy_out(context c, stream s, uintptr_t to, address from, size_t size);
int cuda_launch(context c, stream s, function f, unsigned blocks, unsigned threads, void *args);
int cuda_multiply(context c, stream s, blas b, int ta, int tb, int m, int n, int k,
	address a, int lda, address b_, int ldb, address c_, int ldc, float beta, int compute);

#endif
