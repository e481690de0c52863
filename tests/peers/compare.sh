#!/usr/bin/env bash
# Measures wdlrun and its peers (OpenMPI, MPICH, Gloo) in one run on this host,
# in turns, and prints how many times faster wdlrun is than the best of them.
#
#   compare.sh install         the Debian packages of the peers (needs root)
#   compare.sh [quick|full]    build what is missing, measure, print the tables
#   compare.sh table FILE      print the tables of lines measured before
#
# quick takes under a minute, full about ten. Set in the environment to change:
#   NPS SIZES OPS FORMS SECONDS_EACH ROUNDS CLASSES LIBS   see the code
#   LIMIT                      seconds for one launch; what it printed is kept
#   BUILD                      where programs and lines go (/tmp/wdlrun-peers)
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
lines=$build/lines.jsonl

install_peers() {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc g++ iproute2 openmpi-bin libopenmpi-dev mpich libmpich-dev libgloo-dev
}

build_all() {
  mkdir -p "$build" || exit 1
  (cd "$here/../.." && CGO_ENABLED=0 go build -o "$build/wdlrun" ./cmd/wdlrun) || exit 1
  local lib
  for lib in openmpi mpich; do
    if command -v "mpicc.$lib" >/dev/null; then
      "mpicc.$lib" -O3 -march=native -o "$build/$lib" "$here/mpi.c" || exit 1
    else
      echo "# $lib is not installed: left out" >&2
    fi
  done
  if [ -e /usr/include/gloo/config.h ]; then
    g++ -O3 -march=native -std=c++17 -o "$build/gloo" "$here/gloo.cc" -lgloo -lpthread || exit 1
  else
    echo "# gloo is not installed: left out" >&2
  fi
}

# TCP inside a host is measured in a network of its own with Reno: a congestion
# control that paces, such as BBR, would measure its estimates. Without root the
# system's setting holds, for all libraries alike.
private_net='ip link set lo up && echo reno >/proc/sys/net/ipv4/tcp_congestion_control && exec "$@"'
in_class() { # CLASS command...
  local class=$1
  shift
  if [ "$class" = tcp ] && unshare -n sh -c "$private_net" sh true 2>/dev/null; then
    unshare -n sh -c "$private_net" sh "$@"
  else
    "$@"
  fi
}

# launch CLASS LIB NP: one start of one library. Classes: shm, within a host; tcp.
launch() {
  local class=$1 lib=$2 np=$3 mpi=() meet
  local settings=("$SECONDS_EACH" "$OPS" "$SIZES" "$FORMS") cores
  cores=$(nproc)
  case $lib in
  wdlrun)
    # shellcheck disable=SC2086 # words are wanted
    set -- "$build/wdlrun" -np "$np" -transport "$class" bench $OPS -sizes "${SIZES// /,}" -time "${SECONDS_EACH}s" -json
    [[ " $FORMS " == *" use "* ]] || set -- "$@" -plain
    ;;
  openmpi)
    [ "$np" -gt "$cores" ] && mpi+=(--mca mpi_yield_when_idle 1)
    [ "$class" = tcp ] && mpi+=(--mca pml ob1 --mca btl "self,tcp" --mca btl_tcp_if_include lo)
    set -- env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
      mpirun.openmpi --oversubscribe -np "$np" "${mpi[@]}" "$build/openmpi" openmpi "$class" "${settings[@]}"
    ;;
  mpich)
    # MPICH does not yield while it waits: with more ranks than cores a step
    # takes scheduler ticks, and over TCP it does not end.
    [ "$np" -gt "$cores" ] && return
    [ "$class" = tcp ] && mpi=(env UCX_TLS=tcp,self UCX_NET_DEVICES=lo)
    set -- "${mpi[@]}" mpiexec.mpich -bind-to core -np "$np" "$build/mpich" mpich "$class" "${settings[@]}"
    ;;
  gloo)
    [ "$class" = shm ] && [[ " $CLASSES " == *" tcp "* ]] && return # it has TCP only, which counts in both classes
    meet=$(mktemp -d)
    set -- "$build/gloo" "$np" "$meet" "${settings[@]}"
    ;;
  esac
  [ -x "$build/$lib" ] || return
  in_class "$class" timeout "$LIMIT" "$@" 2>>"$build/log" | grep '^{"lib"' >>"$lines"
  [ -z "${meet:-}" ] || rm -rf "$meet"
}

measure() {
  : >"$lines"
  : >"$build/log"
  local round class np lib
  for ((round = 0; round < ROUNDS; round++)); do
    for class in $CLASSES; do
      for np in $NPS; do
        for lib in $LIBS; do
          echo "# round $((round + 1)): $class, $np ranks, $lib" >&2
          launch "$class" "$lib" "$np"
        done
      done
    done
  done
}

# table FILE: medians over the rounds; the best peer's time over wdlrun's.
table() {
  sed -E 's/[{}"]//g; s/(lib|transport|op|np|bytes|median_us|algbw_GBps|busbw_GBps)://g' "$1" | awk -F, '
    function median(s,   n, a, i, j, t) {
      n = split(s, a, " ")
      for (i = 2; i <= n; i++) { t = a[i] + 0; for (j = i - 1; j > 0 && a[j] + 0 > t; j--) a[j + 1] = a[j]; a[j + 1] = t }
      return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
    }
    function consider(class, key, id, us) {
      if (!((class, key) in best) || us < best[class, key]) { best[class, key] = us; who[class, key] = id }
    }
    { key = $3 "," $4 "," $5; id = $1 "," $2; if (!((id, key) in all)) order[++count] = id SUBSEP key; all[id, key] = all[id, key] " " $6 }
    END {
      for (i = 1; i <= count; i++) {
        split(order[i], part, SUBSEP); id = part[1]; key = part[2]; us = median(all[id, key])
        split(id, name, ","); class = name[2]; sub(/:.*/, "", class)
        if (name[1] == "wdlrun") { ours[class, key] = us; shown[++rows] = class SUBSEP key; continue }
        consider(class, key, id, us)
        if (name[1] == "gloo") consider("shm", key, id, us)
      }
      for (i = 1; i <= rows; i++) {
        split(shown[i], part, SUBSEP); class = part[1]; key = part[2]
        if (!((class, key) in best)) continue
        split(key, k, ","); ratio = best[class, key] / ours[class, key]; id = who[class, key]; sub(",", " ", id)
        printf "1 %s,%s,%s,%s,%.2f,%s\n", class, k[1], k[2], k[3], ratio, id
        large = k[3] >= 16384 ? "from 16 KiB" : "below 16 KiB"
        g = class "," k[1] "," large; logs[g] += log(ratio); n[g]++; if (!(g in least) || ratio < least[g]) least[g] = ratio
      }
      for (g in n) printf "2 %s,%d,%.2f,%.2f\n", g, n[g], exp(logs[g] / n[g]), least[g]
    }' | sort -t, -k1,1 -k2,2 -k3,3n -k4,4n >"$build/table"
  echo "| transport | operation | ranks | bytes | faster than the best peer | best peer |"
  echo "|---|---|---|---|---|---|"
  sed -n 's/^1 //p' "$build/table" | awk -F, '{ printf "| %s | %s | %d | %d | %.2f× | %s |\n", $1, $2, $3, $4, $5, $6 }'
  echo
  echo "| transport | operation | sizes | cases | geometric mean | least |"
  echo "|---|---|---|---|---|---|"
  sed -n 's/^2 //p' "$build/table" | awk -F, '{ printf "| %s | %s | %s | %d | %.2f× | %.2f× |\n", $1, $2, $3, $4, $5, $6 }'
}

defaults() { # NPS SIZES FORMS SECONDS_EACH ROUNDS LIMIT
  NPS=${NPS:-$1} SIZES=${SIZES:-$2} FORMS=${FORMS:-$3} SECONDS_EACH=${SECONDS_EACH:-$4} ROUNDS=${ROUNDS:-$5} LIMIT=${LIMIT:-$6}
  OPS=${OPS:-barrier allreduce alltoallv} CLASSES=${CLASSES:-shm tcp} LIBS=${LIBS:-wdlrun openmpi mpich gloo}
}

case ${1:-quick} in
install) install_peers ;;
table) mkdir -p "$build" && table "$2" ;;
quick | full)
  if [ "${1:-quick}" = quick ]; then
    defaults "2 4" "1024 65536 1048576" "plain" 0.02 1 5
  else
    defaults "2 4 8" "8 1024 16384 262144 1400000 16777216 67108864" "plain use" 0.03 2 40
  fi
  build_all
  measure
  table "$lines"
  ;;
*)
  sed -n '2,/^set -u/p' "$0" | sed '$d; s/^# \{0,1\}//'
  exit 2
  ;;
esac
