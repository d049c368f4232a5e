"""Servers that run already, by their URLs. They keep their settings and everything in them but one table of ours."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from devserver import DevServerError
from labservers import innodb

TABLE = "items"
_SCHEMES = {"postgresql": "postgres", "postgres": "postgres", "mysql": "mysql", "mariadb": "mysql"}
_PORTS = {"postgres": 5432, "mysql": 3306}
_SECONDS_MAX = 30


class Instance:
    """A database of a server that somebody else runs. Its processes are not known, so neither is what it costs."""

    pid: None = None

    def __init__(self, url: str) -> None:
        """DevServerError if the URL is none of PostgreSQL or MySQL with a database."""
        self.shown = re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1@", url)
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or not parts.path.strip("/"):
            raise DevServerError(
                f"{self.shown}: write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or mysql:// likewise"
            )
        self._protocol = _SCHEMES[parts.scheme]
        self._url, self._where = url, _place(parts, self._protocol)
        self._made = False

    @property
    def running(self) -> bool:
        try:
            self.execute("SELECT 1")
        except DevServerError:
            return False
        return True

    def start(self) -> None:
        """Looks whether there is room for our table."""
        found = self.execute(f"SELECT count(*) FROM information_schema.tables WHERE table_name = '{TABLE}'")
        if found[0][0]:
            raise DevServerError(f"{self.shown} has a table {TABLE} already: give an empty database, or drop the table")
        self._made = True

    def remove(self) -> None:
        """Drops our table."""
        if self._made:
            with contextlib.suppress(DevServerError):
                self.execute(f"DROP TABLE IF EXISTS {TABLE}")

    def version(self) -> str:
        """As the server says it."""
        said = str(self.execute("SELECT version()")[0][0])
        return said.split()[1] if said.startswith("PostgreSQL") else said.split("-")[0]

    def settle(self) -> None:
        """Cleans up what was changed, and counts anew; checkpoints where we may."""
        if self._protocol == "mysql":
            self.execute(f"ANALYZE TABLE {TABLE}")
            return
        self.execute(f"VACUUM (ANALYZE) {TABLE}")
        with contextlib.suppress(DevServerError):
            self.execute("CHECKPOINT")

    def data_bytes(self) -> int:
        """Bytes of our table with its indexes."""
        of_mysql = f"SELECT data_length + index_length FROM information_schema.tables WHERE table_name = '{TABLE}'"
        of_postgres = f"SELECT pg_total_relation_size('{TABLE}')"
        return int(self.execute(of_mysql if self._protocol == "mysql" else of_postgres)[0][0])

    def sysbench_options(self) -> list[str]:
        """How sysbench connects."""
        driver = "pgsql" if self._protocol == "postgres" else "mysql"
        return [f"--db-driver={driver}", *(f"--{driver}-{name}={value}" for name, value in self._where.items())]

    def execute(self, *statements: str) -> list[Any]:
        """Executes statements by themselves, outside of a transaction; gives the rows of the last one."""
        if self._protocol == "mysql":
            return innodb.executed(self._connect_mysql, self.shown, statements)
        import psycopg

        rows: list[Any] = []
        try:
            with psycopg.connect(self._url, autocommit=True, connect_timeout=_SECONDS_MAX) as connection:
                for statement in statements:
                    cursor = connection.execute(statement)
                    rows = cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise DevServerError(f"{self.shown}: {str(error).strip()}") from None
        return rows

    def _connect_mysql(self) -> Any:
        import pymysql

        named: dict[str, Any] = {"db": "database", "socket": "unix_socket"}
        where = {named.get(name, name): value for name, value in self._where.items()}
        return pymysql.connect(**where, autocommit=True, connect_timeout=_SECONDS_MAX)


def _place(parts: SplitResult, protocol: str) -> Mapping[str, str | int]:
    """Where a URL leads, by sysbench's names."""
    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
    found: dict[str, str | int] = {"user": unquote(parts.username or "root"), "db": parts.path.strip("/")}
    if parts.password:
        found["password"] = unquote(parts.password)
    if "socket" in asked:
        return found | {"socket": asked["socket"]}
    return found | {"host": asked.get("host") or parts.hostname or "127.0.0.1", "port": parts.port or _PORTS[protocol]}
