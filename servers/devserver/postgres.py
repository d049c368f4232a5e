"""PostgreSQL by version, 9.6 to 18, some point releases included.

Binaries that were made for tests: a server without headers or clients.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devserver import DevServerError
from devserver.cluster import USER, Cluster
from devserver.processes import run, server_owner
from devserver.releases import release, unpacked
from devserver.servers import Server
from devserver.waits import GRACE_S, QUESTION_S, STATEMENT_S, ended_after

PRODUCT = "postgres"
_INDEX_CLEANUP_FROM = 12


def install(name: str) -> Server:
    """The server of a major version or of a point release.

    A missing one is fetched: 8 to 15 MB over the network.
    """
    of = release(PRODUCT, name)
    folder = unpacked(of, _unpack)
    advice = f"the server does not run here; every folder above {folder} must be open to its user"
    said = run([folder / "bin/postgres", "--version"], owner=server_owner(), advice=advice)
    return Server(name, folder, said.split()[2], folder / "bin", folder / "lib", folder / "share")


def _unpack(file: Path, folder: Path) -> None:
    """A jar that has a compressed tar in it."""
    with zipfile.ZipFile(file) as jar:
        (inside,) = [name for name in jar.namelist() if name.endswith(".txz")]
        with jar.open(inside) as packed, tarfile.open(fileobj=packed, mode="r:xz") as tar:
            tar.extractall(folder, filter="tar")


def vacuum(major: int, table: str = "") -> str:
    """The SQL that vacuums and analyzes a table, or all tables. From 12 on, it also asks to clean
    indexes with few dead rows.
    """
    # Without this, 14 and later keep index entries of dead rows, which later reads find. Published
    # measurements showed this as slower reads after writes.
    options = "ANALYZE, INDEX_CLEANUP ON" if major >= _INDEX_CLEANUP_FROM else "ANALYZE"
    return f"VACUUM ({options}) {table}".rstrip()


class Instance(Cluster):
    """A private server with new data. It ends with this process, also if the process is killed."""

    product = PRODUCT
    _begin = ("setpriv", "--pdeathsig", "QUIT")

    def __init__(self, server: Server, settings: Mapping[str, str], place: Path | None = None) -> None:
        super().__init__(server, dict(settings), place)
        self._limit_s = STATEMENT_S

    def limit(self, seconds: float) -> None:
        """Sets the longest time of a statement of `execute`."""
        self._limit_s = seconds

    def _ready(self) -> bool:
        # Before 10 only the server's log has it.
        return super()._ready() if self.server.major >= 10 else "ready to accept connections" in self.log_end()

    def sysbench_options(self) -> list[str]:
        """The options for sysbench."""
        where = {"host": self.folder, "port": self.port, "user": USER, "db": USER}
        return ["--db-driver=pgsql", *(f"--pgsql-{name}={value}" for name, value in where.items())]

    def execute(self, *statements: str) -> list[Any]:
        """Executes statements by themselves, outside of a transaction; gives the rows of the last
        one.
        """
        return executed(self.dsn(), f"postgres {self.server.version}", statements, self._limit_s)

    def settle(self) -> None:
        """Vacuums and counts rows, and writes everything to its files."""
        # Commits that did not wait are not visible to VACUUM before the log is written: it would
        # skip their rows.
        self.execute("CHECKPOINT", vacuum(self.server.major), "CHECKPOINT")

    def data_bytes(self) -> int:
        """Bytes of all tables and indexes."""
        return int(self.execute(f"SELECT pg_database_size('{USER}')")[0][0])


def executed(dsn: str, name: str, statements: tuple[str, ...], limit_s: float) -> list[Any]:
    """The rows of the last of some statements; DevServerError if one fails, or takes longer."""
    import psycopg

    rows: list[Any] = []
    hung = False
    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=int(QUESTION_S)) as connection:
            for statement in (f"SET statement_timeout = {round(limit_s * 1000)}", *statements):
                with ended_after(limit_s + GRACE_S, connection.fileno()) as ended:
                    try:
                        cursor = connection.execute(statement)
                        rows = cursor.fetchall() if cursor.description else []
                    finally:
                        hung = ended.is_set()
    except psycopg.Error as error:
        said = f"it hung: no answer in {limit_s + GRACE_S:g} s" if hung else str(error).strip()
        raise DevServerError(f"{name}: {said}") from None
    return rows
