"""A server of one model, for as long as a with statement lasts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from ._binary import binary
from ._process import Error, started

START_SECONDS = 60
END_SECONDS = 35  # the server answers open requests for up to 30


class Server:
    """Serves a Run over REST (url) and gRPC (grpc), as wdlrun serve does. Use it in a with statement."""

    def __init__(self, run, name):
        self.name, self._folder = name, tempfile.TemporaryDirectory(prefix="wdlrun-")
        self._process = None
        try:
            run.export(self._folder.name, name=name)
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self):
        grpc, rest = _free_ports(2)
        self.grpc, self.url = f"127.0.0.1:{grpc}", f"http://127.0.0.1:{rest}/v1/models/{self.name}"
        self._log = tempfile.TemporaryFile()
        model = f"{self.name}={os.path.join(self._folder.name, self.name)}"
        self._process = started([binary(), "serve", "-model", model, "-port", str(grpc), "-rest-port", str(rest)], stdout=self._log, stderr=self._log)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(self.url, timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                if self._process.poll() is not None or time.monotonic() > end:
                    self._log.seek(0)
                    lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
                    raise Error(lines[-1] if lines else "the server did not start", self._process.poll()) from None
                time.sleep(0.05)

    def predict(self, rows):
        """Returns the scores of rows: a DataFrame, or a list of dicts from field to value. A value that is None or NaN is missing."""
        rows = rows.to_dicts() if hasattr(rows, "to_dicts") else rows.to_dict("records") if hasattr(rows, "to_dict") else rows
        instances = [{name: value for name, value in row.items() if not _is_missing(value)} for row in rows]
        body = json.dumps({"instances": instances}, default=lambda x: x.tolist() if hasattr(x, "tolist") else str(x))
        request = urllib.request.Request(self.url + ":predict", body.encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)["predictions"]
        except urllib.error.HTTPError as fault:
            raise Error(json.load(fault).get("error", str(fault))) from None

    def close(self):
        """Ends the server and removes its files. It may be called more than once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._log.close()
            self._process = None
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_folder", None) is not None:
            self.close()


def _is_missing(value):
    """Tells whether a value is None, NaN, or the missing value of pandas."""
    return value is None or isinstance(value, float) and value != value or type(value).__name__ in ("NAType", "NaTType")


def _free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()
