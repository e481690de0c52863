#!/usr/bin/env bash
# Measures a ring allreduce of two ranks on two hosts, which are two network
# namespaces of this one, over a link of limited speed both ways, and prints the
# share of the link that it fills. Needs root, namespaces, veth and tbf; without
# them it says so and skips.
#
#   shaped.sh [BYTES…]         default 16777216
#
#   MBIT=1000                  speed of the link; frames with their headers count
#   MTU=1500                   bytes of a packet
#   BUILD                      where the program goes (/tmp/wdlrun-peers)
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-/tmp/wdlrun-peers}
mbit=${MBIT:-1000}
mtu=${MTU:-1500}
sizes=${*:-16777216}
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

# rank N NAMESPACE IP: one rank, as any launcher would start it.
rank() {
  ip netns exec "$2" env WDLRUN_RANK="$1" WDLRUN_SIZE=2 WDLRUN_LOCAL_RANK=0 WDLRUN_LOCAL_SIZE=1 \
    WDLRUN_JOB=shaped WDLRUN_RENDEZVOUS="$work" WDLRUN_IP="$3" \
    timeout 60 "$build/wdlrun" -transport tcp bench allreduce -sizes "${sizes// /,}" -time 2s -plain -json
}
rank 1 "$b" 10.77.0.2 >"$work/rank1" 2>&1 &
other=$!
rank 0 "$a" 10.77.0.1 >"$work/rank0" 2>"$work/errors"
wait "$other" || { cat "$work/errors" "$work/rank1"; exit 1; }

grep '^{"lib"' "$work/rank0" | sed -E 's/.*"bytes":([0-9]+),"median_us":([0-9.]+).*"busbw_GBps":([0-9.e+-]+).*/\1 \2 \3/' |
  awk -v mbit="$mbit" -v mtu="$mtu" '{
    payload = $3 * 8000 / mbit * 100; frames = payload * (mtu + 14) / (mtu - 52)
    printf "allreduce of %d bytes: %.1f ms, payload %.1f %% of the link of %d Mbit/s, with frame headers %.1f %%\n", $1, $2 / 1000, payload, mbit, frames
  }'
