#!/usr/bin/env bash
# Measures how fast wdlrun, DuckDB and Polars read the same file on one core, by turns.
#
#   input.sh install   DuckDB and Polars from npm, into BUILD (needs node 20 and npm)
#   input.sh           about two minutes
#
# wdlrun makes batches of the features of wdlrun init, in the file's order and shuffled. The
# peers only read the values (input.mjs). Values are medians of the rounds. Set in the
# environment to change:
#   ROWS (300000) FORMATS (tsv parquet) ROUNDS (3) SECONDS_EACH (3) BUILD (/tmp/wdlrun-peers)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
rows=${ROWS:-300000} time=${SECONDS_EACH:-3}
export MODULES=$build/npm POLARS_MAX_THREADS=1

mkdir -p "$MODULES"
if [ "${1:-}" = install ]; then
  exec npm install --silent --no-fund --no-audit --prefix "$MODULES" @duckdb/node-api@1.5.6-r.1 nodejs-polars@0.22.1
fi
(cd "$here/../.." && CGO_ENABLED=0 go build -o "$build/wdlrun" ./cmd/wdlrun)

ours() { # FILE FLAGS...: rows per second
  local file=$1
  shift
  taskset -c 1 "$build/wdlrun" bench input -data "$file" -time "${time}s" -json "$@" |
    sed 's/.*"records_per_second":\([0-9]*\).*/\1/'
}

for ((i = 0; i < ${ROUNDS:-3}; i++)); do
  for format in ${FORMATS:-tsv parquet}; do
    file=$build/input-$rows.$format
    [ -e "$file" ] || "$build/wdlrun" gen -rows "$rows" -out "$file" >/dev/null
    echo "$format,wdlrun,$(ours "$file")"
    echo "$format,shuffled,$(ours "$file" -shuffle)"
    for peer in duckdb polars; do
      echo "$format,$peer,$(taskset -c 1 node "$here/input.mjs" "$peer" "$file" "$time")"
    done
  done
done >"$build/input.csv"
python3 - "$build/input.csv" <<'P'
import collections, statistics, sys
speed = collections.defaultdict(list)
for line in open(sys.argv[1]):
    what, name, s = line.strip().split(',')
    speed[what, name].append(float(s))
print('| | rows/s | / DuckDB | / Polars |')
print('|---|---|---|---|')
for what, name in speed:
    if name in ('wdlrun', 'shuffled'):
        own = speed[what, name]
        ratio = ('%.2f' % statistics.median(a / b for a, b in zip(own, speed[what, peer])) for peer in ('duckdb', 'polars'))
        print('| %s, %s | %.0f | %s |' % (what, 'in order' if name == 'wdlrun' else name, statistics.median(own), ' | '.join(ratio)))
P
