//go:build ignore

/* A stand-in for NCCL that needs no device. Ranks are threads or processes of one host.
   They exchange bytes through pipes in shared memory, in calls that run on a stream
   (cuLaunchHostFunc), as kernels do. The memory is a file whose name begins with SHARED.
   Sums are in the order of ranks.

   It is as unforgiving as NCCL is: a call without the communicator's context is an error,
   ranks that make different calls wait forever, the text of the last error is that of the
   thread's last failed call and is lost with its next call. After each call no context is
   current, because a goroutine may find itself on another thread at any time. The state of groups
   is that of a thread: a thread cannot begin anything before its last call is done, and the group of
   an initialisation that fails stays open.

   WDLRUN_STANDIN_NCCL is read when a communicator is made. It is a list, separated by
   spaces, of

     version=21705    what ncclGetVersion returns (also read there)
     init=hang        initialisation never ends
     init=fail        initialisation fails
     launch=later     each launch is done by another thread, as by NCCL from 2.23 on
     fail=R@N         the N-th call of rank R, from 1, is rejected
     late=R@N         the N-th call of rank R succeeds, and fails asynchronously
     hang=R@N         the N-th call of rank R does not end until it is aborted
     abort=together   an abort waits until all ranks abort, and all communicators of the process
     abort=hang       an abort never ends
     nothing          calls return at once, for benchmarks */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

int cuCtxSetCurrent(void *);
int cuCtxGetCurrent(void **);
int cuLaunchHostFunc(void *, void (*)(void *), void *);

/* Returns the host's address of bytes of the device, NULL if they are not in an allocation. A
   libcuda without this function allocates memory of the host. */
__attribute__((weak)) void *standin_bytes(const void *, size_t);

enum { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
enum { UINT8 = 1, INT64 = 4, FLOAT32 = 7, BFLOAT16 = 9 };
enum { SUM = 0, MAX = 2, MIN = 3 };
enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECV };
enum { MAX_RANKS = 16, MAX_GROUP = 256, PIPE = 1 << 15, SPLITS = 64 };

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

struct pipe {
	_Atomic uint64_t written, read;
	char bytes[PIPE];
};

/* What the ranks of a communicator share. */
struct shared {
	_Atomic int joined, pid[MAX_RANKS], aborted[MAX_RANKS], left[MAX_RANKS];
	struct {
		_Atomic int posted;
		int color, key;
	} splits[SPLITS][MAX_RANKS];
	struct pipe pipes[]; /* from × size + to */
};

struct at {
	int rank, call;
};

struct comm {
	struct shared *shared;
	size_t bytes;
	char *name; /* of the file that the ranks share, until all have opened it */
	int rank, size;
	void *context;
	_Atomic int state, aborted, running, finalized;
	_Atomic uint64_t launched, turn; /* calls run in the order in which they were launched */
	int calls, splits;
	struct at fail, late, hang;
	int init_hangs, abort_hangs, abort_together, nothing, later;
	pthread_t starter;
	int started;
	struct progress *progress; /* of initialisation */
	struct comm *parent;
	int color, key, split;
	_Atomic int parting; /* threads that still use this communicator */
	void **made;
};

struct op {
	int kind, type, op, peer;
	const char *send;
	char *recv;
	size_t count;
};

/* Calls that run together. */
struct group {
	struct comm *comm;
	uint64_t turn;
	void *stream;
	struct progress *progress; /* of a launch on another thread */
	int hangs, late;
	int n;
	struct op ops[];
};

static __thread char last_error[256];
static __thread int depth;
static __thread struct group *open_group;
static __thread void *open_stream;

/* The progress of a call of a thread, which outlives the communicator. */
struct progress {
	_Atomic int done;
};
static __thread struct progress *begun;

static _Atomic int aborting, alive; /* communicators of this process */

static int fails(int rc, const char *text)
{
	snprintf(last_error, sizeof last_error, "%s", text);
	return rc;
}

static const char *option(const char *name)
{
	const char *all = getenv("WDLRUN_STANDIN_NCCL");
	size_t n = strlen(name);
	for (const char *p = all; p && *p; p = strchr(p, ' '), p = p ? p + 1 : p)
		if (!strncmp(p, name, n))
			return p + n;
	return NULL;
}

static struct at place(const char *name)
{
	struct at a = {-1, 0};
	const char *p = option(name);
	if (p)
		sscanf(p, "%d@%d", &a.rank, &a.call);
	return a;
}

static int is(const char *name, const char *value)
{
	const char *p = option(name);
	return p && !strncmp(p, value, strlen(value));
}

static void nap(int *n)
{
	if (++*n < 50) {
		sched_yield();
		return;
	}
	struct timespec t = {0, *n < 500 ? 20000 : 500000};
	nanosleep(&t, NULL);
}

static size_t size_of(int type)
{
	return type == UINT8 ? 1 : type == BFLOAT16 ? 2 : type == FLOAT32 ? 4 : 8;
}

/* enter begins a call on a communicator. */
static int enter(struct comm *c)
{
	void *context = NULL;
	cuCtxGetCurrent(&context);
	last_error[0] = 0;
	if (context != c->context)
		return fails(CUDA_ERROR, "the context of the communicator is not current");
	return SUCCESS;
}

/* leave ends a call: the next one finds another thread's context. */
static int leave(int rc)
{
	cuCtxSetCurrent(NULL);
	return rc;
}

/* busy reports that the last call of this thread is not done. */
static int busy(void) { return begun && !atomic_load(&begun->done); }

/* How the real library says which CUDA it was compiled with. */
#ifndef CUDA
#define CUDA "12.3"
#endif
__attribute__((used)) static const char compiled[] = "NCCL version 2.19.3+cuda" CUDA;

int ncclGetVersion(int *version)
{
	const char *v = option("version=");
	*version = v ? atoi(v) : 21903;
	return SUCCESS;
}

const char *ncclGetErrorString(int rc)
{
	static const char *const texts[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error",
		"invalid argument", "invalid usage", "remote process exited or there was a network error", "NCCL operation in progress"};
	return rc >= 0 && rc <= IN_PROGRESS ? texts[rc] : "unknown result code";
}

const char *ncclGetLastError(void *comm) { return last_error; }

int ncclGetUniqueId(struct unique_id *id)
{
	unsigned char r[16];
	memset(id, 0, sizeof *id);
	if (getrandom(r, sizeof r, 0) != sizeof r)
		return fails(SYSTEM_ERROR, "no random numbers");
	for (int i = 0; i < 16; i++)
		sprintf(id->internal + 2 * i, "%02x", r[i]);
	return SUCCESS;
}

/* share maps what the ranks share. */
static int share(struct comm *c)
{
	c->bytes = sizeof(struct shared) + (size_t)c->size * c->size * sizeof(struct pipe);
	int fd = open(c->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, c->bytes)) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	void *p = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return 0;
	c->shared = p;
	return 1;
}

/* meet waits for all ranks. The last one that comes removes the name. */
static void meet(struct comm *c)
{
	int n = 0;
	atomic_store(&c->shared->pid[c->rank], (int)getpid());
	if (atomic_fetch_add(&c->shared->joined, 1) == c->size - 1)
		unlink(c->name);
	while ((c->init_hangs || atomic_load(&c->shared->joined) < c->size) && !atomic_load(&c->aborted) && !(c->parent && atomic_load(&c->parent->aborted)))
		nap(&n);
}

static void *start(void *x)
{
	struct comm *c = x;
	meet(c);
	atomic_store(&c->state, SUCCESS);
	atomic_store(&c->progress->done, 1);
	return NULL;
}

/* colors waits for the colors of all ranks of the parent, and numbers those of c's own. It
   returns 0 if it is aborted. */
static int colors(struct comm *c, struct comm *p)
{
	int n = 0, slot = c->split % SPLITS;
	for (int r = 0; r < p->size; r++)
		while (atomic_load(&p->shared->splits[slot][r].posted) < c->split)
			if (atomic_load(&p->aborted) || atomic_load(&c->aborted))
				return 0;
			else
				nap(&n);
	c->size = c->rank = 0;
	for (int r = 0; r < p->size; r++) {
		int color = p->shared->splits[slot][r].color, key = p->shared->splits[slot][r].key;
		if (color != c->color)
			continue;
		c->size++;
		if (key < c->key || (key == c->key && r < p->rank))
			c->rank++;
	}
	return 1;
}

/* part meets the ranks of a part, and then writes to the memory of the caller, who may have given
   up. An abort of the parent ends it. */
static void *part(void *x)
{
	struct comm *c = x, *p = c->parent;
	int found = colors(c, p), shares = found && share(c);
	if (shares)
		meet(c);
	if (*c->made) { /* free() of glibc has written there */
		fprintf(stderr, "the memory of a part was freed while NCCL still writes to it\n");
		abort();
	}
	if (atomic_load(&p->aborted)) {
		if (shares)
			unlink(c->name);
		*c->made = NULL;
	} else {
		atomic_store(&c->state, shares ? SUCCESS : SYSTEM_ERROR);
		atomic_fetch_add(&alive, 1);
		*c->made = c;
	}
	atomic_store(&p->state, SUCCESS);
	atomic_store(&c->progress->done, 1);
	atomic_fetch_sub(&p->parting, 1);
	return NULL;
}

static struct comm *new_comm(void)
{
	struct comm *c = calloc(1, sizeof *c);
	cuCtxGetCurrent(&c->context);
	c->state = IN_PROGRESS;
	c->fail = place("fail=");
	c->late = place("late=");
	c->hang = place("hang=");
	c->init_hangs = is("init=", "hang");
	c->abort_hangs = is("abort=", "hang");
	c->abort_together = is("abort=", "together");
	c->nothing = option("nothing") != NULL;
	c->later = is("launch=", "later");
	begun = c->progress = calloc(1, sizeof *begun); /* never freed: threads refer to it */
	return c;
}

int ncclCommInitRankConfig(void **out, int size, struct unique_id id, int rank, struct config *k)
{
	void *context = NULL;
	cuCtxGetCurrent(&context);
	last_error[0] = 0;
	if (!context)
		return fails(CUDA_ERROR, "no context is current");
	if (busy() || depth)
		return leave(fails(INVALID_USAGE, busy() ? "an earlier call of this thread is not done" : "a group is open"));
	if (is("init=", "fail")) {
		depth++;
		return leave(fails(SYSTEM_ERROR, "the stand-in does not initialise"));
	}
	if (k->magic != 0xcafebeef || k->size < 48 || k->version < 21900 || k->version > 21903)
		return leave(fails(INVALID_ARGUMENT, "the configuration is not initialised"));
	if (k->blocking != 0 || k->minCTAs != INT_MIN || k->splitShare != INT_MIN || k->trafficClass != INT_MIN)
		return leave(fails(INVALID_ARGUMENT, "the configuration is not that of a communicator that does not block"));
	if (size > MAX_RANKS || strlen(id.internal) != 32)
		return leave(fails(INVALID_ARGUMENT, "an id that ncclGetUniqueId did not make, or too many ranks"));
	struct comm *c = new_comm();
	c->rank = rank;
	c->size = size;
	if (asprintf(&c->name, SHARED "-%.32s", id.internal) < 0)
		abort();
	if (!share(c))
		return leave(fails(SYSTEM_ERROR, "no shared memory"));
	*out = c;
	atomic_fetch_add(&alive, 1);
	c->started = !pthread_create(&c->starter, NULL, start, c);
	return leave(IN_PROGRESS);
}

int ncclCommSplit(void *parent, int color, int key, void **out, struct config *k)
{
	struct comm *p = parent;
	int rc = enter(p);
	if (rc)
		return rc;
	if (busy())
		return leave(fails(INVALID_USAGE, "an earlier call of this thread is not done"));
	int slot = ++p->splits % SPLITS;
	p->shared->splits[slot][p->rank].color = color;
	p->shared->splits[slot][p->rank].key = key;
	atomic_store(&p->shared->splits[slot][p->rank].posted, p->splits);
	*out = NULL;
	if (color < 0)
		return leave(SUCCESS);
	struct comm *c = new_comm();
	c->parent = p;
	c->split = p->splits;
	c->color = color;
	c->key = key;
	if (asprintf(&c->name, "%s-%d-%d", p->name, p->splits, color) < 0)
		abort();
	c->made = out;
	atomic_store(&p->state, IN_PROGRESS);
	atomic_fetch_add(&p->parting, 1);
	if (!(c->started = !pthread_create(&c->starter, NULL, part, c)))
		abort();
	return leave(IN_PROGRESS);
}

int ncclCommGetAsyncError(void *comm, int *state)
{
	*state = atomic_load(&((struct comm *)comm)->state);
	if (*state == REMOTE_ERROR)
		fails(REMOTE_ERROR, "a peer is gone");
	return SUCCESS;
}

int ncclCommCount(void *comm, int *size)
{
	*size = ((struct comm *)comm)->size;
	return SUCCESS;
}

int ncclCommUserRank(void *comm, int *rank)
{
	*rank = ((struct comm *)comm)->rank;
	return SUCCESS;
}

static void release(struct comm *c)
{
	if (c->started)
		pthread_join(c->starter, NULL);
	atomic_store(&c->progress->done, 1);
	int n = 0;
	while (atomic_load(&c->running) || atomic_load(&c->parting))
		nap(&n);
	if (c->shared) {
		if (atomic_load(&c->shared->joined) < c->size)
			unlink(c->name);
		atomic_store(&c->shared->left[c->rank], 1);
		munmap(c->shared, c->bytes);
	}
	atomic_fetch_sub(&alive, 1);
	free(c->name);
	free(c);
}

int ncclCommFinalize(void *comm)
{
	struct comm *c = comm;
	int rc = enter(c);
	if (rc)
		return rc;
	c->finalized = 1;
	return leave(atomic_load(&c->running) ? IN_PROGRESS : SUCCESS);
}

int ncclCommDestroy(void *comm)
{
	struct comm *c = comm;
	int rc = enter(c);
	if (rc)
		return rc;
	if (!c->finalized)
		return leave(fails(INVALID_USAGE, "destroyed before it was finalized"));
	release(c);
	return leave(SUCCESS);
}

/* all_abort waits until every rank of the communicator is in its abort, and every
   communicator of this process. */
static void all_abort(struct comm *c)
{
	int n = 0;
	while (atomic_load(&aborting) < atomic_load(&alive))
		nap(&n);
	for (int r = 0; c->shared && r < c->size; r++)
		while (!atomic_load(&c->shared->aborted[r]))
			nap(&n);
}

int ncclCommAbort(void *comm)
{
	struct comm *c = comm;
	int rc = enter(c);
	if (rc)
		return rc;
	int n = 0;
	if (c->abort_hangs)
		atomic_fetch_sub(&alive, 1); /* no other test waits for it */
	while (c->abort_hangs)
		nap(&n);
	atomic_store(&c->aborted, 1);
	if (c->shared)
		atomic_store(&c->shared->aborted[c->rank], 1);
	atomic_fetch_add(&aborting, 1);
	if (c->abort_together)
		all_abort(c);
	while (atomic_load(&c->running))
		nap(&n);
	atomic_fetch_sub(&aborting, 1);
	release(c);
	return leave(SUCCESS);
}

/* A message is a header and bytes. */
struct header {
	int kind, type, op, peer;
	uint64_t count;
};

struct transfer {
	struct header header, seen;
	int peer, sends;
	char *data;
	size_t bytes, at; /* at counts the header too */
	int stuck;
};

struct exchange {
	int n;
	struct transfer all[MAX_GROUP * MAX_RANKS];
};

/* lost ends the call if the process of a peer is gone. */
static int lost(struct comm *c, int peer)
{
	int pid = atomic_load(&c->shared->pid[peer]);
	if (pid && kill(pid, 0) && errno == ESRCH) {
		atomic_store(&c->state, REMOTE_ERROR);
		return 1;
	}
	return 0;
}

/* move moves what it can of a transfer, and returns how much. */
static size_t move(struct comm *c, struct transfer *t)
{
	int from = t->sends ? c->rank : t->peer, to = t->sends ? t->peer : c->rank;
	struct pipe *p = &c->shared->pipes[from * c->size + to];
	uint64_t written = atomic_load(&p->written), read = atomic_load(&p->read);
	size_t free = t->sends ? PIPE - (written - read) : written - read, done = 0;
	const size_t head = sizeof t->header;
	while (done < free && t->at < head + t->bytes && !t->stuck) {
		char *mine = t->at < head ? (char *)(t->sends ? &t->header : &t->seen) + t->at : t->data + (t->at - head);
		size_t left = t->at < head ? head - t->at : head + t->bytes - t->at;
		size_t at = ((t->sends ? written : read) + done) % PIPE, n = free - done;
		n = n < left ? n : left;
		n = n < PIPE - at ? n : PIPE - at;
		if (t->sends)
			memcpy(p->bytes + at, mine, n);
		else
			memcpy(mine, p->bytes + at, n);
		done += n;
		t->at += n;
		if (!t->sends && t->at == head && memcmp(&t->header, &t->seen, head))
			t->stuck = 1; /* ranks that made different calls wait forever */
	}
	if (t->sends)
		atomic_fetch_add(&p->written, done);
	else
		atomic_fetch_add(&p->read, done);
	return done;
}

/* first reports whether no earlier transfer with the same peer in the same direction is
   left. */
static int first(struct exchange *x, int i)
{
	for (int k = 0; k < i; k++) {
		struct transfer *a = &x->all[k], *b = &x->all[i];
		if (a->peer == b->peer && a->sends == b->sends && a->at < sizeof a->header + a->bytes)
			return 0;
	}
	return 1;
}

/* run_exchange moves all bytes, in any order. It returns 0 if it was aborted. */
static int run_exchange(struct comm *c, struct exchange *x)
{
	int n = 0;
	for (;;) {
		int left = 0;
		size_t moved = 0;
		for (int i = 0; i < x->n; i++) {
			struct transfer *t = &x->all[i];
			if (t->at == sizeof t->header + t->bytes)
				continue;
			left++;
			if (first(x, i))
				moved += move(c, t);
			if (!moved && n > 100 && n % 64 == 0 && lost(c, t->peer))
				return 0;
		}
		if (!left)
			return 1;
		if (atomic_load(&c->aborted))
			return 0;
		if (moved)
			n = 0;
		else
			nap(&n);
	}
}

static void add(struct exchange *x, const struct op *o, int peer, int sends, const void *data, size_t count)
{
	struct transfer *t = &x->all[x->n++];
	memset(t, 0, sizeof *t);
	t->header = (struct header){o->kind < SEND ? o->kind : SEND, o->type, o->op, o->kind == BROADCAST ? o->peer : 0, count};
	t->peer = peer;
	t->sends = sends;
	t->data = (char *)data;
	t->bytes = count * size_of(o->type);
}

static float widen(uint16_t b)
{
	uint32_t u = (uint32_t)b << 16;
	float f;
	memcpy(&f, &u, 4);
	return f;
}

static uint16_t narrow(float f)
{
	uint32_t u;
	memcpy(&u, &f, 4);
	return f != f ? u >> 16 | 64 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

#define JOIN(T, a, b) (op == SUM ? (T)((a) + (b)) : op == MAX ? ((a) > (b) ? (a) : (b)) : ((a) < (b) ? (a) : (b)))

static void join(int type, int op, char *to, const char *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		switch (type) {
		case FLOAT32:
			((float *)to)[i] = JOIN(float, ((float *)to)[i], ((float *)from)[i]);
			break;
		case INT64:
			((int64_t *)to)[i] = JOIN(int64_t, ((int64_t *)to)[i], ((int64_t *)from)[i]);
			break;
		case BFLOAT16:
			((uint16_t *)to)[i] = narrow(JOIN(float, widen(((uint16_t *)to)[i]), widen(((uint16_t *)from)[i])));
			break;
		default:
			((uint8_t *)to)[i] = JOIN(uint8_t, ((uint8_t *)to)[i], ((uint8_t *)from)[i]);
		}
}

/* reduce runs AllReduce and ReduceScatter: every rank gets the parts of all that it
   needs, and joins them in the order of ranks. */
static int reduce(struct comm *c, struct op *o, struct exchange *x)
{
	size_t part = o->count * size_of(o->type), apart = o->kind == REDUCE_SCATTER ? part : 0;
	char *parts = malloc(part * c->size + 1);
	for (int r = 0; r < c->size; r++) {
		if (r == c->rank) {
			memcpy(parts + r * part, o->send + r * apart, part);
			continue;
		}
		add(x, o, r, 1, o->send + r * apart, o->count);
		add(x, o, r, 0, parts + r * part, o->count);
	}
	int ok = run_exchange(c, x);
	for (int r = 1; ok && r < c->size; r++)
		join(o->type, o->op, parts, parts + r * part, o->count);
	if (ok)
		memcpy(o->recv, parts, part);
	free(parts);
	return ok;
}

static int all_gather(struct comm *c, struct op *o, struct exchange *x)
{
	size_t part = o->count * size_of(o->type);
	memmove(o->recv + c->rank * part, o->send, part);
	for (int r = 0; r < c->size; r++)
		if (r != c->rank) {
			add(x, o, r, 1, o->recv + c->rank * part, o->count);
			add(x, o, r, 0, o->recv + r * part, o->count);
		}
	return run_exchange(c, x);
}

static int broadcast(struct comm *c, struct op *o, struct exchange *x)
{
	if (c->rank != o->peer) {
		add(x, o, o->peer, 0, o->recv, o->count);
		return run_exchange(c, x);
	}
	memmove(o->recv, o->send, o->count * size_of(o->type));
	for (int r = 0; r < c->size; r++)
		if (r != c->rank)
			add(x, o, r, 1, o->recv, o->count);
	return run_exchange(c, x);
}

/* run is a group on its stream. */
static void run(void *with)
{
	struct group *g = with;
	struct comm *c = g->comm;
	struct exchange *x = malloc(sizeof *x);
	int n = 0, ok = 1;
	while (atomic_load(&c->turn) != g->turn && !atomic_load(&c->aborted))
		nap(&n);
	while (g->hangs && !atomic_load(&c->aborted))
		nap(&n);
	x->n = 0;
	for (int i = 0; i < g->n; i++)
		if (g->ops[i].kind >= SEND) {
			struct op *o = &g->ops[i];
			add(x, o, o->peer, o->kind == SEND, o->kind == SEND ? o->send : o->recv, o->count);
		}
	ok = !g->hangs && run_exchange(c, x); /* one that hangs gives its peers nothing, even when aborted */
	for (int i = 0; ok && i < g->n; i++) {
		struct op *o = &g->ops[i];
		x->n = 0;
		if (o->kind == ALL_REDUCE || o->kind == REDUCE_SCATTER)
			ok = reduce(c, o, x);
		else if (o->kind == ALL_GATHER)
			ok = all_gather(c, o, x);
		else if (o->kind == BROADCAST)
			ok = broadcast(c, o, x);
	}
	if (!ok) /* the stream stays busy, as with a kernel that waits */
		while (!atomic_load(&c->aborted))
			nap(&n);
	if (g->late)
		atomic_store(&c->state, REMOTE_ERROR);
	atomic_fetch_add(&c->turn, 1);
	free(x);
	free(g);
	atomic_fetch_sub(&c->running, 1);
}

/* find replaces addresses of the device by those of the host. */
static int find(struct comm *c, struct op *o)
{
	size_t sends = o->count * size_of(o->type), recvs = sends;
	if (!standin_bytes || !sends)
		return 1;
	if (o->kind == REDUCE_SCATTER)
		sends *= c->size;
	if (o->kind == ALL_GATHER)
		recvs *= c->size;
	if (o->kind != RECV && (o->kind != BROADCAST || o->peer == c->rank) && !(o->send = standin_bytes(o->send, sends)))
		return 0;
	return o->kind == SEND || (o->recv = standin_bytes(o->recv, recvs));
}

static int is_at(struct comm *c, struct at a) { return a.rank == c->rank && a.call == c->calls; }

static int enqueue(struct group *g)
{
	struct comm *c = g->comm;
	if (cuLaunchHostFunc(g->stream, run, g)) {
		atomic_fetch_sub(&c->running, 1);
		return fails(CUDA_ERROR, "the stream takes no work");
	}
	return SUCCESS;
}

/* enqueue_later is enqueue on a thread of its own. */
static void *enqueue_later(void *x)
{
	struct group *g = x;
	struct comm *c = g->comm;
	struct progress *p = g->progress;
	struct timespec t = {0, 1000000};
	nanosleep(&t, NULL);
	cuCtxSetCurrent(c->context);
	int rc = enqueue(g); /* g may be gone */
	atomic_store(&c->state, rc);
	atomic_fetch_sub(&c->parting, 1);
	atomic_store(&p->done, 1);
	return NULL;
}

static int launch(struct group *g, void *stream)
{
	struct comm *c = g->comm;
	g->turn = atomic_fetch_add(&c->launched, 1);
	g->stream = stream;
	atomic_fetch_add(&c->running, 1);
	if (!c->later)
		return enqueue(g);
	pthread_t thread;
	begun = g->progress = calloc(1, sizeof *begun);
	atomic_store(&c->state, IN_PROGRESS);
	atomic_fetch_add(&c->parting, 1);
	if (pthread_create(&thread, NULL, enqueue_later, g))
		abort();
	pthread_detach(thread);
	return IN_PROGRESS;
}

static int call(struct comm *c, void *stream, struct op o)
{
	int rc = enter(c);
	if (rc)
		return rc;
	if (c->nothing)
		return SUCCESS;
	if (atomic_load(&c->state) == IN_PROGRESS)
		return leave(fails(INVALID_USAGE, "the communicator is not ready"));
	if (busy())
		return leave(fails(INVALID_USAGE, "an earlier call of this thread is not done"));
	c->calls++;
	if (is_at(c, c->fail))
		return leave(fails(INVALID_ARGUMENT, "the stand-in rejects this call"));
	if (!find(c, &o))
		return leave(fails(INVALID_ARGUMENT, "not memory of the device"));
	struct group *g = open_group;
	if (!g) {
		g = calloc(1, sizeof *g + MAX_GROUP * sizeof g->ops[0]);
		g->comm = c;
	}
	if (g->comm != c || g->n == MAX_GROUP)
		return leave(fails(INVALID_USAGE, "too many calls or communicators in a group"));
	g->ops[g->n++] = o;
	g->hangs |= is_at(c, c->hang);
	g->late |= is_at(c, c->late);
	if (depth) { /* the context stays: it is one crossing */
		open_group = g;
		open_stream = stream;
		return SUCCESS;
	}
	return leave(launch(g, stream));
}

int ncclGroupStart(void)
{
	last_error[0] = 0;
	depth++;
	return SUCCESS;
}

int ncclGroupEnd(void)
{
	struct group *g = open_group;
	last_error[0] = 0;
	if (depth == 0)
		return fails(INVALID_USAGE, "no group is open");
	if (--depth || !g)
		return SUCCESS;
	open_group = NULL;
	return leave(launch(g, open_stream));
}

int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream)
{
	return call(comm, stream, (struct op){ALL_REDUCE, type, op, 0, send, recv, count});
}

int ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream)
{
	return call(comm, stream, (struct op){REDUCE_SCATTER, type, op, 0, send, recv, count});
}

int ncclAllGather(const void *send, void *recv, size_t count, int type, void *comm, void *stream)
{
	return call(comm, stream, (struct op){ALL_GATHER, type, 0, 0, send, recv, count});
}

int ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, void *comm, void *stream)
{
	return call(comm, stream, (struct op){BROADCAST, type, 0, root, send, recv, count});
}

int ncclSend(const void *send, size_t count, int type, int peer, void *comm, void *stream)
{
	return call(comm, stream, (struct op){SEND, type, 0, peer, send, NULL, count});
}

#ifndef LACKS_RECV
int ncclRecv(void *recv, size_t count, int type, int peer, void *comm, void *stream)
{
	return call(comm, stream, (struct op){RECV, type, 0, peer, NULL, recv, count});
}
#endif
