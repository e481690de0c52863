#!/bin/sh
# Runs the loop of docs/online.md in ./loop for SECONDS (default 60): events → join → train → serve. A loop that
# has ended goes on. Without the loop, the events end, too.
#
#     examples/online/run.sh [SECONDS [WDLRUN]]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-60}
wdlrun=$(command -v "${2:-wdlrun}")
case $wdlrun in /*) ;; *) wdlrun=$PWD/$wdlrun ;; esac
mkdir -p loop/shown loop/clicks
rm -f loop/shown/_SUCCESS loop/clicks/_SUCCESS # the ends of an earlier run
cp "$here/ctr.yaml" "$here/online.yaml" loop/
cd loop
"$wdlrun" online -config online.yaml &
loop=$!
python3 "$here/events.py" "$seconds" &
events=$!
trap 'kill "$loop" "$events" 2>/dev/null || true' EXIT
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
trap - EXIT
kill "$loop"
wait "$loop"
"$wdlrun" publish models/ctr
