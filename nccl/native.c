//go:build gpu

/* The binding of NCCL: declarations of its own, so that no SDK is needed, and libraries
   that are opened at run time. */

#define _GNU_SOURCE
#include "native.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_ALL_REDUCE, KIND_REDUCE_SCATTER, KIND_ALL_GATHER, KIND_BROADCAST, KIND_SEND, KIND_RECV };

/* How often a launch asks whether a non-blocking call is done before it returns to Go. */
enum { POLLS = 64 };

struct native_library {
#define FIELD(field, name, parameters) int (*field) parameters;
	NCCL_CALLS(FIELD)
	NCCL_CUDA_CALLS(FIELD)
	const char *(*error_string)(int);
	const char *(*last_error)(void *);
};

struct symbol {
	const char *name;
	size_t at;
};

#define SYMBOL(field, name, parameters) {#name, offsetof(struct native_library, field)},
static const struct symbol nccl_symbols[] = {
	NCCL_CALLS(SYMBOL)
	SYMBOL(error_string, ncclGetErrorString, )
	SYMBOL(last_error, ncclGetLastError, )
	{NULL, 0},
};
static const struct symbol cuda_symbols[] = {
	NCCL_CUDA_CALLS(SYMBOL)
	{NULL, 0},
};

/* find fills the symbols of one library, and returns the name of a missing one. */
static const char *find(void *from, const struct symbol *s, struct native_library *lib)
{
	for (; s->name; s++) {
		void *f = dlsym(from, s->name);
		if (!f)
			return s->name;
		*(void **)((char *)lib + s->at) = f;
	}
	return NULL;
}

/* open_nccl finds the version before the other symbols, because an old library lacks some
   of them and its version is what helps. */
static int open_nccl(const char *name, struct native_library *lib, int *version, char *path, char *error)
{
	void *from = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	if (!from) {
		snprintf(error, NATIVE_ERROR, "%s", dlerror());
		return 0;
	}
	snprintf(path, NATIVE_ERROR, "%s", name);
	*version = 0;
	int (*get_version)(int *) = (int (*)(int *))dlsym(from, "ncclGetVersion");
	Dl_info info;
	if (get_version && dladdr((void *)get_version, &info) && info.dli_fname)
		snprintf(path, NATIVE_ERROR, "%s", info.dli_fname);
	if (get_version)
		get_version(version);
	const char *missing = find(from, nccl_symbols, lib);
	if (missing)
		snprintf(error, NATIVE_ERROR, "%.300s has no function %s", path, missing);
	return !missing;
}

struct native_library *native_open(const char *nccl, const char *cuda, int *version, char *path, char *error)
{
	struct native_library *lib = calloc(1, sizeof *lib);
	if (!lib)
		abort();
	void *driver = dlopen(cuda, RTLD_NOW | RTLD_GLOBAL);
	if (!driver) {
		snprintf(error, NATIVE_ERROR, "%s", dlerror());
	} else {
		const char *missing = find(driver, cuda_symbols, lib);
		if (missing)
			snprintf(error, NATIVE_ERROR, "%s has no function %s", cuda, missing);
		else if (open_nccl(nccl, lib, version, path, error))
			return lib;
	}
	free(lib);
	return NULL;
}

/* An exact name, for otherwise eth1 would also select eth10. A value that the user has set stays. */
void native_prefer_interface(const char *name)
{
	char exact[64];
	snprintf(exact, sizeof exact, "=%s", name);
	setenv("NCCL_SOCKET_IFNAME", exact, 0);
}

static int told(const struct native_library *lib, void *comm, int rc, char *error)
{
	if (rc != NATIVE_SUCCESS && rc != NATIVE_IN_PROGRESS) {
		const char *last = lib->last_error(comm);
		snprintf(error, NATIVE_ERROR, "%s%s%s", lib->error_string(rc), last && *last ? ": " : "", last ? last : "");
	}
	return rc;
}

int native_id(const struct native_library *lib, char id[128], char *error)
{
	struct unique_id u;
	int rc = told(lib, NULL, lib->get_unique_id(&u), error);
	if (rc == NATIVE_SUCCESS)
		memcpy(id, u.internal, sizeof u.internal);
	return rc;
}

struct native_comm *native_new(const struct native_library *lib, uintptr_t context)
{
	struct native_comm *c = calloc(1, sizeof *c);
	if (!c)
		abort();
	c->lib = lib;
	c->context = (void *)context;
	return c;
}

void native_free(struct native_comm *c) { free(c); }

/* enter makes the communicator's context that of the thread, which may be any. */
static int enter(struct native_comm *c)
{
	int rc = c->lib->set_context(c->context);
	if (rc == 0)
		return NATIVE_SUCCESS;
	const char *text = NULL;
	c->lib->cuda_error_string(rc, &text);
	snprintf(c->error, NATIVE_ERROR, "cuCtxSetCurrent: %s", text ? text : "unknown error");
	return NATIVE_CUDA_ERROR;
}

static struct config configuration(void)
{
	struct config k = {
		.size = sizeof k, .magic = NATIVE_MAGIC, .version = 21900, .blocking = 0,
		.cgaClusterSize = NATIVE_UNDEFINED, .minCTAs = NATIVE_UNDEFINED, .maxCTAs = NATIVE_UNDEFINED, .splitShare = NATIVE_UNDEFINED, .trafficClass = NATIVE_UNDEFINED,
	};
	return k;
}

int native_init(struct native_comm *c, const char id[128], int size, int rank)
{
	struct unique_id u;
	struct config k = configuration();
	int rc = enter(c);
	if (rc)
		return rc;
	memcpy(u.internal, id, sizeof u.internal);
	return told(c->lib, NULL, c->lib->init(&c->comm, size, u, rank, &k), c->error);
}

int native_state(struct native_comm *c)
{
	int state = NATIVE_SUCCESS;
	int rc = enter(c);
	if (rc == NATIVE_SUCCESS)
		rc = told(c->lib, c->comm, c->lib->async_error(c->comm, &state), c->error);
	return rc ? rc : told(c->lib, c->comm, state, c->error);
}

/* settled waits briefly for a non-blocking call: most are done at once. */
static int settled(struct native_comm *c, int rc)
{
	for (int i = 0; rc == NATIVE_IN_PROGRESS && i < POLLS; i++) {
		int asked = c->lib->async_error(c->comm, &rc);
		if (asked != NATIVE_SUCCESS)
			rc = asked;
	}
	return told(c->lib, c->comm, rc, c->error);
}

static int issue(const struct native_comm *c, uintptr_t on, const struct native_call *k)
{
	const struct native_library *l = c->lib;
	void *stream = (void *)on, *recv = (void *)k->recv;
	const void *send = (const void *)k->send;
	switch (k->kind) {
	case KIND_ALL_REDUCE:
		return l->all_reduce(send, recv, k->count, k->type, k->op, c->comm, stream);
	case KIND_REDUCE_SCATTER:
		return l->reduce_scatter(send, recv, k->count, k->type, k->op, c->comm, stream);
	case KIND_ALL_GATHER:
		return l->all_gather(send, recv, k->count, k->type, c->comm, stream);
	case KIND_BROADCAST:
		return l->broadcast(send, recv, k->count, k->type, k->peer, c->comm, stream);
	case KIND_SEND:
		return l->send(send, k->count, k->type, k->peer, c->comm, stream);
	}
	return l->recv(recv, k->count, k->type, k->peer, c->comm, stream);
}

int native_launch(struct native_comm *c, uintptr_t stream, int kind, int type, int op, int peer, uintptr_t send, uintptr_t recv, size_t count)
{
	struct native_call k = {kind, type, op, peer, send, recv, count};
	int rc = enter(c);
	return rc ? rc : settled(c, issue(c, stream, &k));
}

/* A group is closed whatever happens in it: an open one swallows every later call. The
   error is that of the first call that failed. */
int native_group(struct native_comm *c, uintptr_t stream, const struct native_call *calls, int n)
{
	int rc = enter(c);
	if (rc == NATIVE_SUCCESS)
		rc = told(c->lib, c->comm, c->lib->group_start(), c->error);
	if (rc)
		return rc;
	for (int i = 0; i < n && rc == NATIVE_SUCCESS; i++) {
		rc = issue(c, stream, &calls[i]);
		rc = told(c->lib, c->comm, rc == NATIVE_IN_PROGRESS ? NATIVE_SUCCESS : rc, c->error);
	}
	int end = c->lib->group_end();
	return rc ? rc : settled(c, end);
}

int native_split(struct native_comm *c, int color, int key, struct native_comm *part)
{
	struct config k = configuration();
	int rc = enter(c);
	if (rc)
		return rc;
	return told(c->lib, c->comm, c->lib->split(c->comm, color, key, &part->comm, &k), c->error);
}

int native_world(struct native_comm *c, int *rank, int *size)
{
	int rc = enter(c);
	if (rc == NATIVE_SUCCESS)
		rc = told(c->lib, c->comm, c->lib->count(c->comm, size), c->error);
	return rc ? rc : told(c->lib, c->comm, c->lib->user_rank(c->comm, rank), c->error);
}

int native_finalize(struct native_comm *c)
{
	int rc = enter(c);
	return rc ? rc : told(c->lib, c->comm, c->lib->finalize(c->comm), c->error);
}

int native_destroy(struct native_comm *c)
{
	int rc = enter(c);
	return rc ? rc : told(c->lib, c->comm, c->lib->destroy(c->comm), c->error);
}

int native_abort(struct native_comm *c)
{
	int rc = enter(c);
	return rc ? rc : told(c->lib, c->comm, c->lib->abort(c->comm), c->error);
}

int native_query(struct native_comm *c, uintptr_t stream)
{
	if (enter(c))
		return -1;
	int rc = c->lib->query((void *)stream);
	if (rc == 0 || rc == NATIVE_NOT_READY)
		return rc != 0;
	const char *text = NULL;
	c->lib->cuda_error_string(rc, &text);
	snprintf(c->error, NATIVE_ERROR, "cuStreamQuery: %s", text ? text : "unknown error");
	return -1;
}

int native_nothing(struct native_comm *c) { return c->comm == NULL; }
