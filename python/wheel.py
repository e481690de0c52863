#!/usr/bin/env python3
"""Packs the program and the package into a wheel: wheel.py PROGRAM PLATFORM FOLDER

PLATFORM is linux-amd64, linux-arm64 or darwin-arm64. pip installs the program as the command
wdlrun. Two builds of the same files are equal: the wheel contains no time and no path.
"""

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# The program is static, so it runs with any C library. Go 1.26 needs macOS 12.
TAGS = {
    "linux-amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux-arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin-arm64": "macosx_12_0_arm64",
}


def metadata(version):
    return f"""Metadata-Version: 2.4
Name: wdlrun
Version: {version}
Summary: Trains Wide & Deep click-through models on many processes, without a parameter server
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Provides-Extra: pandas
Requires-Dist: pandas>=2; extra == "pandas"
Requires-Dist: pyarrow>=14; extra == "pandas"
Provides-Extra: polars
Requires-Dist: polars>=1; extra == "polars"
Provides-Extra: sklearn
Requires-Dist: pandas>=2; extra == "sklearn"
Requires-Dist: pyarrow>=14; extra == "sklearn"
Requires-Dist: scikit-learn>=1.6; extra == "sklearn"
"""


def wheel(program, platform, folder):
    source = (HERE.parent / "cmd/wdlrun/internal/command/version.go").read_text(encoding="utf-8")
    version = re.search(r'^const Version = "(.*)"$', source, re.M).group(1)
    tag = "py3-none-" + TAGS[platform]
    about, out = f"wdlrun-{version}.dist-info", Path(folder, f"wdlrun-{version}-{tag}.whl")
    files = {"wdlrun/" + p.name: p.read_bytes() for p in sorted((HERE / "wdlrun").iterdir()) if p.suffix == ".py" or p.name == "py.typed"}
    files[f"wdlrun-{version}.data/scripts/wdlrun"] = Path(program).read_bytes()
    files[about + "/METADATA"] = metadata(version).encode()
    files[about + "/WHEEL"] = "".join(["Wheel-Version: 1.0\nGenerator: wdlrun\nRoot-Is-Purelib: false\n"] + [f"Tag: py3-none-{t}\n" for t in TAGS[platform].split(".")]).encode()
    files[about + "/licenses/LICENSE"] = (HERE.parent / "LICENSE").read_bytes()
    record = about + "/RECORD"
    files[record] = (recorded(files) + record + ",,\n").encode()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # its time is 1980
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, content)
    return out


def recorded(files):
    """Returns the lines of RECORD: name, checksum and size of each file."""
    digest = lambda content: base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return "".join(f"{name},sha256={digest(content)},{len(content)}\n" for name, content in files.items())


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in TAGS:
        sys.exit(__doc__)
    print(wheel(*sys.argv[1:]))
