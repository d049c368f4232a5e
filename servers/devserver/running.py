"""Running servers, by their URLs.

The lab creates one table. Other data and the settings stay as they are.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from devserver import DevServerError, innodb, postgres
from devserver.waits import QUESTION_S, STATEMENT_S

_PORTS = {"postgres": 5432, "mysql": 3306}


class Running:
    """A database of a running server. Its processes are not known, and so neither are its costs."""

    pid: None = None

    def __init__(self, url: str, table: str) -> None:
        """`table` is the table that the lab will create."""
        self.shown = shown(url)
        self._url, self._table = url, table
        self._made = False
        self._limit_s = STATEMENT_S

    def limit(self, seconds: float) -> None:
        """Sets the longest time of a statement of `execute`."""
        self._limit_s = seconds

    @property
    def running(self) -> bool:
        try:
            self._executed(("SELECT 1",), QUESTION_S)
        except DevServerError:
            return False
        return True

    def start(self) -> None:
        """Tests that the lab's table does not exist yet."""
        if self.execute(self._counts_table)[0][0]:
            raise DevServerError(
                f"{self.shown} has a table {self._table} already: give an empty database, or drop the table, "
                "which a killed run may have left"
            )
        self._made = True

    def remove(self) -> None:
        """Drops the lab's table."""
        if self._made:
            with contextlib.suppress(DevServerError):
                self.execute(f"DROP TABLE IF EXISTS {self._table}")

    def version(self) -> str:
        """The version as the server reports it."""
        said = str(self._executed(("SELECT version()",), QUESTION_S)[0][0])
        return said.split()[1] if said.startswith("PostgreSQL") else said.split("-")[0]

    def execute(self, *statements: str) -> list[Any]:
        """Executes statements one by one, outside of a transaction.

        Returns the rows of the last one.
        """
        return self._executed(statements, self._limit_s)

    def _executed(self, statements: tuple[str, ...], limit_s: float) -> list[Any]:
        """The same, with the longest time of a statement."""
        raise NotImplementedError

    @property
    def _counts_table(self) -> str:
        """The SQL that counts tables with the name of the lab's table, in its place."""
        raise NotImplementedError


class Postgres(Running):
    """A database of PostgreSQL."""

    @property
    def _counts_table(self) -> str:
        return f"SELECT count(*) FROM pg_class WHERE relname = '{self._table}' AND pg_table_is_visible(oid)"

    def dsn(self) -> str:
        """The connection string for libpq."""
        return self._url

    def settle(self) -> None:
        """Vacuums and counts rows; makes a checkpoint if that is permitted."""
        # VACUUM skips rows of commits that are not yet in the log on disk.
        major = int(self.execute("SHOW server_version_num")[0][0]) // 10000
        for statement in ("CHECKPOINT", postgres.vacuum(major, self._table), "CHECKPOINT"):
            with contextlib.suppress(DevServerError) if statement == "CHECKPOINT" else contextlib.nullcontext():
                self.execute(statement)

    def data_bytes(self) -> int:
        """Bytes of the lab's table with its indexes; 0 if it does not exist."""
        return int(self.execute(f"SELECT coalesce(pg_total_relation_size(to_regclass('{self._table}')), 0)")[0][0])

    def sysbench_options(self) -> list[str]:
        """The options for sysbench."""
        where = _place(urlsplit(self._url), "postgres")
        return ["--db-driver=pgsql", *(f"--pgsql-{name}={value}" for name, value in where.items())]

    def _executed(self, statements: tuple[str, ...], limit_s: float) -> list[Any]:
        return postgres.executed(self._url, self.shown, statements, limit_s)


class Mysql(Running):
    """A database of MariaDB or MySQL."""

    @property
    def _counts_table(self) -> str:
        return (
            "SELECT count(*) FROM information_schema.tables "
            f"WHERE table_schema = DATABASE() AND table_name = '{self._table}'"
        )

    def client_options(self) -> dict[str, Any]:
        """The options for PyMySQL."""
        named = {"db": "database", "socket": "unix_socket"}
        where = _place(urlsplit(self._url), "mysql")
        return {named.get(name, name): value for name, value in where.items()}

    def settle(self) -> None:
        """Counts rows again. The server itself purges old versions."""
        self.execute(f"ANALYZE TABLE {self._table}")

    def data_bytes(self) -> int:
        """Bytes of the lab's table with its indexes; 0 if it does not exist."""
        found = self.execute(
            # Without this, sizes may be a day old.
            f"ANALYZE TABLE {self._table}",
            "SELECT coalesce(sum(data_length + index_length), 0) FROM information_schema.tables "
            f"WHERE table_schema = DATABASE() AND table_name = '{self._table}'",
        )
        return int(found[0][0])

    def sysbench_options(self) -> list[str]:
        """The options for sysbench."""
        where = _place(urlsplit(self._url), "mysql")
        return ["--db-driver=mysql", *(f"--mysql-{name}={value}" for name, value in where.items())]

    def _executed(self, statements: tuple[str, ...], limit_s: float) -> list[Any]:
        return innodb.executed(lambda: innodb.connected(self.client_options(), limit_s), self.shown, statements)


_KINDS: dict[str, type[Running]] = {"postgresql": Postgres, "postgres": Postgres, "mysql": Mysql, "mariadb": Mysql}


def of_url(url: str, table: str) -> Any:
    """A server of SQL by its URL.

    DevServerError if it is not a PostgreSQL or MySQL URL with a database.
    """
    parts = urlsplit(url)
    if parts.scheme not in _KINDS or not parts.path.strip("/"):
        raise DevServerError(
            f"{shown(url)}: write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or mysql:// likewise"
        )
    return _KINDS[parts.scheme](url, table)


def shown(url: str) -> str:
    """A URL without its password."""
    return re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1@", url)


def _place(parts: SplitResult, protocol: str) -> dict[str, str | int]:
    """Host, port, user and other parts of a URL, by sysbench's names."""
    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
    found: dict[str, str | int] = {"user": unquote(parts.username or "root"), "db": parts.path.strip("/")}
    if parts.password:
        found["password"] = unquote(parts.password)
    if "socket" in asked:
        return found | {"socket": asked["socket"]}
    return found | {"host": asked.get("host") or parts.hostname or "127.0.0.1", "port": parts.port or _PORTS[protocol]}
