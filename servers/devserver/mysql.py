"""MySQL by version: 5.6 from npm, 9 from Debian."""

from __future__ import annotations

import tarfile
from pathlib import Path

from devserver import innodb
from devserver.releases import DEBIAN, FOLDER, release, unpacked
from devserver.tree import unpacked as debian

PRODUCT = "mysql"


def install(name: str) -> innodb.Program:
    """The server of a version. If it is missing, 30 to 60 MB are downloaded."""
    of = release(PRODUCT, name)
    if of.registry == DEBIAN:
        tree = debian(FOLDER / f"{PRODUCT}-{name}", *of.packages)
        usr = tree.root / "usr"
        return innodb.checked(PRODUCT, tuple(tree.program("sbin/mysqld")), usr, usr / "share/mysql")
    base = unpacked(of, _unpack) / "package/server"
    # The package contains a library that some systems lack.
    command = ("env", f"LD_LIBRARY_PATH={base}", base / "mysqld")
    return innodb.checked(PRODUCT, command, base, base / "share")


def _unpack(file: Path, folder: Path) -> None:
    with tarfile.open(file, mode="r:gz") as tar:
        tar.extractall(folder, filter="tar")
