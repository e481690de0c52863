#!/usr/bin/env bash
# Measures the products of the models' layers, in fp32 and on one thread, of wdlrun, OpenBLAS,
# MKL and oneDNN by turns, and prints how many times faster wdlrun is than each of them.
#
#   gemm.sh install   the libraries from PyPI, in a virtual environment under BUILD (needs gcc)
#   gemm.sh           some two minutes
#
# A turn takes the fastest of REPEAT calls; a figure is the median of the turns'
# ratios. Ours count the packing of weights, bias, ReLU and the ReLU's gradient,
# the libraries the bare product. Set in the environment to change:
#   ROUNDS SHAPES BUILD (/tmp/wdlrun-peers)
#   REPEAT 10; a hundred where other work disturbs most calls
#   AVX2   not empty: all without AVX-512
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
venv=$build/venv-gemm
shapes=${SHAPES:-256x600x256 256x256x256 256x429x256 1024x600x256 1024x256x256 4096x600x256 4096x256x256}

if [ "${1:-}" = install ]; then
  python3 -m venv "$venv"
  exec "$venv/bin/pip" install -q scipy-openblas32==0.3.34.481.3 mkl==2026.2.0 onednn==2026.1.0
fi
# oneDNN of PyPI divides its work with TBB, which reads no variable: everything has one CPU.
one() { taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" "$@"; }
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 LD_LIBRARY_PATH=$venv/lib
[ -z "${AVX2:-}" ] || export GODEBUG=cpu.avx512f=off OPENBLAS_CORETYPE=Haswell MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2
mkdir -p "$build"
gcc -O2 -Wall -o "$build/gemm" "$here/gemm.c" -ldl
(cd "$here/../.." && go test -c -o "$build/f32.test" ./internal/kernel/f32)
libraries=()
for x in "openblas:$venv/lib/python3*/site-packages/scipy_openblas32/lib/libscipy_openblas.so" "mkl:$venv/lib/libmkl_rt.so.*" "onednn:$venv/lib/libdnnl.so.?"; do
  # shellcheck disable=SC2086
  file=$(ls -d ${x#*:} 2>/dev/null | head -n 1)
  if [ -n "$file" ] && "$build/gemm" "$file" 1 32x32x32 >/dev/null; then libraries+=("${x%%:*}=$file"); else echo "${x%%:*} is left out: run gemm.sh install" >&2; fi
done
for ((i = 0; i < ${ROUNDS:-5}; i++)); do
  for s in $shapes; do
    # shellcheck disable=SC2016
    one "$build/f32.test" -test.run '^$' -test.cpu 1 -test.benchtime "${REPEAT:-10}x" -test.bench "Products/.*/^$s\$/^(AVX512|AVX2)\$" |
      awk -v round="$i" '/^Benchmark/ { split($1, n, "/"); if (seen[n[2] n[3]]++) next
        split(n[3], d, "x"); for (k = 2; k < NF; k++) if ($(k + 1) == "GFLOP/s") print round ",wdlrun," n[2] "," d[1] "," d[2] "," d[3] "," $k }'
    for x in "${libraries[@]}"; do one "$build/gemm" "${x#*=}" "${REPEAT:-10}" "$s" | sed "s/^/$i,${x%%=*},/"; done
  done
done >"$build/gemm.csv"
python3 - "$build/gemm.csv" <<'P'
import collections, statistics, sys
rounds = collections.defaultdict(dict)
for line in open(sys.argv[1]):
    i, lib, product, rows, n_in, out, speed = line.strip().split(',')
    rounds[int(rows), -int(n_in), int(out), product][lib, i] = float(speed)
libs = [name for name in ('openblas', 'mkl', 'onednn') if any(name == lib for x in rounds.values() for lib, _ in x)]
print('Forward, input gradient, weight gradient, times as fast as:\n')
print('| rows | in×out | %s | best |' % ' | '.join(libs))
print('|---' * (3 + len(libs)) + '|')
for rows, n_in, out in sorted({c[:3] for c in rounds}):
    def cell(names):
        text = []
        for product in ('forward', 'input', 'weight'):
            x = rounds[rows, n_in, out, product]
            turns = [x['wdlrun', i] / max(x[name, i] for name in names if (name, i) in x) for lib, i in x if lib == 'wdlrun' and any((name, i) in x for name in names)]
            text.append('%.2f' % statistics.median(turns) if turns else '–')
        return ', '.join(text)
    print('| %d | %d×%d | %s | %s |' % (rows, -n_in, out, ' | '.join(cell([name]) for name in libs), cell(libs)))
P
