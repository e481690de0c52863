"""python -m wdlrun is the program wdlrun itself, with its arguments, signals and exit code."""

import os
import sys

from ._binary import binary

path = binary()
os.execv(path, [path, *sys.argv[1:]])
