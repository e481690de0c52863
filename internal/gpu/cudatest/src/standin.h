// What the stand-ins of the two libraries share.

#include <stddef.h>
#include <stdint.h>

typedef uint64_t address;

// device_shift is from an address of the device to where its bytes are.
extern long device_shift;

// standin_enter reports the status of a call before it does anything: an injected fault,
// a fault of an earlier operation, or that the thread has no context.
int standin_enter(const char *call, int needs_context);

// standin_enqueue gives a stream work: a function and a copy of its data.
int standin_enqueue(void *stream, int (*work)(void *data), const void *data, size_t size);

int cuDriverGetVersion(int *version);

// standin_note records that work was enqueued, with the address of its result or 0.
void standin_note(const char *what, address at);

// standin_range reports whether bytes are of one allocation of the device.
int standin_range(address at, size_t size);

// standin_bad is the status of an access of a kernel to size bytes, 0 if they may be accessed.
int standin_bad(address at, size_t size);
