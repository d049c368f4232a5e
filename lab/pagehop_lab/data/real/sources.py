"""Debian packages whose files are read without installing them, and what was read from each.

A package is downloaded by the machine's own apt, which checks its signature, unpacked into a
temporary folder, read, and removed again. Unpacked, the documentation packages take 5 GB, and
their paragraphs 100 MB.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from pagehop_lab.data.errors import DataError

PROSE = (
    "apache2-doc",
    "bind9-doc",
    "cppreference-doc-en-html",
    "debian-handbook",
    "debian-reference-en",
    "erlang-doc",
    "ghc-doc",
    "gimp-help-en",
    "installation-guide-amd64",
    "kicad-doc-en",
    "libboost1.74-doc",
    "libreoffice-help-en-us",
    "linux-doc-6.1",
    "llvm-14-doc",
    "maxima-doc",
    "octave-doc",
    "openjdk-17-doc",
    "postgresql-doc-15",
    "python-django-doc",
    "python-pandas-doc",
    "python-scipy-doc",
    "python-sklearn-doc",
    "python-sympy-doc",
    "python3.11-doc",
    "qtbase5-doc-html",
    "r-doc-html",
    "racket-doc",
    "rust-doc",
    "scala-doc",
    "sqlite3-doc",
    "vtk9-doc",
)
"""Documentation in English, as HTML, of Debian 12."""

IMAGES = (
    "games-thumbnails",
    "lomiri-wallpapers-16.04",
    "mate-backgrounds",
    "openclipart-png",
    "python-skimage-doc",
    "tuxpaint-stamps-default",
)
"""Drawings, photographs and screenshots."""

Say = Callable[[str], None]


def version(package: str) -> str:
    """The version of a package that this machine's apt would download."""
    for tool in ("apt-cache", "apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise DataError(f"there is no {tool}: real sets are made from the packages of Debian 12, on Debian")
    answer = subprocess.run(["apt-cache", "policy", package], check=False, capture_output=True, text=True).stdout
    for line in answer.splitlines():
        name, _, value = line.strip().partition(": ")
        if name == "Candidate" and value != "(none)":
            return value
    raise DataError(f"apt does not know the package {package}: run apt-get update; real sets are made on Debian 12")


def read_once(package: str, kept: Path, suffix: str, read: Callable[[Path, Path], None], say: Say) -> Path:
    """The file that `read` wrote from a package's files.

    `read` gets the folder of the unpacked package and the file to write. The file lies in `kept`
    with the package's version in its name, and is written once for each version. If a file of
    another version is already there, that file is used: an update of a package does not change a
    set.
    """
    there = sorted(kept.glob(f"{package}_*{suffix}"))
    if there:
        return there[-1]
    written = kept / f"{package}_{version(package).replace(':', '%3a')}{suffix}"
    kept.mkdir(parents=True, exist_ok=True)
    say(f"{package}: downloading and reading")
    with tempfile.TemporaryDirectory(dir=kept, prefix=".reading-") as scratch:
        folder = Path(scratch)
        # apt drops its rights to a user of its own, which must be able to write here.
        folder.chmod(0o777)
        _run(["apt-get", "download", "-q", package], folder, package)
        archive = next(folder.glob("*.deb"))
        _run(["dpkg-deb", "-x", str(archive), str(folder / "files")], folder, package)
        archive.unlink()
        unfinished = folder / "read"
        read(folder / "files", unfinished)
        unfinished.replace(written)
    return written


def _run(command: list[str], folder: Path, package: str) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise DataError(f"the package {package} is not available: {error.stderr.strip()}") from error
