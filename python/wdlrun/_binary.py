"""Finds the program that was installed with this package."""

from __future__ import annotations

import functools
import json
import os
import sys
import sysconfig
from pathlib import Path

from ._process import Error, call


@functools.lru_cache(maxsize=None)
def _installed() -> str:
    import site

    here = Path(__file__).resolve().parent
    folders = [
        sysconfig.get_path("scripts"),
        os.path.dirname(sys.executable),
        here.parent / "bin",  # pip install --target
        os.path.join(site.USER_BASE or "", "bin"),  # pip install --user
    ]
    for folder in folders:
        path = Path(folder or "") / "wdlrun"
        # A script that another package installed under this name is no program of this package.
        if path.is_file() and os.access(path, os.X_OK) and path.stat().st_size > 1 << 20:
            return str(path)
    raise Error(f"the program wdlrun is not in {', '.join(str(f) for f in folders)}: install the wheel of this platform again, or set WDLRUN_BINARY to the program")


def binary() -> str:
    """Returns the path of the program: WDLRUN_BINARY, or the one that pip installed. PATH is not searched, since a
    program there may have another version."""
    return os.environ.get("WDLRUN_BINARY") or _installed()


@functools.lru_cache(maxsize=None)
def version() -> str:
    """Returns the version of the program, such as 0.2.0."""
    return json.loads(call(binary(), ["--version", "--json"], verbose=False))["version"]
