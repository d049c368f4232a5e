"""Passages in a table of PostgreSQL, with an index `USING pagehop`."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Sequence
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from debian_search.model import Float32
from debian_search.passages import Passage
from debian_search.store import Filters, Found, StoreError

_TABLE: LiteralString = """
CREATE TABLE IF NOT EXISTS passages (
    path text NOT NULL,
    place int NOT NULL,
    title text NOT NULL,
    text text NOT NULL,
    package text NOT NULL,
    kind text NOT NULL,
    modified timestamptz NOT NULL,
    embedding vector({dim}) NOT NULL,
    PRIMARY KEY (path, place)
)
"""
_INDEX: LiteralString = """
CREATE INDEX IF NOT EXISTS passages_embedding
    ON passages USING pagehop (embedding vector_cosine_ops, package, kind, modified)
"""


class PostgresStore:
    """Passages in a table of PostgreSQL."""

    def __init__(self, dsn: str, dim: int) -> None:
        self._lock = threading.Lock()
        try:
            self._connection = psycopg.connect(dsn, autocommit=True)
            self._connection.execute("CREATE EXTENSION IF NOT EXISTS pagehop CASCADE")
            self._connection.execute(sql.SQL(_TABLE).format(dim=sql.Literal(dim)))
        except psycopg.Error as error:
            raise StoreError(f"PostgreSQL: {error}") from error

    def known(self) -> dict[str, datetime.datetime]:
        """The path of each file, with its time of modification when it was read."""
        return dict(self._connection.execute("SELECT path, max(modified) FROM passages GROUP BY path").fetchall())

    def replace(self, paths: Sequence[str], passages: Sequence[Passage], vectors: Float32) -> None:
        """Removes the passages of the files `paths`, and adds `passages`, which are from the same
        files.
        """
        copy = "COPY passages (path, place, title, text, package, kind, modified, embedding) FROM STDIN"
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute("DELETE FROM passages WHERE path = ANY(%s)", [list(paths)])
            with cursor.copy(copy) as rows:
                for p, vector in zip(passages, vectors, strict=True):
                    rows.write_row((p.path, p.place, p.title, p.text, p.package, p.kind, p.modified, _text(vector)))

    def finish(self) -> None:
        """Creates the index after the first ingestion, which is faster than filling it by rows."""
        self._connection.execute(_INDEX)
        self._connection.execute("VACUUM ANALYZE passages")

    def search(self, vector: Float32, k: int, filters: Filters) -> list[Found]:
        """The `k` passages nearest to a vector among those that meet the filters, nearest first."""
        conditions: list[LiteralString] = []
        values: list[Any] = []
        if filters.package is not None:
            conditions.append("package = %s")
            values.append(filters.package)
        if filters.kind is not None:
            conditions.append("kind = %s")
            values.append(filters.kind)
        if filters.since is not None:
            conditions.append("modified >= %s")
            values.append(datetime.datetime.combine(filters.since, datetime.time(), datetime.UTC))
        query: LiteralString = (
            "SELECT path, title, text, modified, 1 - (embedding <=> %s::vector) FROM passages WHERE "
            + " AND ".join(conditions or ["true"])
            + " ORDER BY embedding <=> %s::vector LIMIT %s"
        )
        text = _text(vector)
        with self._lock:
            rows = self._connection.execute(query, [text, *values, text, k]).fetchall()
        return [Found(*row) for row in rows]

    def packages(self) -> list[str]:
        """The packages of all passages, each once, in ascending order."""
        with self._lock:
            rows = self._connection.execute("SELECT DISTINCT package FROM passages WHERE package <> '' ORDER BY 1")
            return [package for (package,) in rows.fetchall()]

    def close(self) -> None:
        """Closes the store."""
        self._connection.close()


def _text(vector: Float32) -> str:
    return "[" + ",".join(map(repr, vector.tolist())) + "]"
