#!/usr/bin/env bash
# Measures the training step of wdlrun and of today's PyTorch, TorchRec, FBGEMM and
# TensorFlow on the CPU in one run on this host, in turns, and prints how many times
# faster wdlrun is.
#
#   step.sh install        the peers from PyPI, each in a virtual environment of $BUILD
#                          (6 GB, ten minutes; needs gcc, g++ and Python 3.11 or later)
#   step.sh [quick|full]   build and generate what is missing, measure, print
#   step.sh parts          the sparse part of the step of two ranks, w1
#   step.sh auc            train one epoch of w2 with each and print the AUCs
#   step.sh table FILE     print the table of lines measured before
#
# The peers come in four classes: stock, PyTorch as people write it (fusedw; -ddp for
# two ranks); torchrec, TorchRec's or FBGEMM's tables (torch/step_torchrec.py);
# tensorflow (torch/step_tensorflow.py); native, a hand-written backward pass with the sparse
# part in C, and the layers by torch.compile on one rank (torch/wdl_torch.py). A ratio is
# to the best of a class. Set in the environment to change:
#   WORKLOADS BATCHES ROUNDS RANKS (1 2) BUILD (/tmp/wdlrun-peers)
#   BF16   not empty: bf16 too
#   AVX2   not empty: all without AVX-512
#   CPU    not empty: samples for each second of CPU time, for a machine with other
#          work; one rank alone, since ranks that wait take CPU time too: RANKS=1
#   WRAP   a command to prefix every measured one with, such as a lock
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
RANKS=${RANKS:-1 2}
march=native
if [ -n "${AVX2:-}" ]; then
  export GODEBUG=cpu.avx512f=off ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 OPENBLAS_CORETYPE=Haswell
  march=haswell
fi
lines=$build/step.csv
python=$build/torch/bin/python

# FBGEMM 1.9.0 does not load with PyTorch 2.15, and TorchRec asks for its build with CUDA.
install_peers() {
  "$here/../jobs/torchrun" "$build/torch" 2.15.0 && packages torch numpy==2.4.6 scikit-learn==1.9.1 pandas==3.1.1 &&
    "$here/../jobs/torchrun" "$build/torchrec" 2.14.1 && packages torchrec numpy==2.4.6 &&
    packages torchrec --no-deps fbgemm-gpu-cpu==1.9.0 torchrec==1.9.2 cloudpickle==3.1.3 importlib_metadata==10.2.0 \
      lightning-utilities==0.15.3 mypy_extensions==1.2.0 orjson==3.13.0 packaging==26.4 pyre-extensions==0.0.32 pyvers==0.2.3 \
      tensordict==0.12.3 torchmetrics==1.0.3 tqdm==4.70.1 typing-inspect==0.9.0 zipp==4.1.2 &&
    python3 -m venv "$build/tensorflow" && packages tensorflow tensorflow-cpu==2.21.0
}

packages() { "$build/$1/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir "${@:2}"; }

build_all() {
  mkdir -p "$build/data" || exit 1
  (cd "$here/../.." && CGO_ENABLED=0 go build -o "$build/wdlrun" ./cmd/wdlrun) || exit 1
  [ -x "$build/tensorflow/bin/python" ] || { echo "run: step.sh install" >&2; exit 1; }
  gcc -O3 -march=$march -ffast-math -fopenmp -shared -fPIC -o "$build/libwdl_native.so" "$here/torch/wdl_native.c" || exit 1
  rows meituan 0 400000 meituan_train
  rows meituan 400000 100000 meituan_test
  rows criteo 0 1000000 criteo_train
  rows criteo 1000000 200000 criteo_test
}

rows() { # PROFILE START ROWS NAME
  local file=$build/data/$4
  [ -e "$file.npz" ] && return
  rm -f "$file.tsv"
  "$build/wdlrun" gen -profile "$1" -start "$2" -rows "$3" -out "$file.tsv" >/dev/null &&
    "$python" "$here/torch/rows.py" "$1" "$file.tsv" "$file.npz" && rm "$file.tsv" || exit 1
}

# ours WORKLOAD BATCH NP FLAGS...: workload,variant,np,threads,batch,samples/s,auc
ours() {
  local w=$1 b=$2 np=$3
  shift 3
  ${WRAP:-} "$build/wdlrun" -np "$np" bench step -workload "$w" -batch "$b" -json "$@" 2>>"$build/step.err" | tail -n 1 | "$python" -c '
import json, sys
r = json.loads(sys.stdin.read())
name = "wdlrun" + ("-bf16" if r["bf16"] else "")
speed = r["samples_per_cpu_second" if sys.argv[1:] else "samples_per_second"]
print("%s,%s,%d,%d,%d,%.0f,%s" % (r["workload"], name, r["np"], r["threads"], r["batch"], speed, r.get("auc", "")))' ${CPU:-}
}

# peer WORKLOAD BATCH PROGRAM FLAGS...: the same line
peer() {
  local w=$1 b=$2 program=$3
  shift 3
  if [ "$program" = torch ]; then
    run_torch "$w" "$b" "$@" | cut -d, -f1-7
    return
  fi
  GLIBC_TUNABLES=glibc.malloc.hugetlb=1 OMP_WAIT_POLICY=PASSIVE ${WRAP:-} "$build/$program/bin/python" "$here/torch/step_$program.py" \
    --data "$build/data" --workload "$w" --batch "$b" ${CPU:+--cpu-clock} "$@" 2>>"$build/step.err"
}

run_torch() {
  local w=$1 b=$2
  shift 2
  (
    cd "$here/torch" || exit 1
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 OMP_WAIT_POLICY=PASSIVE WDL_NATIVE=$build/libwdl_native.so \
      ${WRAP:-} "$python" wdl_torch.py --data "$build/data" --workload "$w" --batch "$b" --csv ${CPU:+--cpu-clock} "$@" 2>>"$build/step.err"
  )
}

peers_1=("torch --no-eval --impl fusedw" "torch --no-eval --impl native" "torch --no-eval --impl native --compile"
  "torchrec --tables fbgemm" "torchrec --tables torchrec" "tensorflow")
peers_2=("torch --no-eval --impl fusedw --np 2 --dist ddp" "torchrec --np 2"
  "torch --no-eval --impl native --np 2 --dist row" "torch --no-eval --impl native --np 2 --dist table")
bf16_1=("torch --no-eval --impl fusedw --bf16" "torch --no-eval --impl native --bf16")
bf16_2=("torch --no-eval --impl native --bf16 --np 2 --dist table")

measure() {
  : >"$lines"
  : >"$build/step.err"
  local round w b np
  for ((round = 0; round < ROUNDS; round++)); do
    for w in $WORKLOADS; do
      for b in $BATCHES; do
        for np in $RANKS; do turn "$w" "$b" "$np"; done
      done
    done
  done | tee -a "$lines" >&2
}

# turn WORKLOAD BATCH NP: ours, the peers, and ours again
turn() {
  local w=$1 b=$2 np=$3 v steps=$(($2 >= 4096 ? 60 : 130))
  local -n peers=peers_$np bf16=bf16_$np
  ours "$w" "$b" "$np" -steps "$steps"
  for v in "${peers[@]}"; do peer "$w" "$b" $v --steps "$steps"; done
  ours "$w" "$b" "$np" -steps "$steps"
  [ -n "${BF16:-}" ] || return
  ours "$w" "$b" "$np" -steps "$steps" -bf16
  for v in "${bf16[@]}"; do peer "$w" "$b" $v --steps "$steps"; done
}

# table FILE: medians, and ours over the best of each class.
table() {
  "$python" - "$1" <<'P'
import collections, statistics, sys
speed = collections.defaultdict(list)
for line in open(sys.argv[1]):
    f = line.strip().split(',')
    if len(f) >= 6:
        speed[f[0], int(f[4]), int(f[2]), 'bf16' in f[1], f[1]].append(float(f[5]))
cases = collections.defaultdict(dict)
for (w, batch, np, bf16, name), x in speed.items():
    name = name.replace('-bf16', '')
    kind = 'stock' if name.startswith('fusedw') else 'torchrec' if name == 'fbgemm' else name.split('-')[0]
    best = cases[w, batch, np, bf16]
    best[kind] = max(best.get(kind, 0), statistics.median(x))
print('| workload | batch | ranks | precision | wdlrun / stock | / torchrec | / tensorflow | / native |')
print('|---|---|---|---|---|---|---|---|')
for (w, batch, np, bf16), best in sorted(cases.items()):
    if 'wdlrun' not in best:
        continue
    ratio = ['%.2f' % (best['wdlrun'] / best[k]) if k in best else '–' for k in ('stock', 'torchrec', 'tensorflow', 'native')]
    print('| %s | %d | %d | %s | %s |' % (w, batch, np, 'bf16' if bf16 else 'fp32', ' | '.join(ratio)))
P
}

auc() {
  ours w2 1024 1 -epoch
  ours w2 1024 2 -epoch
  [ -n "${BF16:-}" ] && ours w2 1024 1 -epoch -bf16
  peer w2 1024 torch --impl fusedw
  peer w2 1024 torch --impl native
}

# The sparse part of a step: all but the layers, their gradients' sum and, in the
# peers, their optimizer; ours counts it, since both are in one part. Waiting for
# the other rank is in it on either side. Prints milliseconds.
our_parts() { # BATCH FLAGS...
  local b=$1
  shift
  ${WRAP:-} "$build/wdlrun" -np 2 bench step -workload w1 -batch "$b" -steps 130 -json "$@" 2>>"$build/step.err" | tail -n 1 | "$python" -c '
import json, sys
part = {p["name"]: p["ms"] for p in json.loads(sys.stdin.read())["parts"]}
print("wdlrun,%.3f,%s" % (sum(part[n] for n in ("pull", "pool", "key gradients", "push", "update")), " ".join("%s %.2f" % x for x in part.items())))'
}

torch_parts() { # NAME BATCH FLAGS...
  local name=$1 b=$2
  shift 2
  run_torch w1 "$b" --no-eval --steps 130 --np 2 --split "$@" | sed -n 's/^ *ms.step mean: *//p' | "$python" -c '
import ast, sys
part = ast.literal_eval(sys.stdin.read().strip())
dense = ("mlp_fwd", "mlp_bwd(+ddp)", "allreduce", "dense_opt")
print("%s,%.3f,%s" % (sys.argv[1], sum(t for n, t in part.items() if n not in dense), " ".join("%s %.2f" % x for x in part.items())))' "$name"
}

parts() {
  local round b=${BATCHES%% *} d
  for ((round = 0; round < ROUNDS; round++)); do
    our_parts "$b"
    for d in row table; do
      torch_parts "native-$d" "$b" --impl native --dist $d
    done
    our_parts "$b"
  done | tee "$build/parts.csv" >&2
  "$python" - "$build/parts.csv" <<'P'
import collections, statistics, sys
ms = collections.defaultdict(list)
for line in open(sys.argv[1]):
    name, t, _ = line.split(',', 2)
    ms[name].append(float(t))
ours = statistics.median(ms['wdlrun'])
print('| sparse part of a step | ms | / wdlrun |')
print('|---|---|---|')
for name in sorted(ms):
    print('| %s | %.2f | %.2f |' % (name, statistics.median(ms[name]), statistics.median(ms[name]) / ours))
P
}

case ${1:-quick} in
install) install_peers ;;
quick) WORKLOADS=${WORKLOADS:-w1} BATCHES=${BATCHES:-1024} ROUNDS=${ROUNDS:-3} && build_all && measure && table "$lines" ;;
full) WORKLOADS=${WORKLOADS:-w1 w2} BATCHES=${BATCHES:-1024 4096} ROUNDS=${ROUNDS:-3} && build_all && measure && table "$lines" ;;
parts) BATCHES=${BATCHES:-1024} ROUNDS=${ROUNDS:-3} && build_all && parts ;;
auc) build_all && auc ;;
table) table "$2" ;;
*)
  echo "usage: step.sh install | quick | full | parts | auc | table FILE" >&2
  exit 2
  ;;
esac
