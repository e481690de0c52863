#!/usr/bin/env bash
# Compares two ranks with two trainings of one rank each that run side by side on
# the same two cores: what two ranks would do if exchanging cost nothing. By turns,
# in one run on this host.
#
#   scaling.sh [ROUNDS]    three rounds, half a minute each, unless told
#
# A batch of two ranks is twice as large, so that each rank computes as much as
# alone. Set in the environment to change: WORKLOAD BATCH (of one rank) FLAGS
# (more of bench step) BUILD (/tmp/wdlrun-peers) WRAP (a command before each).
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
workload=${WORKLOAD:-w1} batch=${BATCH:-1024}
mkdir -p "$build" && (cd "$here/../.." && CGO_ENABLED=0 go build -o "$build/wdlrun" ./cmd/wdlrun) || exit 1

# speed NP BATCH: samples/s
speed() {
  # shellcheck disable=SC2086
  "$build/wdlrun" -np "$1" bench step -workload "$workload" -batch "$2" ${FLAGS:-} -json 2>>"$build/scaling.err" |
    tail -n 1 | sed 's/.*"samples_per_second":\([0-9.]*\).*/\1/'
}

pair() { # two trainings at once; the sum of their speeds
  speed 1 "$batch" >"$build/scaling.a" &
  speed 1 "$batch" >"$build/scaling.b"
  wait
  cat "$build/scaling.a" "$build/scaling.b" | awk '{ s += $1 } END { print s }'
}
export -f speed pair
export build workload batch FLAGS=${FLAGS:-}

for ((round = 0; round < ${1:-3}; round++)); do
  apart=$(${WRAP:-} bash -c pair)
  one=$(${WRAP:-} bash -c "speed 1 $batch")
  together=$(${WRAP:-} bash -c "speed 2 $((2 * batch))")
  echo "$one $apart $together"
done | awk '
  { printf "one %.0f  two apart %.0f  two ranks %.0f samples/s: %.2f times one, %.1f %% of apart\n", $1, $2, $3, $3/$1, 100*$3/$2 }'
