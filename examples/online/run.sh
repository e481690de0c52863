#!/bin/sh
# Runs the loop of docs/online.md in ./loop for SECONDS (default 60): events → join → train → serve. A loop that
# has ended goes on.
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
trap 'kill "$loop" 2>/dev/null || true' EXIT
python3 "$here/events.py" "$seconds"
sleep 10 # for the last samples
trap - EXIT
kill "$loop"
wait "$loop"
"$wdlrun" publish models/ctr
