// Finds and inserts keys in absl::flat_hash_map and tsl::robin_map, which hold a row
// number for each key. Prints a line for each map and operation, with the least of many turns:
//
//     operation,map,ns per key
//
// grow is the slowest call of those that fill an empty map. A call has 65536 keys, which
// look like hashes of values. Arguments: KEYS and TURNS.
#include <absl/container/flat_hash_map.h>
#include <tsl/robin_map.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

using Key = uint64_t;
using Absl = absl::flat_hash_map<Key, uint32_t>;
using Robin = tsl::robin_map<Key, uint32_t>;

static const size_t batch = 1 << 16;

// key returns the key of row i+1 (SplitMix64).
static Key key(Key i) {
  Key x = (i + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

template <class F> double seconds(F run) {
  auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Plain {
  template <class M> void operator()(const M &m, const std::vector<Key> &keys, uint32_t *rows) {
    for (size_t i = 0; i < keys.size(); i++) {
      auto it = m.find(keys[i]);
      rows[i] = it == m.end() ? 0 : it->second;
    }
  }
};

struct Prefetched { // as a program would that knows its keys in advance
  void operator()(const Absl &m, const std::vector<Key> &keys, uint32_t *rows) {
    const size_t ahead = 16;
    for (size_t i = 0; i < keys.size(); i++) {
      if (i + ahead < keys.size()) m.prefetch(keys[i + ahead]);
      auto it = m.find(keys[i]);
      rows[i] = it == m.end() ? 0 : it->second;
    }
  }
};

template <class M> void insert(M &m, Key from) {
  for (Key i = from; i < from + batch; i++) m.try_emplace(key(i), uint32_t(i + 1));
}

template <class M, class Find>
void find(const char *name, const M &m, size_t keys, int turns, Find look) {
  for (bool absent : {false, true}) {
    std::mt19937_64 draw(3);
    std::vector<uint32_t> rows(batch);
    double least = 1e9;
    for (int t = 0; t < turns; t++) {
      std::vector<Key> asked(batch);
      for (Key &k : asked) k = key(draw() % keys + (absent ? keys : 0));
      least = std::min(least, seconds([&] { look(m, asked, rows.data()); }));
      for (uint32_t row : rows)
        if ((row == 0) != absent) exit(1);
    }
    printf("%s,%s,%.2f\n", absent ? "absent" : "present", name, least * 1e9 / batch);
  }
}

// grow counts each batch with its fastest turn, as BenchmarkGrow does.
template <class M> void grow(const char *name, size_t keys, int turns) {
  std::vector<double> least(keys / batch, 1e9);
  for (int t = 0; t < turns; t++) {
    M m;
    for (size_t b = 0; b < least.size(); b++)
      least[b] = std::min(least[b], seconds([&] { insert(m, b * batch); }));
  }
  printf("grow,%s,%.2f\n", name, *std::max_element(least.begin(), least.end()) * 1e9 / batch);
}

template <class M> M filled(size_t keys) {
  M m;
  for (size_t at = 0; at < keys; at += batch) insert(m, at);
  return m;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  size_t keys = strtoull(argv[1], nullptr, 10) / batch * batch;
  int turns = atoi(argv[2]);
  {
    Absl m = filled<Absl>(keys);
    find("absl", m, keys, turns, Plain());
    find("absl prefetched", m, keys, turns, Prefetched());
  }
  find("robin_map", filled<Robin>(keys), keys, turns, Plain());
  grow<Absl>("absl", keys, 3);
  grow<Robin>("robin_map", keys, 3);
}
