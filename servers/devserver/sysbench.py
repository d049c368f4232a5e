"""sysbench as Debian has it, with the drivers for PostgreSQL and MySQL."""

from __future__ import annotations

from devserver.releases import FOLDER
from devserver.tree import Tree, unpacked

_SUITE = "trixie"


def install() -> Tree:
    """The program, unpacked if it is not there: 12 MB come over the network."""
    return unpacked(FOLDER / "sysbench", _SUITE, ["sysbench"])


def command(tree: Tree) -> list[str]:
    """How it is started."""
    return list(map(str, tree.program("bin/sysbench")))


def environment(tree: Tree) -> dict[str, str]:
    """The folder of plugins for the authentication methods of newer servers."""
    return {"MARIADB_PLUGIN_DIR": str(tree.loader.parent / "libmariadb3/plugin")}
