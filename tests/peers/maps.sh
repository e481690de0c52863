#!/usr/bin/env bash
# Measures the table's index and two hash maps of C++ by turns, on one thread: finding
# present and absent keys, and the slowest batch of inserted keys.
#
#   maps.sh install   absl::flat_hash_map and tsl::robin_map from Debian (needs root)
#   maps.sh           about a minute
#
# A value is the best map's time divided by the table's, the median of the rounds; a round
# takes the least of many turns. Set in the environment to change:
#   KEYS (4000000) ROUNDS (3) BUILD (/tmp/wdlrun-peers)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
keys=${KEYS:-4000000}

if [ "${1:-}" = install ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive exec apt-get install -y -qq --no-install-recommends g++ libabsl-dev robin-map-dev python3-minimal
fi
mkdir -p "$build"
g++ -O3 -march=native -std=c++17 -Wall -o "$build/maps" "$here/maps.cc" -labsl_raw_hash_set -labsl_hash -labsl_city -labsl_low_level_hash
(cd "$here/../.." && go test -c -o "$build/table.test" ./sparse/table)
for ((i = 0; i < ${ROUNDS:-3}; i++)); do
  for bench in 'FindLarge 100x' 'Grow 3x'; do
    "$build/table.test" -test.run '^$' -test.cpu 1 -test.bench "${bench% *}" -test.benchtime "${bench#* }" -keys "$keys"
  done | awk '/^Benchmark/ { split($1, n, "/"); what = n[2] ? n[2] : "grow"; sub(/-[0-9]+$/, "", what)
    for (k = 2; k < NF; k++) if ($(k + 1) == "ns/key" || $(k + 1) == "worst-ns/key") print what ",wdlrun," $k }'
  "$build/maps" "$keys" 100
done >"$build/maps.csv"
python3 - "$build/maps.csv" <<'P'
import collections, statistics, sys
took = collections.defaultdict(lambda: collections.defaultdict(list))
for line in open(sys.argv[1]):
    what, name, t = line.strip().split(',')
    took[what][name].append(float(t))
print('| ns per key | wdlrun | ' + ' | '.join(n for n in took['present'] if n != 'wdlrun') + ' | best map / wdlrun |')
print('|---' * (len(took['present']) + 2) + '|')
for what in 'present', 'absent', 'grow':
    maps = {n: x for n, x in took[what].items() if n != 'wdlrun'}
    ratio = statistics.median(min(x) / own for own, *x in zip(took[what]['wdlrun'], *maps.values()))
    cells = ['%.1f' % statistics.median(took[what][n]) if n in took[what] else '–' for n in took['present']]
    print('| %s | %s | %.2f |' % (what, ' | '.join(cells), ratio))
P
