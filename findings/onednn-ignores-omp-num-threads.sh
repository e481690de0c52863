#!/usr/bin/env bash
# oneDNN 2026.1.0 of PyPI divides its work with TBB, which reads no variable. With OMP_NUM_THREADS=1 and
# MKL_NUM_THREADS=1, the usual way to compare libraries on one core, a product still runs on all CPUs of the process,
# without a warning. Only an affinity mask of one CPU holds it to one.
#
# Why it matters: a comparison of products "on one thread" shows oneDNN on all CPUs: on two, up to twice as fast as it is. The library
# also exists with OpenMP, where the variable holds, so the same script is right or wrong by the package.
#
# Seen, on two CPUs: 2 threads with the variables set, 1 with taskset -c of one CPU.
# Needs at least two CPUs.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip install -q onednn==2026.1.0
cat >threads.py <<'PY'
import ctypes, glob, re, sys

lib = ctypes.CDLL(glob.glob(sys.argv[1])[0])
n = 512
a, b, c = ((ctypes.c_float * (n * n))(*[1] * (n * n)) for _ in range(3))
size, one, none = ctypes.c_int64(n), ctypes.c_float(1), ctypes.c_float(0)
for _ in range(20):
    assert lib.dnnl_sgemm(ctypes.c_char(b"N"), ctypes.c_char(b"N"), size, size, size, one, a, size, b, size, none, c, size) == 0
assert c[0] == n and c[n * n - 1] == n
print(re.search(r"Threads:\s*(\d+)", open("/proc/self/status").read())[1])
PY
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 LD_LIBRARY_PATH=$dir/v/lib
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
free=$(v/bin/python threads.py 'v/lib/libdnnl.so.?')
bound=$(taskset -c "$cpu" v/bin/python threads.py 'v/lib/libdnnl.so.?')
echo "OMP_NUM_THREADS=1: $free threads; the same bound to one CPU: $bound"
if [ "$free" -lt 2 ] || [ "$bound" -ne 1 ]; then
  echo "the behaviour has changed"
  exit 1
fi
