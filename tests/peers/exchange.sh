#!/usr/bin/env bash
# Measures the exchange of embeddings, keys out, rows back, gradients out, through
# wdlrun's windows and through MPI_Alltoallv (exchange.c) on this host, in turns,
# and prints how many times faster wdlrun is.
#
#   exchange.sh            build what is missing, measure, print (some two minutes)
#   exchange.sh table FILE print the table of lines measured before
#
# compare.sh install gets the Debian packages. The keys are those of w1: 60 fields
# that share 10 million ids, Zipf 1.1, a batch of 1024 samples of all ranks together.
# Set in the environment to change:
#   NPS DIMS BATCHES ROUNDS SECONDS_EACH LIMIT BUILD (/tmp/wdlrun-peers)
#   WRAP   a command to prefix every measured one with, such as a lock
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
lines=$build/exchange.csv
NPS=${NPS:-2 4} DIMS=${DIMS:-11 33} BATCHES=${BATCHES:-1024 4096} ROUNDS=${ROUNDS:-3} SECONDS_EACH=${SECONDS_EACH:-0.3} LIMIT=${LIMIT:-60}
fields=60 domain=10000000 zipf=1.1

build_all() {
  mkdir -p "$build" || exit 1
  (cd "$here/../.." && CGO_ENABLED=0 go build -o "$build/wdlrun" ./cmd/wdlrun && CGO_ENABLED=0 go test -c -o "$build/exchange.test" ./sparse) || exit 1
  local lib
  for lib in openmpi mpich; do
    if command -v "mpicc.$lib" >/dev/null; then
      "mpicc.$lib" -O3 -march=native -o "$build/exchange-$lib" "$here/exchange.c" -lm || exit 1
    else
      echo "# $lib is not installed: left out" >&2
    fi
  done
}

field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }

# reported UNIT: what a Go benchmark reports in that unit
reported() { sed -n "s/.*[^0-9.]\([0-9.]*\) $1.*/\1/p"; }

# ours NP BATCH DIM: sets remote, the distinct keys for each other rank
ours() {
  local np=$1 line op
  line=$(${WRAP:-} timeout "$LIMIT" "$build/wdlrun" -np "$np" -output merged "$build/exchange.test" -test.run '^$' -test.bench Exchange -test.benchtime 1x \
    -keys $((fields * $2 / np)) -fields $fields -zipf $zipf -domain $domain -dim "$3" -time "${SECONDS_EACH}s" 2>>"$build/log")
  remote=$(($(reported remote-keys <<<"$line") / (np - 1)))
  for op in wire both; do echo "wdlrun-$op,$np,$2,$3,$(reported "$op-us" <<<"$line")"; done
}

# peer LIB NP BATCH DIM
peer() {
  local lib=$1 np=$2 cores args
  cores=$(nproc) args=("$build/exchange-$1" "$1" "$remote" "$4" $domain $fields $zipf "$SECONDS_EACH")
  [ -x "$build/exchange-$lib" ] || return
  case $lib in
  openmpi)
    [ "$np" -gt "$cores" ] && set -- --mca mpi_yield_when_idle 1 || set --
    set -- env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi --oversubscribe -np "$np" "$@" "${args[@]}"
    ;;
  mpich)
    [ "$np" -gt "$cores" ] && return # it does not yield while it waits
    set -- mpiexec.mpich -bind-to core -np "$np" "${args[@]}"
    ;;
  esac
  ${WRAP:-} timeout "$LIMIT" "$@" 2>>"$build/log" | field median_us
}

measure() {
  local round np batch dim lib us remote
  for ((round = 0; round < ROUNDS; round++)); do
    for np in $NPS; do
      for batch in $BATCHES; do
        for dim in $DIMS; do
          remote=0
          ours "$np" "$batch" "$dim"
          for lib in openmpi mpich; do
            us=$(peer "$lib" "$np" "$batch" "$dim")
            [ -n "$us" ] && echo "$lib,$np,$batch,$dim,$us"
          done
        done
      done
    done
  done
}

# table FILE: medians of the rounds, and a peer's over ours.
table() {
  awk -F, '
    function median(s,   n, a, i, j, t) {
      n = split(s, a, " ")
      for (i = 2; i <= n; i++) { t = a[i] + 0; for (j = i - 1; j > 0 && a[j] + 0 > t; j--) a[j + 1] = a[j]; a[j + 1] = t }
      return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
    }
    NF == 5 { k = $2 "," $3 "," $4; if (!(k in known)) { known[k] = 1; order[++count] = k } all[$1, k] = all[$1, k] " " $5 }
    END {
      print "| ranks | batch | dim | wdlrun, µs | openmpi / wdlrun | mpich / wdlrun |"
      print "|---|---|---|---|---|---|"
      for (i = 1; i <= count; i++) {
        k = order[i]; split(k, c, ","); ours = median(all["wdlrun-wire", k])
        printf "| %d | %d | %d | %.0f |", c[1], c[2], c[3], ours
        for (p = 1; p <= 2; p++) {
          lib = p == 1 ? "openmpi" : "mpich"
          if ((lib, k) in all) { r = median(all[lib, k]) / ours; logs[lib] += log(r); n[lib]++; printf " %.2f× |", r } else printf " – |"
        }
        print ""
      }
      for (lib in n) printf "%s: geometric mean %.2f×\n", lib, exp(logs[lib] / n[lib])
    }' "$1"
}

case ${1:-measure} in
measure) build_all && measure | tee "$lines" >&2 && table "$lines" ;;
table) table "$2" ;;
*)
  echo "usage: exchange.sh | exchange.sh table FILE" >&2
  exit 2
  ;;
esac
