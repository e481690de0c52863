//go:build ignore

/* A stand-in for libcuda with what the binding of NCCL uses: the current context of a
   thread, and streams that are threads. Memory of the device is memory of the host. */

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, NOT_READY = 600 };

static __thread void *current;

int cuDriverGetVersion(int *version)
{
	*version = 12040;
	return SUCCESS;
}

int cuCtxSetCurrent(void *context)
{
	if (context == (void *)0xbad)
		return INVALID_CONTEXT;
	current = context;
	return SUCCESS;
}

int cuCtxGetCurrent(void **context)
{
	*context = current;
	return SUCCESS;
}

int cuGetErrorString(int code, const char **text)
{
	*text = code == INVALID_CONTEXT ? "invalid device context" : "invalid argument";
	return SUCCESS;
}

struct work {
	void (*run)(void *);
	void *with;
	struct work *next;
};

struct stream {
	pthread_mutex_t mu;
	pthread_cond_t more;
	struct work *first, **last;
	int busy, ends;
	pthread_t thread;
};

static void *serve(void *x)
{
	struct stream *s = x;
	pthread_mutex_lock(&s->mu);
	for (;;) {
		while (!s->first && !s->ends)
			pthread_cond_wait(&s->more, &s->mu);
		struct work *w = s->first;
		if (!w)
			break;
		s->first = w->next;
		if (!s->first)
			s->last = &s->first;
		s->busy = 1;
		pthread_mutex_unlock(&s->mu);
		w->run(w->with);
		free(w);
		pthread_mutex_lock(&s->mu);
		s->busy = 0;
	}
	pthread_mutex_unlock(&s->mu);
	return NULL;
}

int cuStreamCreate(void **out, unsigned flags)
{
	struct stream *s = calloc(1, sizeof *s);
	pthread_mutex_init(&s->mu, NULL);
	pthread_cond_init(&s->more, NULL);
	s->last = &s->first;
	if (pthread_create(&s->thread, NULL, serve, s))
		abort();
	*out = s;
	return SUCCESS;
}

/* Waits for the work of the stream, as no test leaves any behind. */
int cuStreamDestroy_v2(void *stream)
{
	struct stream *s = stream;
	pthread_mutex_lock(&s->mu);
	s->ends = 1;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->mu);
	pthread_join(s->thread, NULL);
	free(s);
	return SUCCESS;
}

int cuStreamQuery(void *stream)
{
	struct stream *s = stream;
	if (!s)
		return INVALID_VALUE;
	pthread_mutex_lock(&s->mu);
	int idle = !s->first && !s->busy;
	pthread_mutex_unlock(&s->mu);
	return idle ? SUCCESS : NOT_READY;
}

int cuLaunchHostFunc(void *stream, void (*run)(void *), void *with)
{
	struct stream *s = stream;
	if (!s)
		return INVALID_VALUE;
	struct work *w = malloc(sizeof *w);
	*w = (struct work){run, with, NULL};
	pthread_mutex_lock(&s->mu);
	*s->last = w;
	s->last = &w->next;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->mu);
	return SUCCESS;
}
