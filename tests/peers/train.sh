#!/usr/bin/env bash
# Compares a whole training, from a TSV file to the AUC of another file, with PyTorch
# on the CPU, by turns, and prints how many times faster wdlrun is. step.sh install
# installs PyTorch and pandas.
#
#   train.sh [ROUNDS]      one and two ranks; three rounds of three minutes, unless told
#
# Times are of the whole command: start, reading, training, test. PyTorch reads with
# pandas and trains as people write it (torch/train_torch.py). Both train examples/criteo.yaml's
# model with Adam on the rows of wdlrun gen. Set in the environment to change:
#   ROWS (2000000) RANKS (1 2) BUILD (/tmp/wdlrun-peers)
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
rows=${ROWS:-2000000}
python=$build/torch/bin/python

mkdir -p "$build/train" && cd "$build/train" || exit 1
(cd "$here/../.." && CGO_ENABLED=0 go build -o "$build/wdlrun" ./cmd/wdlrun) || exit 1
"$python" -c 'import torch, pandas, sklearn' || { echo "run: step.sh install" >&2; exit 1; }
train=train-$rows.tsv test=test-$rows.tsv
[ -e "$train" ] || "$build/wdlrun" gen -rows "$rows" -out "$train" >/dev/null || exit 1
[ -e "$test" ] || "$build/wdlrun" gen -rows $((rows / 20)) -start "$rows" -out "$test" >/dev/null || exit 1

# ours NP, peer NP: the commands. The default rule of wdlrun doubles the given rate at
# this batch, so both train with .002.
ours() {
  adam='{kind: adam, learning_rate: 0.001}'
  rm -rf runs
  exec "$build/wdlrun" -np "$1" train -config "$here/../../examples/criteo.yaml" -json \
    -set "data.train=[$train]" -set "data.test=[$test]" \
    -set "train.optimizer={dense: $adam, deep: $adam, wide: $adam}"
}
peer() {
  exec "$python" "$here/torch/train_torch.py" --np "$1" --train "$train" --test "$test" --lr 0.002
}
export -f ours peer
export build here train test python

"$python" - "${1:-3}" ${RANKS:-1 2} <<'P'
import json, os, resource, statistics, subprocess, sys, time

def run(name, np):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    out = subprocess.run(['bash', '-c', '%s %s' % (name, np)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    wall, after = time.time() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if out.returncode:
        sys.exit('%s %s: %s' % (name, np, out.stderr.decode()[-2000:]))
    r = json.loads(out.stdout.splitlines()[-1])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print('%s, %s ranks: %.1f s, %.1f s of CPU time, %.0f samples/s, AUC %.4f, load %.1f' % (
        name, np, wall, cpu, r['samples_per_second'], r['test_auc'], os.getloadavg()[0]), file=sys.stderr)
    return wall, cpu, r['samples_per_second'], r['test_auc']

ranks, took = sys.argv[2:], {}
for _ in range(int(sys.argv[1])):
    for np in ranks:
        for name in ('ours', 'peer', 'ours'):
            took.setdefault((name, np), []).append(run(name, np))
print('| ranks | seconds: wdlrun, PyTorch, times as fast | CPU time | samples/s | AUC |')
print('|---|---|---|---|---|')
for np in ranks:
    a, b = ([statistics.median(x) for x in zip(*took[name, np])] for name in ('ours', 'peer'))
    print('| %s | %.1f, %.1f, %.2f | %.1f, %.1f, %.2f | %.0f, %.0f, %.2f | %.4f, %.4f |' % (
        np, a[0], b[0], b[0] / a[0], a[1], b[1], b[1] / a[1], a[2], b[2], a[2] / b[2], a[3], b[3]))
P
