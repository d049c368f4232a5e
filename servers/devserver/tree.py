"""Programs of another release of Debian, unpacked into a folder, with their own C library.

They run on any Debian. apt checks what it fetches against Debian's signature. Nothing is installed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devserver.debian import apt_get
from devserver.errors import DevServerError
from devserver.folder import made_once
from devserver.processes import run


@dataclass(frozen=True)
class Tree:
    """Unpacked packages."""

    root: Path
    """The root folder, as if the packages were installed."""
    loader: Path
    """The loader, which starts programs of their release with that release's libraries."""

    def program(self, path: str) -> list[str | Path]:
        """The command that starts a program in `usr/`."""
        return [self.loader, "--library-path", self.loader.parent, self.root / "usr" / path]


def unpacked(folder: Path, suite: str, packages: Sequence[str], architecture: str = "") -> Tree:
    """Packages of a release with all dependencies, in `folder`. Missing ones are downloaded.

    They are for this machine's architecture, or for the one that Debian calls `architecture`.
    """
    wanted = list(packages)
    recipe = f"{wanted} of {suite}{f' for {architecture}' if architecture else ''}"
    return _tree(made_once(folder, recipe, lambda into: _extract(into, suite, wanted, architecture)))


def unpack(folder: Path, suite: str, packages: Sequence[str], alone: Sequence[str] = ()) -> Tree:
    """Like `unpacked`, for a folder that the caller fills. Dependencies of the packages in `alone`
    are left out.
    """
    _extract(folder, suite, packages, alone=alone)
    return _tree(folder)


def _tree(folder: Path) -> Tree:
    root = folder / "root"
    loaders = list(root.glob("usr/lib/*-linux-gnu*/ld-linux-*.so.*"))
    if len(loaders) != 1:
        raise DevServerError(f"{root} has no loader for programs: remove {folder}, it is made again")
    return Tree(root, loaders[0])


def _extract(
    folder: Path, suite: str, packages: Sequence[str], architecture: str = "", alone: Sequence[str] = ()
) -> None:
    apt = apt_get("deb", suite, folder, architecture)
    archives = folder / "cache/archives"
    # Nothing counts as installed, so all dependencies are unpacked, too, the C library included.
    wanted = ["install", "--yes", "--download-only", "--no-install-recommends", *packages]
    run([*apt, *wanted], cwd=folder, advice=f"{' and '.join(packages)} should be in Debian {suite}")
    if alone:
        run([*apt, "download", *alone], cwd=archives, advice=f"{' and '.join(alone)} should be in Debian {suite}")
    (folder / "root").mkdir()
    for package in sorted(archives.glob("*.deb")):
        run(["dpkg-deb", "--extract", package, folder / "root"])
    for scratch in ["cache", "lists"]:
        shutil.rmtree(folder / scratch)
