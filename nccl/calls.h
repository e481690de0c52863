/* What package nccl uses of NCCL and the CUDA driver: functions, structures, and numbers under the
   names of their headers. tests/headers compares all of it with these headers. */

#ifndef WDLRUN_NCCL_CALLS_H
#define WDLRUN_NCCL_CALLS_H

#include <stddef.h>

/* The part of ncclConfig_t that exists since NCCL 2.19. Later versions append to it and
   read the size, so this prefix is valid for all of them. trafficClass is padding before 2.26,
   which did not change the size. */
struct config {
	size_t size;
	unsigned magic, version;
	int blocking, cgaClusterSize, minCTAs, maxCTAs;
	const char *netName;
	int splitShare, trafficClass;
};

struct unique_id {
	char internal[128];
};

/* CALLS lists own name, name and parameters. All return an int. */
#define NCCL_CALLS(X) \
	X(get_version, ncclGetVersion, (int *)) \
	X(get_unique_id, ncclGetUniqueId, (struct unique_id *)) \
	X(init, ncclCommInitRankConfig, (void **, int, struct unique_id, int, struct config *)) \
	X(split, ncclCommSplit, (void *, int, int, void **, struct config *)) \
	X(finalize, ncclCommFinalize, (void *)) \
	X(destroy, ncclCommDestroy, (void *)) \
	X(abort, ncclCommAbort, (void *)) \
	X(async_error, ncclCommGetAsyncError, (void *, int *)) \
	X(count, ncclCommCount, (void *, int *)) \
	X(user_rank, ncclCommUserRank, (void *, int *)) \
	X(group_start, ncclGroupStart, (void)) \
	X(group_end, ncclGroupEnd, (void)) \
	X(all_reduce, ncclAllReduce, (const void *, void *, size_t, int, int, void *, void *)) \
	X(reduce_scatter, ncclReduceScatter, (const void *, void *, size_t, int, int, void *, void *)) \
	X(all_gather, ncclAllGather, (const void *, void *, size_t, int, void *, void *)) \
	X(broadcast, ncclBroadcast, (const void *, void *, size_t, int, int, void *, void *)) \
	X(send, ncclSend, (const void *, size_t, int, int, void *, void *)) \
	X(recv, ncclRecv, (void *, size_t, int, int, void *, void *))

#define NCCL_CUDA_CALLS(X) \
	X(set_context, cuCtxSetCurrent, (void *)) \
	X(query, cuStreamQuery, (void *)) \
	X(cuda_error_string, cuGetErrorString, (int, const char **))

/* NUMBERS lists own name, name and value. The Go code has the numbers of types and operations again,
   because it compiles without NCCL too. */
#define NCCL_NUMBERS(X) \
	X(NATIVE_SUCCESS, ncclSuccess, 0) \
	X(NATIVE_CUDA_ERROR, ncclUnhandledCudaError, 1) \
	X(NATIVE_REMOTE_ERROR, ncclRemoteError, 6) \
	X(NATIVE_IN_PROGRESS, ncclInProgress, 7) \
	X(NATIVE_UNDEFINED, NCCL_CONFIG_UNDEF_INT, INT_MIN)

#define NCCL_CUDA_NUMBERS(X) \
	X(NATIVE_NOT_READY, CUDA_ERROR_NOT_READY, 600)

#define NATIVE_NUMBER(own, name, value) own = value,
enum { NCCL_NUMBERS(NATIVE_NUMBER) NCCL_CUDA_NUMBERS(NATIVE_NUMBER) };
enum { NATIVE_MAGIC = 0xcafebeef };

#endif
