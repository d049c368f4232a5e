"""Servers compiled from source, as the machine's own Debian sources have it.

apt fetches the source packages and checks them against Debian's signature. What is compiled is the
upstream tarball inside them: Debian's patches put libraries into a fixed folder.
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
    """How a server is compiled."""

    package: str
    suite: str
    """The Debian release that has the package, now and in the years to come."""
    with_pgvector: bool
    """Whether that release's pgvector is compiled, too."""
    configure: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Debian packages, beside those that every server needs."""


def build(recipe: Recipe, prefix: Path) -> None:
    """Compiles a server and installs it in `prefix`: two to three minutes on two cores."""
    packages.need([*_TOOLS, *recipe.needs])
    work = prefix / "build"
    wanted = [recipe.package, *(["pgvector"] if recipe.with_pgvector else [])]
    server, *pgvector = fetch(wanted, recipe.suite, work)
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    _say(f"compiling {server.name}")
    run([server / "configure", "-q", f"--prefix={prefix}", "--without-icu", *recipe.configure], cwd=server)
    run(["make", "-s", jobs, "install"], cwd=server)
    for extension in pgvector:
        _say(f"compiling {extension.name}")
        # Without OPTFLAGS it would be compiled for this very CPU, and a cached server might meet
        # another one.
        run(["make", "-s", jobs, f"PG_CONFIG={prefix}/bin/pg_config", "OPTFLAGS=", "install"], cwd=extension)
    shutil.rmtree(work)


def fetch(wanted: list[str], suite: str, folder: Path) -> list[Path]:
    """The upstream sources of some packages, unpacked in `folder`."""
    _say(f"fetching {' and '.join(wanted)}: sources of Debian {suite}")
    (folder / "apt").mkdir(parents=True)
    apt = apt_get("deb-src", suite, folder / "apt")
    run([*apt, "source", "--download-only", *wanted], cwd=folder, advice=f"they should be in Debian {suite}")
    return [_unpack(folder, package) for package in wanted]


def _unpack(folder: Path, package: str) -> Path:
    [tarball] = folder.glob(f"{package}_*.orig.tar.*")
    unpacked = folder / package
    unpacked.mkdir()
    run(["tar", "xf", tarball, "-C", unpacked])
    [source] = unpacked.iterdir()
    return source


def _say(what: str) -> None:
    print(f"== {what}", file=sys.stderr)
