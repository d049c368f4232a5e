r"""Replaces pgvector's indexes by Pagehop's: in the same table, or with an index file.

    python from_pgvector.py index "$DSN" items --filter tenant_id
    python from_pgvector.py export "$DSN" items id embedding items.pagehop \
        --metric cosine --filter price

`index` creates an index USING pagehop beside each index of pgvector on the table, while the table
is read and written. It then measures the recall of the new index and drops the old one. Queries
need not change.

`export` copies ids, vectors and filter columns of one snapshot of the table to an index file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
import psycopg
from psycopg import sql

import pagehop

OPERATOR_CLASSES = {f"{kind}_{metric}_ops" for kind in ("vector", "halfvec") for metric in ("l2", "ip", "cosine")}
_ROWS_AT_ONCE = 5_000
_INDEXES = """
SELECT n.nspname, c.relname, o.opcname, pg_get_indexdef(i.indexrelid, 1, true), pg_get_expr(i.indpred, i.indrelid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_am a ON a.oid = c.relam JOIN pg_opclass o ON o.oid = i.indclass[0]
WHERE i.indrelid = %s::regclass AND a.amname IN ('hnsw', 'ivfflat') ORDER BY c.relname
"""


def replace_indexes(dsn: str, table: str, filters: Sequence[str], *, keeps_old: bool) -> list[str]:
    """Replaces pgvector's indexes on `table`. Returns the names of the new ones."""
    made = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pagehop CASCADE")
        (on,) = _one(connection, "SELECT %s::regclass::text", table)
        for schema, old, opclass, expression, condition in connection.execute(_INDEXES, [table]).fetchall():
            if opclass not in OPERATOR_CLASSES:
                print(f"{old}: Pagehop has no operator class {opclass}; the index stays")
                continue
            new = f"{old}_pagehop"
            statement = sql.SQL("CREATE INDEX CONCURRENTLY {} ON {} USING pagehop ({}){}").format(
                sql.Identifier(new),
                sql.SQL(on),
                sql.SQL(", ").join([sql.SQL(f"({expression}) {opclass}"), *map(sql.Identifier, filters)]),
                sql.SQL(f" WHERE {condition}" if condition else ""),
            )
            _refuse_taken(connection, sql.Identifier(schema, new), old)
            _create(connection, statement, sql.Identifier(schema, new))
            print(f"{statement.as_string(connection)}; {_recall(connection, sql.Identifier(schema, new))}")
            if not keeps_old:
                connection.execute(sql.SQL("DROP INDEX CONCURRENTLY {}").format(sql.Identifier(schema, old)))
            made.append(new)
    return made


def _recall(connection: psycopg.Connection[Any], name: sql.Identifier) -> str:
    """The recall that an audit of the new index finds, as a text."""
    index = name.as_string(connection)
    if _one(connection, "SELECT nodes FROM pagehop_info(%s)", index) == (0,):
        return "no rows yet"
    (recall,) = _one(connection, "SELECT recall FROM pagehop_recall(%s)", index)
    return f"recall {recall:.3f}"


def _refuse_taken(connection: psycopg.Connection[Any], name: sql.Identifier, old: str) -> None:
    """ValueError if an index of that name exists: it may be a good one, so the user decides."""
    index = name.as_string(connection)
    if _one(connection, "SELECT to_regclass(%s) IS NULL", index) == (False,):
        raise ValueError(f"{index} is there already: drop it to have it made again, or drop {old} and keep it")


def _create(connection: psycopg.Connection[Any], statement: sql.Composed, name: sql.Identifier) -> None:
    try:
        connection.execute(statement)
    except psycopg.Error:
        # A concurrent build that fails leaves an invalid index.
        connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(name))
        raise


class TableSource:
    """Ids and vectors of a table in one snapshot: all reads are in the same transaction."""

    def __init__(self, connection: psycopg.Connection[Any], table: str, row_id: str, vector: str) -> None:
        (on,) = _one(connection, "SELECT %s::regclass::text", table)
        self._connection = connection
        self._id, self._vector = sql.Identifier(row_id), sql.Identifier(vector)
        self._from = sql.SQL("FROM {} WHERE {} IS NOT NULL ORDER BY {}").format(sql.SQL(on), self._vector, self._id)
        first = sql.SQL("SELECT vector_dims({}) {} LIMIT 1").format(self._vector, self._from)
        found = connection.execute(first).fetchone()
        if found is None:
            raise ValueError(f"{table} has no row with a vector in {vector}")
        self.dim: int = found[0]

    def chunks(self) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        query = sql.SQL("SELECT {}, {}::real[] {}").format(self._id, self._vector, self._from)
        with self._connection.cursor("rows", binary=True) as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                yield np.array([row[0] for row in rows]), np.array([row[1] for row in rows], np.float32)

    def column(self, name: str) -> list[Any]:
        """The values of another column, in the order of the ids."""
        query = sql.SQL("SELECT {} {}").format(sql.Identifier(name), self._from)
        return [value for (value,) in self._connection.execute(query).fetchall()]


def export(dsn: str, table: str, row_id: str, vector: str, new: Path, metric: str, filters: Sequence[str]) -> int:
    """Builds an index file over a table. Returns its number of rows."""
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        source = TableSource(connection, table, row_id, vector)
        columns = {name: source.column(name) for name in filters} or None
        with pagehop.build(new, source, metric=metric, columns=columns) as index:
            return len(index)


def _one(connection: psycopg.Connection[Any], query: LiteralString, *values: Any) -> tuple[Any, ...]:
    found = connection.execute(query, values).fetchone()
    assert found is not None
    return tuple(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("index", help="replace pgvector's indexes of a table")
    one.add_argument("dsn")
    one.add_argument("table")
    one.add_argument("--keep-old", action="store_true", help="do not drop pgvector's indexes")
    other = commands.add_parser("export", help="build an index file over a table")
    other.add_argument("dsn")
    other.add_argument("table")
    other.add_argument("id", help="its column of ids, whole numbers")
    other.add_argument("vector", help="its column of vectors")
    other.add_argument("new", type=Path, help="the index to build")
    other.add_argument("--metric", choices=["l2", "ip", "cosine"], required=True)
    for command in (one, other):
        command.add_argument("--filter", metavar="COLUMN", action="append", default=[], help="a column to filter by")
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "index":
            made = replace_indexes(asked.dsn, asked.table, asked.filter, keeps_old=asked.keep_old)
            print(f"{len(made)} indexes replaced")
        else:
            rows = export(asked.dsn, asked.table, asked.id, asked.vector, asked.new, asked.metric, asked.filter)
            print(f"{rows} rows in {asked.new}")
    except (psycopg.Error, pagehop.Error, ValueError) as error:
        print(f"from_pgvector: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
