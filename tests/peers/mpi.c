/* An MPI library: allreduce of float32 in place, alltoallv of equal parts,
 * barrier.   mpi LIB TRANSPORT PIPE SECONDS BYTES   (see peer.h) */
#include <mpi.h>

#include "peer.h"

static char *sent, *got;
static int parts[MAX_RANKS], starts[MAX_RANKS];
static long bytes_now;

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void share(long *words, int n) { MPI_Bcast(words, n, MPI_LONG, 0, MPI_COMM_WORLD); }

static void slowest(double *samples, int n) {
  MPI_Allreduce(MPI_IN_PLACE, samples, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void run_barrier(void *arg) {
  (void)arg;
  MPI_Barrier(MPI_COMM_WORLD);
}

static void run_allreduce(void *arg) {
  (void)arg;
  MPI_Allreduce(MPI_IN_PLACE, sent, (int)(bytes_now / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void run_alltoallv(void *arg) {
  (void)arg;
  MPI_Alltoallv(sent, parts, starts, MPI_BYTE, got, parts, starts, MPI_BYTE, MPI_COMM_WORLD);
}

static void take_allreduce(const struct group *g, const struct settings *s, const struct turn *t) {
  long n = bytes_now = t->bytes;
  if (first_time(t)) {
    give((float *)sent, n / 4, g->rank);
    run_allreduce(NULL);
    expect_sum(g, (float *)sent, n / 4);
  }
  struct call c = {run_allreduce, NULL, sent, sent, n};
  peer_run(g, s, t, &c);
}

static void take_alltoallv(const struct group *g, const struct settings *s, const struct turn *t) {
  long n = t->bytes, part = n / g->size;
  for (int r = 0; r < g->size; r++) {
    parts[r] = (int)part;
    starts[r] = (int)(r * part);
  }
  if (first_time(t)) {
    give_parts(g, sent, part);
    run_alltoallv(NULL);
    expect_parts(g, got, part);
  }
  struct call c = {run_alltoallv, NULL, sent, got, n};
  peer_run(g, s, t, &c);
}

static void take_barrier(const struct group *g, const struct settings *s, const struct turn *t) {
  struct call c = {run_barrier, NULL, NULL, NULL, 0};
  peer_run(g, s, t, &c);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc != 6) die("usage: mpi LIB TRANSPORT PIPE SECONDS BYTES");
  struct settings s = settings_from(argv + 3);
  struct group g = {argv[1], argv[2], 0, 0, barrier, share, slowest};
  struct turn t;
  MPI_Comm_rank(MPI_COMM_WORLD, &g.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g.size);
  if (g.size > MAX_RANKS) die("too many ranks");
  sent = memory(s.most);
  got = memory(s.most);
  while (next_turn(&s, &t)) {
    if (!strcmp(t.op, "barrier")) take_barrier(&g, &s, &t);
    else if (!strcmp(t.op, "allreduce")) take_allreduce(&g, &s, &t);
    else if (!strcmp(t.op, "alltoallv")) take_alltoallv(&g, &s, &t);
    else die("no such operation");
  }
  MPI_Finalize();
  return 0;
}
