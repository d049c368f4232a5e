"""sysbench from Debian, with the drivers for PostgreSQL and MySQL."""

from __future__ import annotations

from devserver.releases import FOLDER
from devserver.tree import Tree, unpacked

_SUITE = "trixie"


def install() -> Tree:
    """The program. If it is missing, 12 MB are downloaded and unpacked."""
    return unpacked(FOLDER / "sysbench", _SUITE, ["sysbench"])


def command(tree: Tree) -> list[str]:
    """The beginning of its command line."""
    return list(map(str, tree.program("bin/sysbench")))


def environment(tree: Tree) -> dict[str, str]:
    """The variable for the folder of plugins, with the authentication methods of newer servers."""
    return {"MARIADB_PLUGIN_DIR": str(tree.loader.parent / "libmariadb3/plugin")}
