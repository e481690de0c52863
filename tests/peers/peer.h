/* The measuring loop that the programs for every library share. It is the one of
 * package bench: a sample is the mean over K calls after a barrier, of the
 * slowest rank; the line tells the median of the samples. In the form _use each
 * call is a sample, what is sent is rewritten before the clock starts, and what
 * arrived is read before it stops.
 *
 * A program for a library gives the functions of struct group, and makes a struct
 * call of each turn. A turn says what to measure next, as for wdlrun bench -turns, so
 * that the libraries take turns: 32 bytes of a named pipe for every rank, such as
 * "allreduce_use 16384", with spaces after them; "end" is the last.
 * Arguments of every program, after its own:
 *
 *     PIPE SECONDS BYTES      what to read, for how long a turn measures, the greatest size
 */
#ifndef PEER_H
#define PEER_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MIN_BATCHES = 5, MAX_BATCHES = 2000, MAX_CALLS = 20000, WARM_CALLS = 200, MAX_RANKS = 64, MAX_CASES = 200 };

struct group {
  const char *lib, *transport;
  int rank, size;
  void (*barrier)(void);
  void (*share)(long *words, int n);        /* rank 0's become everyone's */
  void (*slowest)(double *samples, int n);  /* the greatest of all ranks, on rank 0 at least */
};

struct settings {
  const char *pipe;
  double seconds;
  long most;
};

struct turn {
  char op[33], how[33]; /* how: which of a library's algorithms, if it has several */
  int use;
  long bytes;
};

struct call {
  void (*run)(void *arg);
  void *arg;
  char *sent, *got; /* NULL: the operation has no _use form */
  long bytes;
};

static inline void die(const char *why) {
  fprintf(stderr, "%s\n", why);
  exit(1);
}

static inline struct settings settings_from(char **argv) {
  struct settings s = {argv[0], atof(argv[1]), atol(argv[2])};
  if (s.most < 8) s.most = 8;
  return s;
}

/* waits, at rest, for the next turn; says whether there is one */
static inline int next_turn(const struct settings *s, struct turn *t) {
  static int from = -1;
  char text[33] = {0};
  if (from < 0 && (from = open(s->pipe, O_RDONLY)) < 0) die("no pipe of turns");
  ssize_t n = read(from, text, 32);
  memset(t, 0, sizeof *t);
  if (n == 0 || (n == 32 && sscanf(text, "%32s", t->op) == 1 && !strcmp(t->op, "end"))) return 0;
  if (n != 32 || sscanf(text, "%32s %ld %32s", t->op, &t->bytes, t->how) < 2 || t->bytes > s->most) die("no turn");
  char *use = strstr(t->op, "_use");
  if (use) *use = 0;
  t->use = use != NULL;
  return 1;
}

/* says whether a turn is the first of its op, bytes and how: its result is checked */
static inline int first_time(const struct turn *t) {
  static struct turn seen[MAX_CASES];
  static int n;
  for (int i = 0; i < n; i++)
    if (seen[i].bytes == t->bytes && !strcmp(seen[i].op, t->op) && !strcmp(seen[i].how, t->how)) return 0;
  if (n < MAX_CASES) seen[n++] = *t;
  return 1;
}

static inline double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile long read_sink;

/* reads every byte, at vector speed */
static inline void read_all(const char *p, long n) {
  const long *w = (const long *)p;
  long lanes[32] = {0}, words = n / 8, i = 0;
  for (; i + 32 <= words; i += 32)
    for (int k = 0; k < 32; k++) lanes[k] += w[i + k];
  for (; i < words; i++) lanes[0] += w[i];
  for (int k = 1; k < 32; k++) lanes[0] += lanes[k];
  for (i = words * 8; i < n; i++) lanes[0] += p[i];
  read_sink = lanes[0];
}

static inline double one_sample(const struct group *g, const struct call *c, int use, long calls) {
  if (use) memset(c->sent, 0, c->bytes);
  g->barrier();
  double start = seconds_now();
  for (long i = 0; i < calls; i++) c->run(c->arg);
  if (use) read_all(c->got, c->bytes);
  return (seconds_now() - start) / (double)calls;
}

static inline long within(double x, long lo, long hi) {
  return x < (double)lo ? lo : x > (double)hi ? hi : (long)x;
}

static inline int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static inline double measure(const struct group *g, const struct call *c, int use, double seconds) {
  static double samples[MAX_BATCHES];
  double least = 1e9, start = seconds_now(), enough = seconds / 2 < 0.06 ? seconds / 2 : 0.06;
  long word[2];
  for (int i = 0; i < WARM_CALLS; i++) {
    double t = one_sample(g, c, use, 1);
    if (t < least) least = t;
    word[0] = seconds_now() - start > enough && i >= 2;
    g->share(word, 1);
    if (word[0]) break;
  }
  word[0] = use ? 1 : within(1e-3 / least, 1, MAX_CALLS);
  g->share(word, 1);
  if (!use) {
    least = one_sample(g, c, 0, word[0]);
    word[0] = within(1e-3 / least, 1, MAX_CALLS);
  }
  word[1] = within(seconds / ((double)word[0] * least), MIN_BATCHES, MAX_BATCHES);
  g->share(word, 2);
  for (long i = 0; i < word[1]; i++) samples[i] = one_sample(g, c, use, word[0]);
  g->slowest(samples, (int)word[1]);
  qsort(samples, word[1], sizeof samples[0], ascending);
  return (samples[(word[1] - 1) / 2] + samples[word[1] / 2]) / 2;
}

static inline double bus_factor(const char *op, int np) {
  if (!strcmp(op, "allreduce")) return 2.0 * (np - 1) / np;
  if (!strcmp(op, "alltoallv")) return 1.0 * (np - 1) / np;
  return 1;
}

/* measures a turn, and prints its line */
static inline void peer_run(const struct group *g, const struct settings *s, const struct turn *turn, const struct call *c) {
  double t = measure(g, c, turn->use, s->seconds), bandwidth = (double)c->bytes / t * 1e-9;
  if (g->rank) return;
  printf("{\"lib\":\"%s\",\"transport\":\"%s\",\"op\":\"%s%s\",\"np\":%d,\"bytes\":%ld,\"median_us\":%.4f,"
         "\"algbw_GBps\":%.5f,\"busbw_GBps\":%.5f}\n",
         g->lib, g->transport, turn->op, turn->use ? "_use" : "", g->size, c->bytes, t * 1e6, bandwidth, bandwidth * bus_factor(turn->op, g->size));
  fflush(stdout);
}

/* The patterns are whole numbers, which float32 sums exactly in any order. */
static inline float given(int rank, long i) { return (float)((rank % 16 + 1) * (i % 7 + 1)); }

static inline void give(float *x, long n, int rank) {
  for (long i = 0; i < n; i++) x[i] = given(rank, i);
}

static inline void expect_sum(const struct group *g, float *x, long n) {
  for (long i = 0; i < n; i++) {
    float want = 0;
    for (int r = 0; r < g->size; r++) want += given(r, i);
    if (x[i] != want) die("allreduce gave a wrong sum");
  }
  memset(x, 0, n * 4);
}

static inline char given_byte(int from, int to, long i) { return (char)(from * 31 + to * 7 + i * 3 + 1); }

static inline void give_parts(const struct group *g, char *x, long part) {
  for (int to = 0; to < g->size; to++)
    for (long i = 0; i < part; i++) x[to * part + i] = given_byte(g->rank, to, i);
}

static inline void expect_parts(const struct group *g, const char *x, long part) {
  for (int from = 0; from < g->size; from++)
    for (long i = 0; i < part; i++)
      if (x[from * part + i] != given_byte(from, g->rank, i)) die("all-to-all gave a wrong byte");
}

/* page-aligned and touched, so that no call pays for its first use */
static inline char *memory(long n) {
  void *p = NULL;
  if (posix_memalign(&p, 4096, n)) die("no memory");
  memset(p, 0, n);
  return (char *)p;
}

#endif
