/* The exchange of embeddings through MPI, as BenchmarkExchange of package sparse measures it,
 * on MPI_Alltoall for counts and MPI_Alltoallv for keys, rows and gradients.
 *
 *     exchange LIB KEYS DIM DOMAIN FIELDS ZIPF SECONDS
 *
 * Every rank asks each other rank for KEYS distinct keys, drawn by Zipf's law from
 * FIELDS fields that share DOMAIN. Rank r owns the keys of remainder r; what
 * travels as a key is the number of the row. An owner packs the rows that are
 * asked for; the reader makes gradients of them, −1e-6 of a row added to those of
 * the step before; the owner adds these to the rows. Prints a line as peer.h has
 * it. */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <sys/mman.h>

#include "peer.h"

static int size, rank, dim;
static float *table;
static uint64_t *keys, *asked;        /* for the owners; of the readers */
static float *rows, *grads;           /* of this rank's keys */
static float *answers, *contributions; /* of the readers' keys */
static int want[MAX_RANKS], owe[MAX_RANKS]; /* keys, by owner; by reader */

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void share(long *words, int n) { MPI_Bcast(words, n, MPI_LONG, 0, MPI_COMM_WORLD); }

static void slowest(double *samples, int n) {
  MPI_Allreduce(MPI_IN_PLACE, samples, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

/* all_to_all sends n[r] items of some bytes to each rank r. */
static void all_to_all(const void *from, const int *n, void *to, const int *m, int bytes) {
  int sent[MAX_RANKS], sent_at[MAX_RANKS], got[MAX_RANKS], got_at[MAX_RANKS];
  for (int r = 0, i = 0, j = 0; r < size; r++) {
    sent[r] = n[r] * bytes;
    got[r] = m[r] * bytes;
    sent_at[r] = i;
    got_at[r] = j;
    i += sent[r];
    j += got[r];
  }
  MPI_Alltoallv(from, sent, sent_at, MPI_BYTE, to, got, got_at, MPI_BYTE, MPI_COMM_WORLD);
}

/* rows lie in huge pages, as ours do */
static float *huge(long n) {
  void *p = NULL;
  if (posix_memalign(&p, 2 << 20, n)) die("no memory");
  madvise(p, n, MADV_HUGEPAGE);
  return p;
}

static float *row(uint64_t key) { return table + key * (uint64_t)dim; }

static void step(void *arg) {
  (void)arg;
  MPI_Alltoall(want, 1, MPI_INT, owe, 1, MPI_INT, MPI_COMM_WORLD);
  long mine = 0, theirs = 0;
  for (int r = 0; r < size; r++) mine += want[r], theirs += owe[r];
  all_to_all(keys, want, asked, owe, 8);
  for (long i = 0; i < theirs; i++) memcpy(answers + i * dim, row(asked[i]), sizeof(float) * dim);
  all_to_all(answers, owe, rows, want, 4 * dim);
  for (long i = 0; i < mine * dim; i++) grads[i] -= 1e-6f * rows[i];
  all_to_all(grads, want, contributions, owe, 4 * dim);
  for (long i = 0; i < theirs; i++) {
    float *to = row(asked[i]), *g = contributions + i * dim;
    for (int k = 0; k < dim; k++) to[k] += g[k];
  }
}

static double uniform(void) {
  static uint64_t x;
  if (x == 0) x = 0x9e3779b97f4a7c15u * (uint64_t)(rank + 1);
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return (double)(x >> 11) * 0x1p-53;
}

static int by_key(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* draws n distinct keys for every owner; a bit says which have been drawn. */
static void draw(long n, long domain, long fields, double zipf) {
  char *seen = memory(domain / 8 + 1);
  long share_ = domain / fields, left = n * (size - 1), have[MAX_RANKS] = {0};
  double span = pow((double)share_, 1 - zipf) - 1;
  for (long i = 0; left > 0; i++) {
    long value = (long)pow(1 + uniform() * span, 1 / (1 - zipf)) - 1;
    uint64_t key = (uint64_t)(i % fields * share_ + within((double)value, 0, share_ - 1));
    int owner = (int)(key % (uint64_t)size);
    if (owner == rank || have[owner] == n || seen[key / 8] >> (key % 8) & 1) continue;
    seen[key / 8] |= (char)(1 << (key % 8));
    keys[(owner - (owner > rank)) * n + have[owner]++] = key / (uint64_t)size;
    left--;
  }
  free(seen);
  for (int r = 0; r < size - 1; r++) qsort(keys + r * n, n, sizeof *keys, by_key);
  for (int r = 0; r < size; r++) want[r] = r == rank ? 0 : (int)n;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc != 8) die("usage: exchange LIB KEYS DIM DOMAIN FIELDS ZIPF SECONDS");
  struct settings s = {"", atof(argv[7]), 0};
  struct group g = {argv[1], "shm", 0, 0, barrier, share, slowest};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  g.rank = rank;
  g.size = size;
  if (size > MAX_RANKS) die("too many ranks");
  long n = atol(argv[2]), domain = atol(argv[4]), part = domain / size + 1, total = n * (size - 1) + 1;
  dim = atoi(argv[3]);
  table = huge(part * 4 * dim);
  for (long i = 0; i < part * dim; i++) table[i] = (float)(i % 7 + 1);
  keys = (uint64_t *)memory(8 * total);
  asked = (uint64_t *)memory(8 * total);
  rows = (float *)memory(4 * dim * total);
  grads = (float *)memory(4 * dim * total);
  answers = (float *)memory(4 * dim * total);
  contributions = (float *)memory(4 * dim * total);
  draw(n, domain, atol(argv[5]), atof(argv[6]));
  step(NULL);
  for (long i = 0; i < total - 1; i++)
    for (int k = 0; k < dim; k++)
      if (rows[i * dim + k] != (float)((keys[i] * (uint64_t)dim + (uint64_t)k) % 7 + 1)) die("a wrong row came");
  struct call c = {step, NULL, NULL, NULL, (8 + 8 * dim) * (total - 1)};
  struct turn t = {"wire", "", 0, c.bytes};
  peer_run(&g, &s, &t, &c);
  MPI_Finalize();
  return 0;
}
