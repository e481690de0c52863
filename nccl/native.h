#ifndef WDLRUN_NCCL_NATIVE_H
#define WDLRUN_NCCL_NATIVE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "calls.h"

/* Room for an error text. */
#define NATIVE_ERROR 512

struct native_library;

/* A communicator, the context it belongs to, and the text of its last error. */
struct native_comm {
	const struct native_library *lib;
	void *comm;
	void *context;
	char error[NATIVE_ERROR];
};

/* One call of a group. */
struct native_call {
	int kind, type, op, peer;
	uintptr_t send, recv; /* addresses on the device */
	size_t count;
};

/* Opens both libraries. Returns NULL and writes a reason to error if one of them, or a
   symbol, is missing. On success path is where libnccl was found. */
struct native_library *native_open(const char *nccl, const char *cuda, int *version, char *path, char *error);
void native_prefer_interface(const char *name);
int native_id(const struct native_library *lib, char id[128], char *error);

struct native_comm *native_new(const struct native_library *lib, uintptr_t context);
void native_free(struct native_comm *c);

/* Each function sets the context, calls NCCL and, if the call fails, copies the error
   text of that call to c->error before it makes any other call. */
int native_init(struct native_comm *c, const char id[128], int size, int rank);
int native_state(struct native_comm *c);
int native_launch(struct native_comm *c, uintptr_t stream, int kind, int type, int op, int peer, uintptr_t send, uintptr_t recv, size_t count);
int native_group(struct native_comm *c, uintptr_t stream, const struct native_call *calls, int n);
int native_split(struct native_comm *c, int color, int key, struct native_comm *part);
int native_world(struct native_comm *c, int *rank, int *size);
int native_finalize(struct native_comm *c);
int native_destroy(struct native_comm *c);
int native_abort(struct native_comm *c);

/* Returns 0 if the stream has completed all its work, 1 if not, −1 after an error. */
int native_query(struct native_comm *c, uintptr_t stream);

/* Does nothing: the cost of crossing from Go to C. */
int native_nothing(struct native_comm *c);

#endif
