#!/usr/bin/env bash
# Measures how fast wdlrun, DuckDB, Polars, PyArrow and fastavro read the same file on one core, by turns.
#
#   input.sh install   the peers from PyPI, in a virtual environment under BUILD
#   input.sh           about three minutes
#   FORMATS="arrow avro" input.sh
#
# wdlrun makes batches of the features of wdlrun init, in the file's order and shuffled. The
# peers only read the values (input.py). Values are medians of the rounds. Set in the
# environment to change:
#   ROWS (300000) FORMATS (tsv parquet, also arrow avro) ROUNDS (3) SECONDS_EACH (3) BUILD (/tmp/wdlrun-peers)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
rows=${ROWS:-300000} time=${SECONDS_EACH:-3}
venv=$build/venv-input

mkdir -p "$build"
if [ "${1:-}" = install ]; then
  python3 -m venv "$venv"
  exec "$venv/bin/pip" install -q duckdb==2.0.0 polars==2.1.0 pyarrow==26.0.1 fastavro==1.13.1
fi
[ -x "$venv/bin/python" ] || { echo "first: input.sh install" >&2; exit 1; }
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
    case $format in
    arrow) peers="polars pyarrow" ;;
    avro) peers="polars fastavro" ;;
    *) peers="duckdb polars pyarrow" ;;
    esac
    for peer in $peers; do
      echo "$format,$peer,$(taskset -c 1 "$venv/bin/python" "$here/input.py" "$peer" "$file" "$time")"
    done
  done
done >"$build/input.csv"
python3 - "$build/input.csv" <<'P'
import collections, statistics, sys
speed = collections.defaultdict(list)
for line in open(sys.argv[1]):
    what, name, s = line.strip().split(',')
    speed[what, name].append(float(s))
peers = {'duckdb': 'DuckDB', 'polars': 'Polars', 'pyarrow': 'PyArrow', 'fastavro': 'fastavro'}
peers = {peer: title for peer, title in peers.items() if any(name == peer for _, name in speed)}
print('| | rows/s |', *(' / %s |' % title for title in peers.values()), sep='')
print('|---|---|', *('---|' for _ in peers), sep='')
for what, name in speed:
    if name in ('wdlrun', 'shuffled'):
        own = speed[what, name]
        ratio = ('%.2f' % statistics.median(a / b for a, b in zip(own, speed[what, peer])) if (what, peer) in speed else '' for peer in peers)
        print('| %s, %s | %.0f | %s |' % (what, 'in order' if name == 'wdlrun' else name, statistics.median(own), ' | '.join(ratio)))
P
