// A stand-in of libcuda.so.1 for tests without a device. It is stricter than a driver:
//
//   - Memory of the device starts as bytes 0xA5 and faults when the host touches it: its
//     addresses map nothing, and its bytes are device_shift further.
//   - A stream is a thread; copies read and write pinned memory when their turn comes. With
//     STANDIN_LAZY=1, a stream does nothing until a call, or another stream, waits for it: what
//     depends on its work without a wait always reads what was there before.
//   - Memory is not freed while a stream has a copy of it to make.
//   - A call on a thread without a context, an address outside an allocation, host memory
//     that is not pinned, and a kernel that the PTX does not declare are errors.
//   - A kernel reads and writes only memory that is allocated, at addresses that are multiples of the
//     size of what it reads or writes.
//   - Every second launch runs its threads from the last to the first. Kernels run as C that cudatest
//     has translated from the PTX that is loaded, or, if it was built with the C source of kernels, as
//     their twins.
//
// The environment describes the machine: STANDIN_DEVICES (1), STANDIN_MEMORY (16 GiB),
// STANDIN_OTHERS (bytes of it that other processes use, 0), STANDIN_VERSION (12040),
// STANDIN_CAPABILITY (75), STANDIN_MULTIPROCESSORS (2), STANDIN_LAZY (0), STANDIN_MIG (1: all devices are instances of one GPU) and STANDIN_FAULT, as of standin_fault: "CALL AFTER CODE". CUDA_VISIBLE_DEVICES is a list of numbers, as the driver's is.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "standin.h"

enum {
	ok = 0,
	invalid_value = 1,
	out_of_memory = 2,
	not_initialized = 3,
	no_device = 100,
	invalid_device = 101,
	invalid_image = 200,
	invalid_context = 201,
	ecc_uncorrectable = 214,
	unsupported_ptx = 222,
	invalid_handle = 400,
	not_found = 500,
	not_ready = 600,
	illegal_address = 700,
	launch_timeout = 702,
	misaligned_address = 716,
	launch_failed = 719,
};

static const struct { int code; const char *name, *text; } statuses[] = {
	{invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
	{invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{ecc_uncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
	{unsupported_ptx, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
	{invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
	{misaligned_address, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
	{launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

int cuGetErrorName(int code, const char **name) {
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		if (statuses[i].code == code)
			return *name = statuses[i].name, ok;
	return *name = NULL, invalid_value;
}

int cuGetErrorString(int code, const char **text) {
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		if (statuses[i].code == code)
			return *text = statuses[i].text, ok;
	return *text = NULL, invalid_value;
}

// ---- State, behind one lock.

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialized;
static int sticky; // the fault of an operation: every later call reports it
static int lazy;   // STANDIN_LAZY

static long number(const char *name, long otherwise) {
	const char *text = getenv(name);
	return text && *text ? atol(text) : otherwise;
}

// ---- Faults that a test injects.

static struct { char call[64]; int after, code; } fault;

// standin_fault makes a call fail after so many more that do not. The name of a call with a
// leading ~ stands for its work: the stream fails, and later calls report it.
void standin_fault(const char *call, int after, int code) {
	pthread_mutex_lock(&lock);
	snprintf(fault.call, sizeof fault.call, "%s", call);
	fault.after = after, fault.code = code;
	pthread_mutex_unlock(&lock);
}

// injected is called with the lock.
static int injected(const char *call) {
	if (!fault.code || strcmp(fault.call, call) || fault.after-- > 0)
		return ok;
	int code = fault.code;
	fault.code = 0;
	return code;
}

// ---- What was enqueued, in the order of the calls, while a test records it.

enum { most_noted = 4096 };
static struct { char what[64]; address at; } noted[most_noted];
static int noting, notes;

void standin_note(const char *what, address at) {
	pthread_mutex_lock(&lock);
	if (noting && notes < most_noted) {
		snprintf(noted[notes].what, sizeof noted[notes].what, "%s", what);
		noted[notes++].at = at;
	}
	pthread_mutex_unlock(&lock);
}

// standin_record starts to record, or ends it.
void standin_record(int on) {
	pthread_mutex_lock(&lock);
	noting = on;
	notes = on ? 0 : notes;
	pthread_mutex_unlock(&lock);
}

// standin_noted returns note i, NULL after the last.
const char *standin_noted(int i, address *at) {
	if (i >= notes)
		return NULL;
	return *at = noted[i].at, noted[i].what;
}

// ---- Contexts. A device has one, counted.

enum { most_devices = 16 };
static struct context { int users; size_t used; } contexts[most_devices];
static __thread struct context *current;

int standin_enter(const char *call, int needs_context) {
	pthread_mutex_lock(&lock);
	int code = injected(call);
	if (!code && !initialized)
		code = not_initialized;
	if (!code && needs_context && (!current || !current->users))
		code = invalid_context;
	if (!code)
		code = sticky;
	pthread_mutex_unlock(&lock);
	return code;
}

// standin_nothing makes most calls return at once, and without effect, so that a benchmark
// measures what calls them.
static int nothing;
void standin_nothing(int on) { nothing = on; }

#define ENTER(call, needs_context)                    \
	do {                                              \
		if (nothing)                                  \
			return ok;                                \
		int s_ = standin_enter(call, needs_context);  \
		if (s_)                                       \
			return s_;                                \
	} while (0)

// visible lists the devices that the process may use, in its order, and counts them.
static int visible(int list[most_devices]) {
	int all = (int)number("STANDIN_DEVICES", 1), n = 0;
	const char *text = getenv("CUDA_VISIBLE_DEVICES");
	if (!text) {
		for (; n < all && n < most_devices; n++)
			list[n] = n;
		return n;
	}
	for (; *text && n < most_devices; n++) {
		char *end;
		list[n] = (int)strtol(text, &end, 10);
		if (end == text || list[n] < 0 || list[n] >= all)
			break; // the driver ignores the rest
		text = *end ? end + 1 : end;
	}
	return n;
}

static int devices(void) {
	int list[most_devices];
	return visible(list);
}

int cuInit(unsigned flags) {
	const char *text = getenv("STANDIN_FAULT");
	pthread_mutex_lock(&lock);
	if (!initialized && text)
		sscanf(text, "%63s %d %d", fault.call, &fault.after, &fault.code);
	initialized = 1, lazy = (int)number("STANDIN_LAZY", 0);
	pthread_mutex_unlock(&lock);
	return flags ? invalid_value : devices() > 0 ? ok : no_device;
}

int cuDriverGetVersion(int *version) { return *version = (int)number("STANDIN_VERSION", 12040), ok; }

int cuDeviceGetCount(int *count) {
	ENTER("cuDeviceGetCount", 0);
	return *count = devices(), ok;
}

int cuDeviceGet(int *device, int ordinal) {
	ENTER("cuDeviceGet", 0);
	int list[most_devices];
	return ordinal < 0 || ordinal >= visible(list) ? invalid_device : (*device = list[ordinal], ok);
}

int cuDeviceGetUuid_v2(char uuid[16], int device) {
	ENTER("cuDeviceGetUuid", 0);
	memcpy(uuid, "stand-in device ", 16);
	return uuid[15] = (char)device, ok;
}

// Instances of a GPU (MIG) have its identifier here.
int cuDeviceGetUuid(char uuid[16], int device) {
	return cuDeviceGetUuid_v2(uuid, number("STANDIN_MIG", 0) ? 0 : device);
}

int cuDeviceGetName(char *name, int size, int device) {
	ENTER("cuDeviceGetName", 0);
	return snprintf(name, size, "Stand-in %d", device), ok;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
	ENTER("cuDeviceGetAttribute", 0);
	int capability = (int)number("STANDIN_CAPABILITY", 75);
	(void)device;
	switch (attribute) {
	case 16: return *value = (int)number("STANDIN_MULTIPROCESSORS", 2), ok;
	case 75: return *value = capability / 10, ok;
	case 76: return *value = capability % 10, ok;
	}
	return invalid_value;
}

int cuDevicePrimaryCtxRetain(void **c, int device) {
	ENTER("cuDevicePrimaryCtxRetain", 0);
	if (device < 0 || device >= most_devices)
		return invalid_device;
	contexts[device].users++;
	return *c = &contexts[device], ok;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
	ENTER("cuDevicePrimaryCtxRelease", 0);
	contexts[device].users--;
	return ok;
}

int cuCtxSetCurrent(void *c) {
	current = c;
	return ok;
}

int cuCtxGetCurrent(void **c) {
	*c = current;
	return ok;
}

// ---- Memory. No address is used twice.

static int copied_later(const char *at, size_t size);

long device_shift;
static const size_t space = 1ul << 36;
static char *device_space, *device_bytes;
static size_t space_used;

enum { page = 4096, most_ranges = 4096 };
static unsigned char *mapped; // by page of the device's memory: whether it is allocated
static struct range { address at; size_t size; int pinned; struct context *of; } ranges[most_ranges];

static int reserve(void) {
	if (device_space)
		return 1;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *a = mmap(NULL, space, PROT_NONE, flags, -1, 0), *b = mmap(NULL, space, PROT_NONE, flags, -1, 0);
	void *m = mmap(NULL, space / page, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (a == MAP_FAILED || b == MAP_FAILED || m == MAP_FAILED)
		return 0;
	mapped = m, device_space = a, device_bytes = b, device_shift = b - a;
	return 1;
}

static struct range *range_of(address at, size_t size, int pinned) {
	for (int i = 0; i < most_ranges; i++)
		if (ranges[i].size && ranges[i].pinned == pinned && at >= ranges[i].at && at + size <= ranges[i].at + ranges[i].size)
			return &ranges[i];
	return NULL;
}

int standin_range(address at, size_t size) {
	pthread_mutex_lock(&lock);
	int found = range_of(at, size, 0) != NULL;
	pthread_mutex_unlock(&lock);
	return found;
}

// standin_bad is the status of an access of a kernel to size bytes, 0 if they may be accessed.
int standin_bad(address at, size_t size) {
	address offset = at - (address)device_space;
	return offset >= space || !mapped[offset / page] ? illegal_address : at % size ? misaligned_address : ok;
}

// standin_bytes returns the host's address of bytes of the device, for the stand-in of NCCL.
void *standin_bytes(const void *at, size_t size) {
	return standin_range((address)at, size) ? (char *)at + device_shift : NULL;
}

static struct range *spare(void) {
	for (int i = 0; i < most_ranges; i++)
		if (!ranges[i].size)
			return &ranges[i];
	return NULL;
}

static size_t memory(void) { return (size_t)number("STANDIN_MEMORY", 1l << 34); }

// others is what other processes use of it.
static size_t others(void) { return (size_t)number("STANDIN_OTHERS", 0); }

int cuMemGetInfo_v2(size_t *available, size_t *total) {
	ENTER("cuMemGetInfo", 1);
	pthread_mutex_lock(&lock);
	*total = memory(), *available = *total - others() - current->used;
	pthread_mutex_unlock(&lock);
	return ok;
}

static unsigned long long allocations;

// standin_allocations returns how often memory of a device or pinned memory was allocated.
unsigned long long standin_allocations(void) {
	pthread_mutex_lock(&lock);
	unsigned long long n = allocations;
	pthread_mutex_unlock(&lock);
	return n;
}

int cuMemAlloc_v2(address *at, size_t size) {
	ENTER("cuMemAlloc", 1);
	if (!size)
		return invalid_value;
	pthread_mutex_lock(&lock);
	allocations++;
	size_t pages = (size + page - 1) / page * page;
	struct range *r = spare();
	int code = ok;
	if (!r || !reserve() || current->used + size + others() > memory() || space_used + pages + page > space) {
		code = out_of_memory;
	} else if (mprotect(device_bytes + space_used, pages, PROT_READ | PROT_WRITE)) {
		code = out_of_memory;
	} else {
		// Its end is the end of a page, as far as buffers are aligned, and a page without
		// memory follows.
		size_t begin = (pages - size) / 256 * 256;
		memset(device_bytes + space_used, 0xA5, pages);
		memset(mapped + space_used / page, 1, pages / page);
		*at = (address)(device_space + space_used + begin);
		*r = (struct range){*at, size, 0, current};
		space_used += pages + page;
		current->used += size;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuMemFree_v2(address at) {
	ENTER("cuMemFree", 1);
	pthread_mutex_lock(&lock);
	struct range *r = range_of(at, 1, 0);
	int code = !r || r->at != at ? invalid_value : copied_later((char *)at + device_shift, r->size) ? illegal_address : ok;
	if (!code) {
		char *from = (char *)(at / page * page) + device_shift, *to = (char *)at + device_shift + r->size;
		memset(mapped + (from - device_bytes) / page, 0, (to - from + page - 1) / page);
		mmap(from, to - from, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		r->of->used -= r->size;
		r->size = 0;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuMemHostAlloc(void **at, size_t size, unsigned flags) {
	ENTER("cuMemHostAlloc", 1);
	(void)flags;
	pthread_mutex_lock(&lock);
	allocations++;
	struct range *r = spare();
	*at = r ? aligned_alloc(page, (size + page - 1) / page * page) : NULL;
	if (*at) {
		memset(*at, 0xA5, size);
		*r = (struct range){(address)*at, size, 1, current};
	}
	pthread_mutex_unlock(&lock);
	return *at ? ok : out_of_memory;
}

int cuMemFreeHost(void *at) {
	ENTER("cuMemFreeHost", 1);
	pthread_mutex_lock(&lock);
	struct range *r = range_of((address)at, 1, 1);
	int code = !r ? invalid_value : copied_later(at, r->size) ? illegal_address : ok;
	if (!code)
		r->size = 0, free(at);
	pthread_mutex_unlock(&lock);
	return code;
}

// ---- Streams.

struct work { int (*run)(void *), always; struct work *next; char data[]; };

struct stream {
	struct context *of;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct work *first, **last;
	int busy, ends;
	long given, run, wanted; // numbers of pieces of work; a lazy stream runs those that are wanted
	struct stream *next;
};

static struct stream *streams; // of the process, behind lock

// want makes a lazy stream run work up to a number.
static void want(struct stream *s, long upto) {
	if (!s || !lazy)
		return;
	pthread_mutex_lock(&s->lock);
	s->wanted = upto > s->wanted ? upto : s->wanted;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

struct copy { char *to; const char *from; size_t size; };
static int copies(void *data);

// copied_later reports whether a stream has a copy of bytes to make. It is called with lock.
static int copied_later(const char *at, size_t size) {
	int n = 0;
	for (struct stream *s = streams; s; s = s->next) {
		pthread_mutex_lock(&s->lock);
		for (struct work *w = s->first; w; w = w->next) {
			const struct copy *c = (struct copy *)w->data;
			n += w->run == copies && ((c->to < at + size && at < c->to + c->size) || (c->from < at + size && at < c->from + c->size));
		}
		pthread_mutex_unlock(&s->lock);
	}
	return n > 0;
}

static void *serve(void *self) {
	struct stream *s = self;
	pthread_mutex_lock(&s->lock);
	for (;;) {
		while ((!s->first || (lazy && s->run >= s->wanted)) && !s->ends)
			pthread_cond_wait(&s->changed, &s->lock);
		struct work *w = s->first;
		if (!w)
			break;
		if (!(s->first = w->next))
			s->last = &s->first;
		s->busy = 1, s->run++;
		pthread_mutex_unlock(&s->lock);
		pthread_mutex_lock(&lock);
		int code = sticky;
		pthread_mutex_unlock(&lock);
		if ((!code || w->always) && (code = w->run(w->data))) {
			pthread_mutex_lock(&lock);
			sticky = code;
			pthread_mutex_unlock(&lock);
		}
		free(w);
		pthread_mutex_lock(&s->lock);
		s->busy = 0;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int cuStreamCreate(void **out, unsigned flags) {
	ENTER("cuStreamCreate", 1);
	(void)flags;
	struct stream *s = calloc(1, sizeof *s);
	s->of = current, s->last = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	pthread_create(&s->thread, NULL, serve, s);
	pthread_mutex_lock(&lock);
	s->next = streams, streams = s;
	pthread_mutex_unlock(&lock);
	return *out = s, ok;
}

int cuStreamDestroy_v2(void *stream) {
	ENTER("cuStreamDestroy", 1);
	struct stream *s = stream;
	pthread_mutex_lock(&s->lock);
	s->ends = 1;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL); // s stays: events may name it
	return ok;
}

int cuStreamSynchronize(void *stream) {
	ENTER("cuStreamSynchronize", 1);
	struct stream *s = stream;
	want(s, s->given);
	pthread_mutex_lock(&s->lock);
	while (s->first || s->busy)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return standin_enter("", 1);
}

int cuStreamQuery(void *stream) {
	ENTER("cuStreamQuery", 1);
	struct stream *s = stream;
	want(s, s->given);
	pthread_mutex_lock(&s->lock);
	int left = s->first || s->busy;
	pthread_mutex_unlock(&s->lock);
	return left ? not_ready : standin_enter("", 1);
}

static int enqueue(void *stream, int (*run)(void *), int always, const void *data, size_t size) {
	struct stream *s = stream;
	if (!s || s->of != current)
		return invalid_handle;
	struct work *w = malloc(sizeof *w + size);
	w->run = run, w->always = always, w->next = NULL;
	memcpy(w->data, data, size);
	pthread_mutex_lock(&s->lock);
	*s->last = w, s->last = &w->next, s->given++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return ok;
}

int standin_enqueue(void *stream, int (*run)(void *), const void *data, size_t size) {
	return enqueue(stream, run, 0, data, size);
}

struct host_function { void (*run)(void *); void *with; };

static int calls(void *data) {
	struct host_function *f = data;
	f->run(f->with);
	return ok;
}

// The stand-in of NCCL counts its running calls in these functions, so they run after a
// fault too.
int cuLaunchHostFunc(void *stream, void (*run)(void *), void *with) {
	ENTER("cuLaunchHostFunc", 1);
	standin_note("host function", 0);
	struct host_function f = {run, with};
	return enqueue(stream, calls, 1, &f, sizeof f);
}

// ---- Events: how often one was recorded, and which of these has happened. An event that is
// destroyed stays until the streams have run the work that refers to it, as the driver's does.

struct event { pthread_mutex_t lock; pthread_cond_t changed; long recorded, happened, users; struct stream *on; long at; };
struct moment { struct event *event; long number; struct stream *on; long at; }; // recorded as work at of the stream on

static void release(struct event *e) {
	pthread_mutex_lock(&e->lock);
	long left = --e->users;
	pthread_mutex_unlock(&e->lock);
	if (!left)
		free(e);
}

static int happens(void *data) {
	struct moment *m = data;
	pthread_mutex_lock(&m->event->lock);
	m->event->happened = m->number;
	pthread_cond_broadcast(&m->event->changed);
	pthread_mutex_unlock(&m->event->lock);
	release(m->event);
	return ok;
}

static int awaits(void *data) {
	struct moment *m = data;
	want(m->on, m->at);
	pthread_mutex_lock(&m->event->lock);
	while (m->event->happened < m->number) {
		struct timespec soon;
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_sec++;
		pthread_cond_timedwait(&m->event->changed, &m->event->lock, &soon);
		if (sticky)
			break; // the stream that was to record it has failed
	}
	pthread_mutex_unlock(&m->event->lock);
	release(m->event);
	return ok;
}

int cuEventCreate(void **out, unsigned flags) {
	ENTER("cuEventCreate", 1);
	(void)flags;
	struct event *e = calloc(1, sizeof *e);
	e->users = 1;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
	return *out = e, ok;
}

int cuEventDestroy_v2(void *event) {
	ENTER("cuEventDestroy", 1);
	return release(event), ok;
}

// moment_of returns the latest record of an event, or a new one, for work that releases it.
static struct moment moment_of(struct event *e, int new) {
	pthread_mutex_lock(&e->lock);
	e->users++;
	struct moment m = {e, e->recorded += new, e->on, e->at};
	pthread_mutex_unlock(&e->lock);
	return m;
}

static int enqueue_moment(void *stream, int (*run)(void *), struct moment m) {
	int code = standin_enqueue(stream, run, &m, sizeof m);
	if (code)
		release(m.event);
	return code;
}

int cuEventRecord(void *event, void *stream) {
	ENTER("cuEventRecord", 1);
	struct event *e = event;
	struct stream *s = stream;
	int code = enqueue_moment(stream, happens, moment_of(e, 1));
	pthread_mutex_lock(&e->lock);
	e->on = s, e->at = s->given;
	pthread_mutex_unlock(&e->lock);
	return code;
}

int cuEventSynchronize(void *event) {
	ENTER("cuEventSynchronize", 1);
	struct moment m = moment_of(event, 0);
	awaits(&m);
	return standin_enter("", 1);
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
	ENTER("cuStreamWaitEvent", 1);
	return flags ? invalid_value : enqueue_moment(stream, awaits, moment_of(event, 0));
}

// ---- Copies.

static struct { unsigned long long in, out; } copied; // bytes since the library was loaded

// standin_copied returns the bytes that were copied to devices and from them.
void standin_copied(unsigned long long *in, unsigned long long *out) {
	pthread_mutex_lock(&lock);
	*in = copied.in, *out = copied.out;
	pthread_mutex_unlock(&lock);
}

static int copies(void *data) {
	struct copy *c = data;
	memcpy(c->to, c->from, c->size);
	return ok;
}

static int copy(const char *call, void *stream, address device, const void *host, struct copy c) {
	ENTER(call, 1);
	pthread_mutex_lock(&lock);
	int known = range_of(device, c.size, 0) && range_of((address)host, c.size, 1);
	if (known)
		*(host == c.from ? &copied.in : &copied.out) += c.size;
	pthread_mutex_unlock(&lock);
	return known ? standin_enqueue(stream, copies, &c, sizeof c) : invalid_value;
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t size, void *stream) {
	return copy("cuMemcpyHtoDAsync", stream, to, from, (struct copy){(char *)to + device_shift, from, size});
}

int cuMemcpyDtoHAsync_v2(void *to, address from, size_t size, void *stream) {
	return copy("cuMemcpyDtoHAsync", stream, from, to, (struct copy){to, (char *)from + device_shift, size});
}

// ---- Modules. PTX is read for its entries and the size of their argument.

typedef void twin(const void *args, unsigned threads, int backwards);
typedef int thread(const void *args, unsigned block, unsigned self, unsigned blocks, unsigned threads);
struct function { char name[64]; size_t size; twin *run; thread *thread; };
struct module { int n; struct function functions[64]; };

// fingerprint is FNV-1a.
static unsigned long long fingerprint(const char *text) {
	unsigned long long h = 14695981039346656037ull;
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211ull;
	return h;
}

static int load(struct module *m, const char *ptx) {
	int target = 0;
	const char *at = strstr(ptx, ".target sm_");
	if (!at || sscanf(at, ".target sm_%d", &target) != 1)
		return invalid_image;
	if (target > number("STANDIN_CAPABILITY", 75))
		return unsupported_ptx;
	Dl_info own;
	dladdr((void *)load, &own);
	void *twins = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	const unsigned long long *translated = dlsym(twins, "standin_fingerprint");
	if (translated && *translated != fingerprint(ptx))
		return invalid_image;
	while ((at = strstr(at, ".visible .entry "))) {
		struct function *f = &m->functions[m->n];
		char parameter[96], wanted[96], symbol[96];
		at += strlen(".visible .entry ");
		if (m->n == 64 || sscanf(at, "%63[a-z0-9_]( .param .align 8 .b8 %95[a-z0-9_][%zu]", f->name, parameter, &f->size) != 3)
			return invalid_image;
		snprintf(wanted, sizeof wanted, "%s_param_0", f->name);
		snprintf(symbol, sizeof symbol, "%s_twin", f->name);
		f->run = (twin *)dlsym(twins, symbol);
		snprintf(symbol, sizeof symbol, "%s_thread", f->name);
		f->thread = (thread *)dlsym(twins, symbol);
		if (strcmp(parameter, wanted) || (!f->run && !f->thread))
			return invalid_image;
		m->n++;
	}
	return ok;
}

int cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *options, void **values) {
	ENTER("cuModuleLoadDataEx", 1);
	struct module *m = calloc(1, sizeof *m);
	int code = load(m, image);
	if (code && n == 2 && options[0] == 5 && options[1] == 6)
		snprintf(values[0], (size_t)values[1], "stand-in: status %d after %d entries", code, m->n);
	return *out = m, code;
}

int cuModuleUnload(void *module) {
	ENTER("cuModuleUnload", 1);
	return free(module), ok;
}

int cuModuleGetFunction(void **out, void *module, const char *name) {
	ENTER("cuModuleGetFunction", 1);
	struct module *m = module;
	for (int i = 0; i < m->n; i++)
		if (!strcmp(m->functions[i].name, name))
			return *out = &m->functions[i], ok;
	return not_found;
}

struct launch { struct function f; unsigned blocks, threads; int backwards, code; _Alignas(8) char args[256]; };

static int launches(void *data) {
	struct launch *l = data;
	if (l->code)
		return l->code;
	unsigned n = l->blocks * l->threads;
	if (l->f.run)
		return l->f.run(l->args, n, l->backwards), ok;
	int code = ok;
	for (unsigned i = 0; i < n && !code; i++) {
		unsigned k = l->backwards ? n - 1 - i : i;
		code = l->f.thread(l->args, k / l->threads, k % l->threads, l->blocks, l->threads);
	}
	return code;
}

// standin_heal makes the device usable after a fault.
void standin_heal(void) {
	pthread_mutex_lock(&lock);
	sticky = ok;
	pthread_mutex_unlock(&lock);
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, void *stream, void **parameters, void **extra) {
	static int turn;
	ENTER("cuLaunchKernel", 1);
	struct function *f = function;
	struct launch l = {.f = *f, .blocks = gx, .threads = bx};
	if (!gx || gx > 2147483647u || !bx || bx > 1024 || gy * gz * by * bz != 1 || shared || extra || f->size > sizeof l.args)
		return invalid_value;
	memcpy(l.args, parameters[0], f->size);
	pthread_mutex_lock(&lock);
	l.backwards = turn++ & 1;
	l.code = injected("~cuLaunchKernel");
	pthread_mutex_unlock(&lock);
	standin_note(f->name, gx);
	return standin_enqueue(stream, launches, &l, sizeof l);
}
