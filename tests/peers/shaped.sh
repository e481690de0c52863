#!/usr/bin/env bash
# Measures allreduce on two hosts, which are two network namespaces of this one,
# over a link of limited speed both ways: with a rank on each, and the share of the
# link that the ring fills; with two ranks on each, flat over TCP beside windows
# inside the hosts and rails between them. Needs root, namespaces, veth and tbf;
# without them it says so and skips.
#
#   shaped.sh [BYTES…]         default 1024 1048576 16777216
#   shaped.sh step [FLAGS…]    instead the step of a training, a rank on each host:
#                              wdlrun bench step FLAGS, by turns with OTHER
#
#   MBIT=1000                  speed of the link; frames with their headers count
#   OTHER=wdlrun               another build of the program to compare with
#   ROUNDS=5                   of each build
#   MTU=1500                   bytes of a packet
#   BUILD                      where the program goes (/tmp/wdlrun-peers)
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
mbit=${MBIT:-1000}
mtu=${MTU:-1500}
step=
[ "${1:-}" = step ] && step=1 && shift
flags=("$@") # of step
sizes=${*:-1024 1048576 16777216}
a=wdlrun-a-$$
b=wdlrun-b-$$

skip() {
  echo "skipped: $*"
  exit 0
}

[ "$(id -u)" = 0 ] || skip "needs root, to make network namespaces"
command -v ip >/dev/null && command -v tc >/dev/null || skip "needs ip and tc: apt-get install iproute2"

work=$(mktemp -d)
clean() {
  ip netns del "$a" 2>/dev/null
  ip netns del "$b" 2>/dev/null
  rm -rf "$work"
}
trap clean EXIT
ip netns add "$a" 2>/dev/null && ip netns add "$b" 2>/dev/null || skip "this system makes no network namespaces"
ip link add name veth0 netns "$a" mtu "$mtu" type veth peer name veth0 netns "$b" mtu "$mtu" 2>/dev/null || skip "this kernel has no veth"

# Two hosts with an address each.
for end in "$a 10.77.0.1" "$b 10.77.0.2"; do
  set -- $end
  ip -n "$1" addr add "$2/24" dev veth0
  ip -n "$1" link set lo up
  ip -n "$1" link set veth0 up
  # The queue holds what a window of TCP sends ahead, so that nothing is lost.
  tc -n "$1" qdisc add dev veth0 root tbf rate "${mbit}mbit" burst 128kb limit 8mb 2>/dev/null || skip "this kernel has no tbf"
done

mkdir -p "$build"
(cd "$here/../.." && CGO_ENABLED=0 go build -o "$build/wdlrun" ./cmd/wdlrun) || exit 1

# rank N NAMESPACE IP EACH TRANSPORT PROGRAM ARGS…: one rank of EACH on this host, as
# any launcher would start it. A host has a name of its own.
rank() {
  local n=$1 host=$2 ip=$3 each=$4 transport=$5
  shift 5
  ip netns exec "$host" unshare -u sh -c 'echo "$1" >/proc/sys/kernel/hostname; shift; exec "$@"' sh "$host" \
    env WDLRUN_RANK="$n" WDLRUN_SIZE=$((2 * each)) WDLRUN_LOCAL_RANK=$((n % each)) WDLRUN_LOCAL_SIZE="$each" \
    WDLRUN_JOB="shaped-$each-$transport" WDLRUN_RENDEZVOUS="$work" WDLRUN_IP="$ip" \
    timeout 150 "$1" -transport "$transport" "${@:2}"
}

# step PROGRAM FLAGS…: prints "SAMPLES/S MS-OF-A-STEP MS-OF-SYNC".
step() {
  rank 1 "$b" 10.77.0.2 1 tcp "$1" bench step -json "${@:2}" >"$work/rank1" 2>&1 &
  rank 0 "$a" 10.77.0.1 1 tcp "$1" bench step -json "${@:2}" >"$work/rank0" 2>"$work/errors" && wait $! || { cat "$work/errors" "$work/rank1" >&2; return 1; }
  sed -E 's/.*"samples_per_second":([0-9.e+]+),.*"step_ms":([0-9.]+),.*"name":"sync","ms":([0-9.]+),.*/\1 \2 \3/' "$work/rank0"
}

if [ "$step" ]; then
  builds=("$build/wdlrun" ${OTHER:+"$OTHER"})
  for ((i = 0; i < ${ROUNDS:-5}; i++)); do
    for k in "${!builds[@]}"; do
      step "${builds[$k]}" "${flags[@]}" >>"$work/steps$k" || exit 1
    done
  done
  for k in "${!builds[@]}"; do
    sort -g "$work/steps$k" | awk -v build="${builds[$k]}" -v mbit="$mbit" '{ s[NR] = $1; line[NR] = $0 }
      END { n = split(line[int((NR + 1) / 2)], m, " "); printf "%s over %d Mbit/s: median %.0f samples/s (%.0f to %.0f), its step %.2f ms with %.2f ms of sync\n", build, mbit, m[1], s[1], s[NR], m[2], m[3] }'
  done
  exit 0
fi

allreduce=("$build/wdlrun" bench allreduce -sizes "${sizes// /,}" -time 1s -plain -json)

# job EACH TRANSPORT: prints "BYTES MICROSECONDS BUS-GB/S" for each size.
job() {
  local pids=() i
  for ((i = 1; i < 2 * $1; i++)); do
    if ((i < $1)); then
      rank "$i" "$a" 10.77.0.1 "$1" "$2" "${allreduce[@]}" >"$work/rank$i" 2>&1 &
    else
      rank "$i" "$b" 10.77.0.2 "$1" "$2" "${allreduce[@]}" >"$work/rank$i" 2>&1 &
    fi
    pids+=($!)
  done
  rank 0 "$a" 10.77.0.1 "$1" "$2" "${allreduce[@]}" >"$work/rank0" 2>"$work/errors"
  for i in "${pids[@]}"; do
    wait "$i" || { cat "$work/errors" "$work"/rank* >&2; return 1; }
  done
  grep '^{"lib"' "$work/rank0" | sed -E 's/.*"transport":"([^"]*)".*"bytes":([0-9]+),"median_us":([0-9.]+).*"busbw_GBps":([0-9.e+-]+).*/\2 \3 \4 \1/'
}

job 1 tcp >"$work/pair" || exit 1
awk -v mbit="$mbit" -v mtu="$mtu" '{
  payload = $3 * 8000 / mbit * 100; frames = payload * (mtu + 14) / (mtu - 52)
  printf "allreduce of %d bytes, a rank on each host: %.2f ms, payload %.1f %% of the link of %d Mbit/s, with frame headers %.1f %%\n", $1, $2 / 1000, payload, mbit, frames
}' "$work/pair"
job 2 tcp >"$work/flat" && job 2 auto >"$work/hosts" || exit 1
paste -d ' ' "$work/flat" "$work/hosts" | awk '{
  printf "allreduce of %d bytes, two ranks on each host: flat (%s) %.2f ms, by hosts (%s) %.2f ms: %.2f×\n", $1, $4, $2 / 1000, $8, $6 / 1000, $2 / $6
}'
