#!/bin/sh
# Runs the loop of docs/online.md in ./loop for SECONDS (default 60), with RATE impressions a second (200):
# events → join → train → serve. With -kafka, events and samples are in topics of a broker, which it starts: that needs
# Java 17, Maven and the Python package confluent-kafka. A loop that has ended goes on. Without the loop, the events end, too.
#
#     examples/online/run.sh [-kafka] [SECONDS [WDLRUN [RATE]]]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kafka=
if [ "${1:-}" = -kafka ]; then kafka=yes; shift; fi
seconds=${1:-60} rate=${3:-200}
wdlrun=$(command -v "${2:-wdlrun}")
case $wdlrun in /*) ;; *) wdlrun=$PWD/$wdlrun ;; esac
mkdir -p loop
cd loop
if [ -s supervisor.pid ] && kill -0 "$(cat supervisor.pid)" 2>/dev/null; then
  echo "run.sh: process $(cat supervisor.pid) runs this loop: stop it first, or delete loop/supervisor.pid if it is another program" >&2
  exit 1
fi
cp "$here/ctr.yaml" "$here/online.yaml" .
loop= events= broker=
finish() {
  trap '' INT TERM
  for pid in $loop $events; do kill "$pid" 2>/dev/null || true; done
  for pid in $loop $events; do wait "$pid" || true; done
  rm -f supervisor.pid
  [ -z "$broker" ] || "$here/../../tests/kafka/broker" stop kafka
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
sed -i.bak "s|window: 2000|window: $((10 * rate))|" ctr.yaml # longer than clicks take: the first samples are all negatives
if [ -n "$kafka" ]; then
  broker=$("$here/../../tests/kafka/broker" start kafka)
  python3 "$here/events.py" 0 0 "$broker" >/dev/null # creates the topics
  sed -i.bak "s|impressions: shown|impressions: kafka://$broker/shown|; s|feedback: clicks|feedback: kafka://$broker/clicks|; s|out: samples|out: kafka://$broker/samples|" online.yaml
  sed -i.bak "s|\[samples\]|['kafka://$broker/samples']|" ctr.yaml
else
  mkdir -p shown clicks
  rm -f shown/_SUCCESS clicks/_SUCCESS # the ends of an earlier run
fi
"$wdlrun" online -config online.yaml &
loop=$!
echo "$loop" >supervisor.pid
python3 "$here/events.py" "$seconds" "$rate" $broker &
events=$!
last=10 # seconds for the last samples
while kill -0 "$loop" 2>/dev/null && [ "$last" -gt 0 ]; do
  sleep 1
  kill -0 "$events" 2>/dev/null || last=$((last - 1))
done
if [ "$last" -gt 0 ]; then
  wait "$loop" || exit
  echo "run.sh: the loop has ended before the events" >&2
  exit 1
fi
wait "$events"
kill "$loop"
wait "$loop"
loop= events=
"$wdlrun" publish models/ctr
