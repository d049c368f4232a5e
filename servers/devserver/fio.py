"""fio from Debian, which measures what a disk can do."""

from __future__ import annotations

from devserver.releases import FOLDER
from devserver.tree import Tree, unpacked

_SUITE = "trixie"


def install() -> Tree:
    """The program. If it is missing, it is downloaded and unpacked with its libraries."""
    return unpacked(FOLDER / "fio", _SUITE, ["fio"])


def command(tree: Tree) -> list[str]:
    """The beginning of its command line."""
    libraries = tree.loader.parent
    # Of its libraries for network storage one has a folder of its own, which it does not look into
    # where it is not installed.
    folders = f"{libraries}:{libraries / 'ceph'}"
    return list(map(str, [tree.loader, "--library-path", folders, tree.root / "usr/bin/fio"]))
