"""Servers compiled from the source packages of a Debian release.

apt fetches the packages and checks them against Debian's signature. Only the upstream tarball in
them is compiled: Debian's patches put libraries into a fixed folder.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from devserver import packages
from devserver.debian import apt_get
from devserver.processes import run

_TOOLS = ["build-essential", "bison", "flex", "perl", "pkg-config", "libreadline-dev", "zlib1g-dev"]


@dataclass(frozen=True)
class Recipe:
    """The source of a server, and how it is compiled."""

    package: str
    suite: str
    """The Debian release that has the package."""
    configure: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Debian packages, in addition to those that every server needs."""


def build(recipe: Recipe, prefix: Path) -> None:
    """Compiles a server and installs it in `prefix`: two to three minutes on two cores."""
    packages.need([*_TOOLS, *recipe.needs])
    work = prefix / "build"
    server = fetch(recipe.package, recipe.suite, work)
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    _say(f"compiling {server.name}")
    run([server / "configure", "-q", f"--prefix={prefix}", "--without-icu", *recipe.configure], cwd=server)
    run(["make", "-s", jobs, "install"], cwd=server)
    shutil.rmtree(work)


def fetch(package: str, suite: str, folder: Path) -> Path:
    """The upstream sources of a package, unpacked in `folder`."""
    _say(f"fetching {package}: the sources of Debian {suite}")
    (folder / "apt").mkdir(parents=True)
    apt = apt_get("deb-src", suite, folder / "apt")
    run([*apt, "source", "--download-only", package], cwd=folder, advice=f"it should be in Debian {suite}")
    [tarball] = folder.glob(f"{package}_*.orig.tar.*")
    unpacked = folder / package
    unpacked.mkdir()
    run(["tar", "xf", tarball, "-C", unpacked])
    [source] = unpacked.iterdir()
    return source


def _say(what: str) -> None:
    print(f"== {what}", file=sys.stderr)
