"""The table that most tests use, with searches by its index and by reading every row."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import cast

import psycopg

Connect = Callable[[], psycopg.Connection]

DIM = 24

# Operator class, type of the column, and the operator of the class.
KINDS = [
    ("vector_l2_ops", "vector", "<->"),
    ("vector_ip_ops", "vector", "<#>"),
    ("vector_cosine_ops", "vector", "<=>"),
    ("halfvec_l2_ops", "halfvec", "<->"),
    ("halfvec_ip_ops", "halfvec", "<#>"),
    ("halfvec_cosine_ops", "halfvec", "<=>"),
]


@cache
def vectors(count: int, seed: int, dim: int = DIM) -> list[str]:
    """Points around a few centers, which are the same for all seeds, in pgvector's format."""
    shared, source = random.Random(7), random.Random(seed)
    centers = [[shared.gauss(0, 1) for _ in range(dim)] for _ in range(12)]
    rows = []
    for _ in range(count):
        center = source.choice(centers)
        rows.append("[" + ",".join(f"{x + source.gauss(0, 0.5):.5f}" for x in center) + "]")
    return rows


QUERIES = vectors(25, seed=99)

# Until the end of the transaction, scans return all rows, late ones out of order.
RELAXED = "SET LOCAL pagehop.scan_order = relaxed_order"


def run(connection: psycopg.Connection, sql: str) -> list[tuple[object, ...]]:
    """The rows that a statement returns; none if it returns no rows."""
    cursor = connection.execute(sql.encode())
    return cursor.fetchall() if cursor.description else []


def value(connection: psycopg.Connection, sql: str) -> object:
    """The first column of the only row."""
    [row] = run(connection, sql)
    return row[0]


def number(connection: psycopg.Connection, sql: str) -> int:
    """The first column of the only row, which must be a whole number."""
    found = value(connection, sql)
    assert isinstance(found, int)
    return found


def create(
    connection: psycopg.Connection, operators: str = "vector_l2_ops", kind: str = "vector", dim: int = DIM
) -> None:
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding {kind}({dim}), note text)")
    run(connection, f"CREATE INDEX items_embedding ON items USING pagehop (embedding {operators})")


def fill(connection: psycopg.Connection, rows: Iterable[str | None], first: int = 0, table: str = "items") -> None:
    with connection.cursor().copy(f"COPY {table} (id, embedding) FROM STDIN".encode()) as copy:
        for at, row in enumerate(rows):
            copy.write_row((first + at, row))


@contextmanager
def only_by_index(connection: psycopg.Connection) -> Iterator[None]:
    """A transaction in which plans use indexes where possible."""
    with connection.transaction():
        run(
            connection, "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off"
        )
        yield


def ids(connection: psycopg.Connection, sql: str) -> list[int]:
    """The first column of all rows, which must be whole numbers."""
    found = [row[0] for row in run(connection, sql)]
    assert all(isinstance(one, int) for one in found)
    return cast(list[int], found)


def explain(connection: psycopg.Connection, sql: str, options: str = "COSTS off") -> str:
    return "\n".join(str(row[0]) for row in run(connection, f"EXPLAIN ({options}) {sql}"))


def by_index(
    connection: psycopg.Connection,
    query: str,
    limit: int = 10,
    operator: str = "<->",
    *,
    index: str = "items_embedding",
    column: str = "embedding",
    where: str = "true",
) -> list[int]:
    """The ids that the index finds, nearest first. Fails if the plan does not use the index, or if
    the rows are not in order.
    """
    distance = f"{column} {operator} '{query}'"
    ordered = f"SELECT id, {distance} FROM items WHERE {where} ORDER BY {distance} LIMIT {limit}"
    with only_by_index(connection):
        plan = explain(connection, ordered)
        assert f"Index Scan using {index} " in plan, plan
        rows = run(connection, ordered)
        if value(connection, "SHOW pagehop.scan_order") == "strict_order":
            assert_ascending(row[1] for row in rows)
    return [cast(int, row[0]) for row in rows]


def assert_ascending(distances: Iterable[object]) -> None:
    found = cast(list[float], list(distances))
    for at in range(1, len(found)):
        assert found[at - 1] <= found[at], f"row {at} of {len(found)} comes after a farther one: {found[: at + 1]}"


def by_scan(
    connection: psycopg.Connection,
    query: str,
    limit: int = 10,
    operator: str = "<->",
    *,
    column: str = "embedding",
    where: str = "true",
    with_ties: bool = False,
) -> list[int]:
    """The true ids, nearest first. Of equal distances, those of the smallest ids, or all of them if
    `with_ties`.
    """
    order = f"{column} {operator} '{query}'"
    order += f" FETCH FIRST {limit} ROWS WITH TIES" if with_ties else f", id LIMIT {limit}"
    ordered = f"SELECT id FROM items WHERE {where} ORDER BY {order}"
    with connection.transaction():
        run(connection, "SET LOCAL enable_indexscan = off; SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on")
        return ids(connection, ordered)


def recall(
    connection: psycopg.Connection,
    queries: Sequence[str] = QUERIES,
    operator: str = "<->",
    *,
    index: str = "items_embedding",
    column: str = "embedding",
    where: str = "true",
) -> float:
    """The share of the ten nearest rows that the index finds. Rows at equal distances are equal."""
    found = wanted = 0
    for query in queries:
        truth = by_scan(connection, query, operator=operator, column=column, where=where, with_ties=True)
        wanted += min(len(truth), 10)
        rows = by_index(connection, query, operator=operator, index=index, column=column, where=where)
        found += len(set(truth) & set(rows))
    return found / wanted


def everything(connection: psycopg.Connection, operator: str = "<->", *, where: str = "true") -> list[int]:
    """The ids of all rows that a scan returns, with repetitions, in ascending order."""
    with connection.transaction():
        run(connection, RELAXED)
        return sorted(by_index(connection, QUERIES[0], 1_000_000, operator, where=where))
