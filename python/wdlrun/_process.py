"""Runs the program: its progress is printed as it comes, its result is JSON, its failure an exception."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
from collections import deque

LAST_LINES = 200  # of the program's messages, kept for Error.log


class Error(Exception):
    """The program ended with an error. The text is the program's own last line.

    exit_code is the program's (None if it was not started), log its last messages, and run_dir the
    run directory, if there is one.
    """

    def __init__(self, text, exit_code=None, log="", run_dir=None):
        super().__init__(text)
        self.exit_code, self.log, self.run_dir = exit_code, log, run_dir


class Interrupted(KeyboardInterrupt):
    """The job was interrupted. It wrote a checkpoint into run_dir, from which Run.resume continues."""

    def __init__(self, run_dir=None):
        super().__init__(f"stopped; continue with wdlrun.open({run_dir!r}).resume()" if run_dir else "stopped")
        self.run_dir = run_dir


def call(path, arguments, *, verbose=True):
    """Runs the program at path and returns its standard output. Messages are printed unless verbose is false.

    A KeyboardInterrupt is passed on to the program, which writes a checkpoint and ends; a second
    one ends it at once. No process is left behind.
    """
    # A session of its own: an interrupt of the terminal reaches only this process, which passes it on.
    process = started([path, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    printed, messages, interrupts = [], deque(maxlen=LAST_LINES), 0
    reader = threading.Thread(target=lambda: printed.append(process.stdout.read()), daemon=True)
    reader.start()
    try:
        while True:
            try:
                for line in process.stderr:
                    line = line.decode("utf-8", "replace")
                    messages.append(line)
                    if verbose:
                        sys.stdout.write(line)
                        sys.stdout.flush()
                code = process.wait()
                reader.join()
                break
            except KeyboardInterrupt:
                interrupts += 1
                if interrupts > 2:
                    raise
                process.send_signal(signal.SIGINT)
    finally:
        _end(process)
    output, log = b"".join(printed).decode("utf-8", "replace"), "".join(messages)
    if interrupts:
        raise Interrupted(_result(output).get("run_dir"))
    if code != 0:
        raise _failure(code, _result(output), log)
    return output


def started(command, **pipes):
    """Starts the program in a session of its own, with a reason if the system cannot."""
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **pipes)
    except OSError as e:
        raise Error(f"{command[0]} does not start: {e.strerror}: is it the program for {platform.system()} on {platform.machine()}? Install the wheel of this platform") from None


def _end(process):
    """Kills what is left of the process and of those that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nothing is left
    process.wait()
    for pipe in process.stdout, process.stderr:
        try:
            pipe.close()
        except ValueError:
            pass  # the reader still holds it, and ends with it


def _result(output):
    """Returns the JSON object in the last line of the output, or an empty one."""
    try:
        value = json.loads(output.strip().rsplit("\n", 1)[-1])
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _failure(code, result, log):
    lines = [line for line in log.splitlines() if line.strip()]
    text = result.get("error") or (lines[-1] if lines else f"wdlrun ended with exit code {code}")
    return Error(text.removeprefix("wdlrun: "), code, log, result.get("run_dir"))
