// Gloo over TCP on one host: allreduce of float32 by three of its algorithms,
// alltoallv of equal parts, barrier. The program forks its ranks.
//   gloo NP DIRECTORY PIPE SECONDS BYTES   (see peer.h)
// DIRECTORY is empty: the ranks meet there.
//
// The harness waits on a futex between samples: a spin beside Gloo's sleeping
// threads would cost them a scheduler tick when ranks outnumber cores.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "peer.h"

namespace {

struct Board {  // memory that all ranks share
  std::atomic<unsigned> arrived, turn;
  long words[2];
  double samples[MAX_RANKS][MAX_BATCHES];
};

Board *board;
group ranks;

void barrier() {
  unsigned turn = board->turn.load();
  if (board->arrived.fetch_add(1) + 1 == unsigned(ranks.size)) {
    board->arrived = 0;
    board->turn = turn + 1;
    syscall(SYS_futex, &board->turn, FUTEX_WAKE, MAX_RANKS, nullptr, nullptr, 0);
    return;
  }
  while (board->turn.load() == turn) syscall(SYS_futex, &board->turn, FUTEX_WAIT, turn, nullptr, nullptr, 0);
}

void share(long *words, int n) {
  if (ranks.rank == 0) memcpy(board->words, words, n * sizeof *words);
  barrier();
  memcpy(words, board->words, n * sizeof *words);
  barrier();
}

void slowest(double *samples, int n) {
  memcpy(board->samples[ranks.rank], samples, n * sizeof *samples);
  barrier();
  for (int r = 0; r < ranks.size; r++)
    for (int i = 0; i < n; i++)
      if (board->samples[r][i] > samples[i]) samples[i] = board->samples[r][i];
  barrier();
}

void run(void *f) { (*static_cast<std::function<void()> *>(f))(); }

// Compiled here for this machine, so that Gloo is not held back by Debian's build.
void sum(float *a, const float *b, size_t n) {
  for (size_t i = 0; i < n; i++) a[i] += b[i];
}

void sum_into(void *to, const void *x, const void *y, size_t n) {
  auto *c = static_cast<float *>(to);
  auto *a = static_cast<const float *>(x), *b = static_cast<const float *>(y);
  for (size_t i = 0; i < n; i++) c[i] = a[i] + b[i];
}

void take_allreduce(const std::shared_ptr<gloo::Context> &ctx, const settings &s, const turn &t, char *sent) {
  static gloo::ReductionFunction<float> sum_function(gloo::SUM, &sum);
  long n = t.bytes;
  auto *x = reinterpret_cast<float *>(sent);
  auto with = [&](std::function<void()> f) {
    if (first_time(&t)) {
      give(x, n / 4, ranks.rank);
      barrier();
      f();
      expect_sum(&ranks, x, n / 4);
    }
    std::string name = std::string("tcp:") + t.how;
    ranks.transport = name.c_str();
    call c = {run, &f, sent, sent, n};
    peer_run(&ranks, &s, &t, &c);
    barrier();
    ranks.transport = "tcp";
  };
  std::vector<float *> in{x};
  if (!strcmp(t.how, "ring")) {
    gloo::AllreduceOptions ring(ctx);
    ring.setOutput<float>(x, n / 4);
    ring.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    ring.setReduceFunction(sum_into);
    ring.setTag(1);
    with([&] { gloo::allreduce(ring); });
  } else if (!strcmp(t.how, "chunked")) {
    gloo::AllreduceRingChunked<float> a(ctx, in, int(n / 4), &sum_function);
    with([&] { a.run(); });
  } else if (!strcmp(t.how, "halving")) {
    gloo::AllreduceHalvingDoubling<float> a(ctx, in, int(n / 4), &sum_function);
    with([&] { a.run(); });
  } else {
    die("no such algorithm");
  }
}

void take_alltoallv(const std::shared_ptr<gloo::Context> &ctx, const settings &s, const turn &t, char *sent, char *got) {
  long part = t.bytes / ranks.size;
  std::vector<int64_t> parts(ranks.size, part);
  gloo::AlltoallvOptions o(ctx);
  o.setInput<char>(sent, parts);
  o.setOutput<char>(got, parts);
  o.setTag(2);
  std::function<void()> f = [&] { gloo::alltoallv(o); };
  if (first_time(&t)) {
    give_parts(&ranks, sent, part);
    barrier();
    f();
    expect_parts(&ranks, got, part);
  }
  call c = {run, &f, sent, got, t.bytes};
  peer_run(&ranks, &s, &t, &c);
}

void take_barrier(const std::shared_ptr<gloo::Context> &ctx, const settings &s, const turn &t) {
  gloo::BarrierOptions o(ctx);
  std::function<void()> f = [&] { gloo::barrier(o); };
  call c = {run, &f, nullptr, nullptr, 0};
  peer_run(&ranks, &s, &t, &c);
}

void one_rank(const char *directory, const settings &s) {
  gloo::transport::tcp::attr address("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore store(directory);
  auto ctx = std::make_shared<gloo::rendezvous::Context>(ranks.rank, ranks.size);
  ctx->setTimeout(std::chrono::seconds(30));
  ctx->connectFullMesh(store, device);
  char *sent = memory(s.most), *got = memory(s.most);
  turn t;
  while (next_turn(&s, &t)) {
    if (!strcmp(t.op, "barrier")) take_barrier(ctx, s, t);
    else if (!strcmp(t.op, "allreduce")) take_allreduce(ctx, s, t, sent);
    else if (!strcmp(t.op, "alltoallv")) take_alltoallv(ctx, s, t, sent, got);
    else die("no such operation");
  }
  barrier();
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 6) die("usage: gloo NP DIRECTORY PIPE SECONDS BYTES");
  settings s = settings_from(argv + 3);
  ranks = {"gloo", "tcp", 0, atoi(argv[1]), barrier, share, slowest};
  if (ranks.size < 1 || ranks.size > MAX_RANKS) die("too many ranks");
  void *p = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) die("no shared memory");
  board = new (p) Board();
  std::vector<pid_t> children;
  for (int r = 0; r < ranks.size; r++) {
    pid_t child = fork();
    if (child == 0) {
      ranks.rank = r;
      one_rank(argv[2], s);
      fflush(stdout);
      _exit(0);
    }
    children.push_back(child);
  }
  int bad = 0;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    bad |= status;
  }
  return bad != 0;
}
