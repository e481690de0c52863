/* The measuring loop that the programs for every library share. It is the one of
 * package bench: a sample is the mean over K calls after a barrier, of the
 * slowest rank; the line tells the median of the samples. In the form _use each
 * call is a sample, what is sent is rewritten before the clock starts, and what
 * arrived is read before it stops.
 *
 * A program for a library gives the functions of struct group and calls
 * peer_run for each operation. Arguments of every program, after its own:
 *
 *     SECONDS OPS SIZES FORMS      "0.1" "allreduce alltoallv" "1024 65536" "plain use"
 */
#ifndef PEER_H
#define PEER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MIN_BATCHES = 5, MAX_BATCHES = 2000, MAX_CALLS = 20000, WARM_CALLS = 200, MAX_RANKS = 64 };

struct group {
  const char *lib, *transport;
  int rank, size;
  void (*barrier)(void);
  void (*share)(long *words, int n);        /* rank 0's become everyone's */
  void (*slowest)(double *samples, int n);  /* the greatest of all ranks, on rank 0 at least */
};

struct settings {
  double seconds;
  const char *ops, *sizes, *forms;
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
  struct settings s = {atof(argv[0]), argv[1], argv[2], argv[3]};
  return s;
}

/* says whether a list of words holds one */
static inline int lists(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += n)
    if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0)) return 1;
  return 0;
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

/* measures the forms that the settings ask for, and prints a line for each */
static inline void peer_run(const struct group *g, const struct settings *s, const char *op, const struct call *c) {
  for (int use = 0; use < 2; use++) {
    if (!lists(s->forms, use ? "use" : "plain") || (use && !c->sent)) continue;
    double t = measure(g, c, use, s->seconds), bandwidth = (double)c->bytes / t * 1e-9;
    if (g->rank == 0) {
      printf("{\"lib\":\"%s\",\"transport\":\"%s\",\"op\":\"%s%s\",\"np\":%d,\"bytes\":%ld,\"median_us\":%.4f,"
             "\"algbw_GBps\":%.5f,\"busbw_GBps\":%.5f}\n",
             g->lib, g->transport, op, use ? "_use" : "", g->size, c->bytes, t * 1e6, bandwidth, bandwidth * bus_factor(op, g->size));
      fflush(stdout);
    }
  }
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

#define FOR_EACH_SIZE(list, bytes)                                                                      \
  for (long bytes = 0, more = 1; more;)                                                                 \
    for (char *at_ = (char *)(list), *end_; more && ((bytes = strtol(at_, &end_, 10)), end_ != at_ || (more = 0)); at_ = end_)

static inline long greatest(const char *sizes) {
  long most = 8;
  FOR_EACH_SIZE(sizes, n) if (n > most) most = n;
  return most;
}

#endif
