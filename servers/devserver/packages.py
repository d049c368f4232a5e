"""Debian packages that a machine needs to compile a server.

As root, missing packages are installed; otherwise the error names them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable

from devserver.errors import DevServerError
from devserver.processes import environment, run

# Each package, with the program or the header that shows its presence.
_KNOWN_BY = {
    "build-essential": "make",
    "bison": "bison",
    "flex": "flex",
    "perl": "perl",
    "pkg-config": "pkg-config",
    "libreadline-dev": "readline/readline.h",
    "zlib1g-dev": "zlib.h",
    "liburing-dev": "liburing.h",
}


def need(packages: Iterable[str]) -> None:
    """Makes sure of Debian packages."""
    missing = _missing(packages)
    if not missing:
        return
    names = " ".join(missing)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise DevServerError(f"missing packages; as root: apt-get install {names}")
    print(f"== installing Debian packages: {names}", file=sys.stderr)
    # An old list of packages is sufficient if it has these.
    subprocess.run(["apt-get", "update", "-qq"], check=False)
    unasked = environment(DEBIAN_FRONTEND="noninteractive")
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing], env=unasked)
    if still := _missing(missing):
        raise DevServerError(f"{' '.join(still)}: installed, but not found by the compiler or in PATH")


def _missing(packages: Iterable[str]) -> list[str]:
    return [package for package in packages if not _present(_KNOWN_BY[package])]


def _present(known_by: str) -> bool:
    if not known_by.endswith(".h"):
        return shutil.which(known_by) is not None
    command = ["cc", "-E", "-x", "c", "-include", "stdio.h", "-include", known_by, "/dev/null"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
