#!/usr/bin/env bash
# Measures the products of the models' layers, in fp32 and on one thread, of
# wdlrun and of OpenBLAS by turns, and prints how many times faster wdlrun is.
#
#   gemm.sh install   OpenBLAS from Debian (needs root)
#   gemm.sh           some 30 seconds
#
# A turn takes the fastest of REPEAT calls; a figure is the median of the turns'
# ratios. Ours count the packing of weights, bias, ReLU and the ReLU's gradient,
# OpenBLAS the bare product. Set in the environment to change:
#   ROUNDS SHAPES BUILD (/tmp/wdlrun-peers)
#   REPEAT 10; a hundred where other work disturbs most calls
#   AVX2   not empty: both without AVX-512
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
shapes=${SHAPES:-256x600x256 256x256x256 256x429x256 1024x600x256 1024x256x256 4096x600x256 4096x256x256}

if [ "${1:-}" = install ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev libopenblas-dev python3-minimal
  exit
fi
[ -z "${AVX2:-}" ] || export GODEBUG=cpu.avx512f=off OPENBLAS_CORETYPE=Haswell
mkdir -p "$build"
gcc -O2 -Wall -o "$build/gemm" "$here/gemm.c" -lopenblas
(cd "$here/../.." && go test -c -o "$build/f32.test" ./internal/kernel/f32)
: >"$build/gemm.csv"
for ((i = 0; i < ${ROUNDS:-5}; i++)); do
  for s in $shapes; do
    # shellcheck disable=SC2016
    "$build/f32.test" -test.run '^$' -test.cpu 1 -test.benchtime "${REPEAT:-10}x" -test.bench "Products/.*/^$s\$/^(AVX512|AVX2)\$" |
      awk -v round="$i" '/^Benchmark/ { split($1, n, "/"); if (seen[n[2] n[3]]++) next
        split(n[3], d, "x"); for (k = 2; k < NF; k++) if ($(k + 1) == "GFLOP/s") print round ",wdlrun," n[2] "," d[1] "," d[2] "," d[3] "," $k }'
    "$build/gemm" "${REPEAT:-10}" "$s" | sed "s/^/$i,openblas,/"
  done
done >>"$build/gemm.csv"
python3 - "$build/gemm.csv" <<'P'
import collections, statistics, sys
rounds = collections.defaultdict(dict)
for line in open(sys.argv[1]):
    i, lib, product, rows, n_in, out, speed = line.strip().split(',')
    rounds[int(rows), -int(n_in), int(out), product][lib, i] = float(speed)
print('| rows | in×out | forward | input gradient | weight gradient |')
print('|---|---|---|---|---|')
for rows, n_in, out in sorted({c[:3] for c in rounds}):
    cells = []
    for product in ('forward', 'input', 'weight'):
        x = rounds[rows, n_in, out, product]
        ratio = [x['wdlrun', i] / v for (lib, i), v in x.items() if lib == 'openblas' and ('wdlrun', i) in x]
        cells.append('%.2f' % statistics.median(ratio) if ratio else '–')
    print('| %d | %d×%d | %s |' % (rows, -n_in, out, ' | '.join(cells)))
P
