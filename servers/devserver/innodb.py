"""Private servers with MySQL's protocol: any version of MariaDB and MySQL, with one interface.

A server's data and its socket are in a temporary folder that only its owner and root can enter.
Clients connect there as `root`, without a password.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devserver import DevServerError
from devserver.processes import run, server_owner
from devserver.server_process import ServerProcess
from devserver.waits import QUESTION_S, STATEMENT_S

DATABASE = "lab"
USER = "root"

# Scripts that create the system tables; MariaDB renamed them in 10.11.
_SYSTEM_TABLES = ("system_tables.sql", "performance_tables.sql", "system_tables_data.sql")
_READY = "ready for connections"
_SETTLE_S = 60.0
_LOOK_S = 0.3
_PAGES_BUSY = 8


@dataclass(frozen=True)
class Program:
    """An installed server program."""

    product: str
    """mariadb or mysql."""
    version: str
    """The version as the server reports it, such as 11.8.6."""
    command: tuple[str | Path, ...]
    """The beginning of the command that starts it."""
    base: Path
    share: Path
    """The folder of its messages and of the scripts for a new server."""
    initializes: bool = False
    """Whether the program itself creates the data of a new server, as MySQL does from 5.7 on."""


def checked(product: str, command: tuple[str | Path, ...], base: Path, share: Path) -> Program:
    """The program, if it runs here; DevServerError with its output if not."""
    advice = f"the server does not run here; every folder above {base} must be open to its user"
    said = run([*command, "--version"], owner=server_owner(), advice=advice)
    version = said.partition(" Ver ")[2].split()[0].split("-")[0]
    return Program(product, version, command, base, share, product == "mysql" and _numbers(version) >= (5, 7, 6))


class Instance(ServerProcess):
    """Data and, while it runs, a server over them.

    Both are removed at the end of the context or of the process.
    """

    def __init__(self, program: Program, settings: Mapping[str, str] | None = None, place: Path | None = None) -> None:
        """Makes the data of a server that is not yet running.

        `settings` are options without dashes.
        """
        self.program = program
        super().__init__(f"pagehop-{program.product}-", place)
        self.socket = self.folder / "socket"
        self._first = self.folder / "first.sql"
        self._settings = dict(settings or {})
        self._limit_s = STATEMENT_S
        self.unsettled: str | None = None
        """What the last `settle` left undone; None if nothing."""
        self.data.mkdir()
        self._first.write_text(f"CREATE DATABASE IF NOT EXISTS {DATABASE};\n")
        for path in [self.folder, self.data, self._first]:
            server_owner().own(path)
        self._fill()

    # ---- running ----

    def configure(self, settings: Mapping[str, str]) -> None:
        """Sets options for the next start, in addition to earlier ones."""
        self._settings |= settings

    def stop(self) -> None:
        """Stops the server cleanly: all changes are in its files."""
        self._stop(signal.SIGTERM)

    def restart(self) -> None:
        """Stops the server and starts it again over the same data."""
        self.stop()
        self.start()

    # ---- asking ----

    def url(self) -> str:
        """The URL for the load generator."""
        return f"mysql://{USER}@/{DATABASE}?socket={self.socket}"

    def sysbench_options(self) -> list[str]:
        """The options for sysbench."""
        where = {"socket": self.socket, "user": USER, "db": DATABASE}
        return ["--db-driver=mysql", *(f"--mysql-{name}={value}" for name, value in where.items())]

    def client_options(self) -> dict[str, Any]:
        """The options for PyMySQL."""
        return {"unix_socket": str(self.socket), "user": USER, "database": DATABASE}

    def limit(self, seconds: float) -> None:
        """Sets the longest time of a statement on connections that are made from now on."""
        self._limit_s = seconds

    def connect(self) -> Any:
        """A connection of PyMySQL that commits by itself."""
        return connected(self.client_options(), self._limit_s)

    def execute(self, *statements: str) -> list[Any]:
        """Executes statements one by one, outside of a transaction.

        Returns the rows of the last one.
        """
        return executed(self.connect, f"{self.program.product} {self.program.version}", statements)

    def settle(self) -> None:
        """Purges old versions, counts rows again, and writes everything to the server's files."""
        self.unsettled = settle(self.execute)

    def data_bytes(self) -> int:
        """Bytes of all tables and indexes."""
        return sum(path.stat().st_size for path in (self.data / DATABASE).rglob("*") if path.is_file())

    # ---- steps ----

    def _start(self) -> None:
        logged = self.log.stat().st_size if self.log.exists() else 0
        # The server ends with this process, also if the process is killed.
        ending = ["setpriv", "--pdeathsig", "KILL"]
        self._serve(
            [*ending, *self._command(), f"--init-file={self._first}"], lambda: _READY in self.log_text()[logged:]
        )

    def _fill(self) -> None:
        """Makes the tables that describe users and settings, as the product's own script does."""
        advice = "the data of a new server could not be made"
        if self.program.initializes:
            more, text = ["--initialize-insecure"], None
        else:
            tables = "".join(_system_table(self.program.share, name) for name in _SYSTEM_TABLES)
            text = f"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n{tables}"
            more = ["--bootstrap"]
        run([*self._command(), *more], cwd=self.folder, owner=server_owner(), stdin=text, advice=advice)

    def _command(self) -> list[str | Path]:
        return [
            *self.program.command,
            # It must be the first option; otherwise the server reads files of this machine.
            "--no-defaults",
            f"--basedir={self.program.base}",
            f"--datadir={self.data}",
            f"--lc-messages-dir={self.program.share}",
            f"--socket={self.socket}",
            f"--pid-file={self.folder / 'pid'}",
            f"--tmpdir={self.folder}",
            # Debian's MySQL would use a folder of the machine.
            f"--secure-file-priv={self.folder}",
            "--skip-networking",
            *(f"--{name.replace('_', '-')}={value}" for name, value in self._settings.items()),
        ]


def connected(options: Mapping[str, Any], limit_s: float) -> Any:
    """A connection that commits by itself, and waits for a limited time."""
    import pymysql

    limits = {"connect_timeout": QUESTION_S, "read_timeout": limit_s, "write_timeout": limit_s}
    return pymysql.connect(**options, **limits, autocommit=True)


def executed(connect: Any, name: str, statements: tuple[str, ...]) -> list[Any]:
    """The rows of the last of some statements; DevServerError if one fails."""
    import pymysql

    rows: list[Any] = []
    try:
        with contextlib.closing(connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall()) if cursor.description else []
    except (pymysql.Error, OSError) as error:
        raise DevServerError(f"{name}: {error}") from None
    return rows


def settle(execute: Any) -> str | None:
    """Counts rows again, then waits until deleted rows are purged and pages are written.

    It waits a minute at most. Returns what is left undone, or None.
    """
    for (table,) in execute("SHOW TABLES"):
        execute(f"ANALYZE TABLE {table}")
    ((percent,),) = execute("SELECT @@global.innodb_max_dirty_pages_pct")
    try:
        execute("SET GLOBAL innodb_max_dirty_pages_pct = 0")
        return _purged(execute)
    finally:
        # Left at 0, the server would write each page at once from now on.
        execute(f"SET GLOBAL innodb_max_dirty_pages_pct = {percent}")


def _purged(execute: Any) -> str | None:
    """Waits for the purge and the pages. Returns what is left undone, or None."""
    late, before = time.monotonic() + _SETTLE_S, -1
    while True:
        dirty = int(execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")[0][1])
        old = int(
            execute("SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'")[0][0]
        )
        # One or two pages are always dirty. The counter of old versions falls later than the
        # versions are purged, so an unchanged counter is sufficient.
        if dirty <= _PAGES_BUSY and old == before:
            return None
        if time.monotonic() > late:
            return f"{old:,} old versions were not purged or {dirty:,} pages not written in {_SETTLE_S:g} s"
        before = old
        time.sleep(_LOOK_S)


def _system_table(share: Path, name: str) -> str:
    for prefix in ("mariadb", "mysql"):
        path = share / f"{prefix}_{name}"
        if path.exists():
            return path.read_text()
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
