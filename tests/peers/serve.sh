#!/usr/bin/env bash
# Measures a request for the scores of 100 rows, of 26 strings and 13 numbers (36 kB): CPU time of wdlrun serve for each
# request over gRPC, at 200 requests/s and saturated, and CPU time of the exported ONNX graph in onnxruntime, in process.
#
#   serve.sh install    onnxruntime and numpy from PyPI, in a virtual environment under $BUILD
#   serve.sh            three rounds of half a minute, by turns; a line for each round and the medians
#
# Set in the environment to change: BUILD (/tmp/wdlrun-peers), ROUNDS (3), OTHER (another wdlrun, measured by turns too),
# PORT (18550). The server has one thread; on a quiet machine with two cores it has one core for itself.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
work=$build/serve
port=${PORT:-18550}
python=$build/venv-onnx/bin/python

if [ "${1:-}" = install ]; then
  mkdir -p "$build" && python3 -m venv "$build/venv-onnx" && "$build/venv-onnx/bin/pip" install -q onnxruntime numpy
  exit
fi
"$python" -c 'import onnxruntime' || { echo "run: serve.sh install" >&2; exit 1; }

prepare() {
  mkdir -p "$work"
  (cd "$here/../.." && CGO_ENABLED=0 go build -o "$work/wdlrun" ./cmd/wdlrun)
  cd "$work"
  [ -d models ] && return
  ./wdlrun gen -rows 100000 -out train.csv
  ./wdlrun gen -rows 2000 -start 200000 -out requests.csv
  {
    echo 'data: {train: [train.csv], format: csv, header: true}'
    echo 'label: {field: label}'
    echo 'features:'
    for k in $(seq 13); do echo "  - {field: I$k, encode: log}"; done
    for k in $(seq 26); do echo "  - {field: C$k, encode: hash}"; done
    echo 'model: {embedding_dim: 16, hidden: [256, 256, 256]}'
    echo 'train: {epochs: 1, global_batch: 1024, seed: 1}'
  } >model.yaml
  ./wdlrun -np 1 train -config model.yaml
  ./wdlrun export -resume runs/latest -out onnx -format onnx
  ./wdlrun predict -resume runs/latest -data requests.csv -keys -out keys.csv
  ./wdlrun export -resume runs/latest -out models -name ctr
} >&2

# serve BINARY RATE: microseconds of CPU time of a request
serve() {
  GOMAXPROCS=1 "$1" serve -model ctr=models/ctr -port "$port" -rest-port 0 -threads 1 >serve.log 2>&1 &
  local server=$! before after
  trap 'kill $server' EXIT
  send() { ./wdlrun bench serve -target 127.0.0.1:"$port" -model ctr -data requests.csv -rate "$1" -d "$2" -no-echo -json; }
  for _ in $(seq 50); do send 100 1s >/dev/null 2>&1 && break; sleep .2; done
  before=$(awk '{print $14 + $15}' /proc/$server/stat)
  send "$2" 6s 2>/dev/null | tail -n 1 >answers.json
  after=$(awk '{print $14 + $15}' /proc/$server/stat)
  kill $server
  wait $server || true
  trap - EXIT
  "$python" - $((after - before)) "$(getconf CLK_TCK)" <<'P'
import json, sys
m = json.load(open('answers.json'))['measured']
answered = max(m['requests'], 1) # without the rejected ones
print(round(1e6 * int(sys.argv[1]) / int(sys.argv[2]) / answered))
P
}

# onnx: the same of onnxruntime, for one request of the file, with the keys that predict -keys wrote
onnx() {
  "$python" - <<'P'
import csv, time, numpy, onnxruntime
keys, rows = (list(csv.DictReader(open(f)))[:100] for f in ('keys.csv', 'requests.csv'))
o = onnxruntime.SessionOptions()
o.intra_op_num_threads = o.inter_op_num_threads = 1
s = onnxruntime.InferenceSession('onnx/model.onnx', o)
feed = {i.name: numpy.array([int(r[i.name]) for r in keys] if i.name in keys[0] else [float(r[i.name] or 'nan') for r in rows]) for i in s.get_inputs()}
for _ in range(50):
    s.run(None, feed)
before = time.process_time()
for _ in range(2000):
    s.run(None, feed)
print(round(1e6 * (time.process_time() - before) / 2000))
P
}

prepare
cd "$work"
: >lines
for ((r = 1; r <= ${ROUNDS:-3}; r++)); do
  for binary in ./wdlrun ${OTHER:-}; do
    for rate in 200 3000; do
      echo "$(basename "$(dirname "$binary")")/$(basename "$binary") at $rate/s: $(serve "$binary" $rate)" | sed 's|^\./||' | tee -a lines
    done
  done
  echo "onnxruntime in process: $(onnx)" | tee -a lines
done
echo "medians in microseconds of CPU time; load $(cut -d' ' -f1 /proc/loadavg)"
"$python" - <<'P'
import statistics
of = {}
for line in open('lines'):
    name, value = line.rsplit(': ', 1)
    of.setdefault(name, []).append(int(value))
for name, values in of.items():
    print(f'{name}: {statistics.median(values):.0f}')
P
