/* What the system calls of TCP on 127.0.0.1 cost alone: the bytes of an allreduce by
 * the ring, and of an alltoallv in rounds, moved by a bare loop of send and recv, with
 * no headers, no checks and no sums. No library that moves its bytes by these calls
 * can be faster. The program forks its ranks.
 *   floor NP PIPE SECONDS BYTES   (see peer.h) */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "peer.h"

enum { SEGMENT = 1 << 20, LANDING = 256 << 10, LOOKS = 100 };

static struct board { /* memory that all ranks share */
  atomic_uint arrived, turn;
  long words[2];
  double samples[MAX_RANKS][MAX_BATCHES];
} *board;

static struct group ranks;
static int links[MAX_RANKS][MAX_RANKS]; /* of the first rank with the second */
static char *sent, *got, landing[LANDING];
static long bytes_now;

static void barrier(void) {
  unsigned turn = atomic_load(&board->turn);
  if (atomic_fetch_add(&board->arrived, 1) + 1 == (unsigned)ranks.size) {
    atomic_store(&board->arrived, 0);
    atomic_store(&board->turn, turn + 1);
    syscall(SYS_futex, &board->turn, FUTEX_WAKE, MAX_RANKS, NULL, NULL, 0);
    return;
  }
  while (atomic_load(&board->turn) == turn) syscall(SYS_futex, &board->turn, FUTEX_WAIT, turn, NULL, NULL, 0);
}

static void share(long *words, int n) {
  if (ranks.rank == 0) memcpy(board->words, words, n * sizeof *words);
  barrier();
  memcpy(words, board->words, n * sizeof *words);
  barrier();
}

static void slowest(double *samples, int n) {
  memcpy(board->samples[ranks.rank], samples, n * sizeof *samples);
  barrier();
  for (int r = 0; r < ranks.size; r++)
    for (int i = 0; i < n; i++)
      if (board->samples[r][i] > samples[i]) samples[i] = board->samples[r][i];
  barrier();
}

static long moved(long n) {
  if (n < 0 && errno != EAGAIN && errno != EINTR) die("a link broke");
  return n < 0 ? 0 : n;
}

static long least(long a, long b) { return a < b ? a : b; }

/* sends out and receives in, at once; where in is NULL, to where it stays in a cache */
static void exchange(int to, const char *out, long outs, int from, char *in, long ins) {
  for (int idle = 0; outs > 0 || ins > 0;) {
    long n = 0, m = 0;
    if (outs > 0) n = moved(send(links[ranks.rank][to], out, least(outs, SEGMENT), MSG_DONTWAIT | MSG_NOSIGNAL));
    if (ins > 0) m = moved(recv(links[ranks.rank][from], in ? in : landing, least(ins, in ? SEGMENT : LANDING), MSG_DONTWAIT));
    out += n, outs -= n, ins -= m;
    if (in) in += m;
    idle = n + m > 0 ? 0 : idle + 1;
    if (idle > (ranks.size > 2 ? 0 : LOOKS)) sched_yield();
  }
}

static void run_barrier(void *arg) {
  (void)arg;
  for (int d = 1; d < ranks.size; d *= 2)
    exchange((ranks.rank + d) % ranks.size, sent, 48, (ranks.rank - d + ranks.size) % ranks.size, got, 48);
}

/* part i of n bytes in whole floats */
static long part(int i) { return bytes_now / 4 * i / ranks.size * 4; }

static void run_allreduce(void *arg) {
  int p = ranks.size, next = (ranks.rank + 1) % p, before = (ranks.rank - 1 + p) % p;
  (void)arg;
  for (int k = 0; k < 2 * (p - 1); k++) {
    int out = (ranks.rank - 1 - k + 2 * p) % p, in = (out - 1 + p) % p;
    exchange(next, sent + part(out), part(out + 1) - part(out), before, k < p - 1 ? NULL : sent + part(in), part(in + 1) - part(in));
  }
}

static void run_alltoallv(void *arg) {
  long n = bytes_now / ranks.size;
  (void)arg;
  memcpy(got + ranks.rank * n, sent + ranks.rank * n, n);
  for (int k = 1; k < ranks.size; k++) {
    int to = (ranks.rank + k) % ranks.size, from = (ranks.rank - k + ranks.size) % ranks.size;
    exchange(to, sent + to * n, n, from, got + from * n, n);
  }
}

/* binds a rank to a core of its own where each can have one */
static void on_a_core(int rank) {
  cpu_set_t all, own;
  if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < ranks.size) return;
  CPU_ZERO(&own);
  for (int c = 0, seen = 0; c < CPU_SETSIZE; c++)
    if (CPU_ISSET(c, &all) && seen++ == rank) CPU_SET(c, &own);
  sched_setaffinity(0, sizeof own, &own);
}

static void one_rank(const struct settings *s) {
  struct turn t;
  sent = memory(s->most);
  got = memory(s->most);
  while (next_turn(s, &t)) {
    struct call c = {run_barrier, NULL, NULL, NULL, bytes_now = t.bytes};
    if (!strcmp(t.op, "allreduce")) c = (struct call){run_allreduce, NULL, sent, sent, t.bytes};
    else if (!strcmp(t.op, "alltoallv")) c = (struct call){run_alltoallv, NULL, sent, got, t.bytes};
    else if (strcmp(t.op, "barrier")) die("no such operation");
    peer_run(&ranks, s, &t, &c);
  }
}

/* links ranks a and b */
static void link_ranks(int a, int b) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof at;
  int on = 1, from = socket(AF_INET, SOCK_STREAM, 0);
  if (from < 0 || bind(from, (void *)&at, n) || listen(from, 1) || getsockname(from, (void *)&at, &n)) die("no socket");
  links[a][b] = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(links[a][b], (void *)&at, n) || (links[b][a] = accept(from, NULL, NULL)) < 0) die("no connection");
  setsockopt(links[a][b], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(links[b][a], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  close(from);
}

int main(int argc, char **argv) {
  if (argc != 5) die("usage: floor NP PIPE SECONDS BYTES");
  struct settings s = settings_from(argv + 2);
  ranks = (struct group){"floor", "tcp", 0, atoi(argv[1]), barrier, share, slowest};
  if (ranks.size < 2 || ranks.size > MAX_RANKS) die("2 to 64 ranks");
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (board == MAP_FAILED) die("no shared memory");
  for (int a = 0; a < ranks.size; a++)
    for (int b = 0; b < a; b++) link_ranks(a, b);
  int bad = 0, status;
  for (int r = 0; r < ranks.size; r++) {
    if (fork()) continue;
    ranks.rank = r;
    on_a_core(r);
    one_rank(&s);
    fflush(stdout);
    _exit(0);
  }
  while (wait(&status) > 0) bad |= status;
  return bad != 0;
}
