"""Limits on the cost of a user's values and a session's plans: long arrays, memory, remembered
indexes, pins.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from psycopg import errors

from tests.items import QUERIES, Connect, fill, ids, number, only_by_index, run, value, vectors

ROWS = 3000


def filled(connection: psycopg.Connection, columns: str = "", values: str = "", rows: int = ROWS) -> None:
    """Creates a table; `columns` are added to it, with `values` computed from `id`."""
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector(24), note text{columns})")
    fill(connection, vectors(rows, seed=1))
    if values:
        run(connection, f"UPDATE items SET {values}")
    run(connection, "VACUUM ANALYZE items")


def partitioned(connection: psycopg.Connection, count: int) -> None:
    """The same rows in a partitioned table, with an index on each partition."""
    run(connection, "CREATE TABLE items (id int, embedding vector(24), note text) PARTITION BY HASH (id)")
    for at in range(count):
        of_part = f"FOR VALUES WITH (MODULUS {count}, REMAINDER {at})"
        run(connection, f"CREATE TABLE items_{at} PARTITION OF items {of_part}")
    fill(connection, vectors(ROWS, seed=1))
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")


def nearest(query: str, table: str = "items") -> str:
    return f"SELECT id FROM {table} ORDER BY embedding <-> '{query}' LIMIT 10"


def blocks(connection: psycopg.Connection, query: str) -> int:
    """Shared buffers that a query reads when it runs for the second time."""
    run(connection, query)
    [[plan]] = run(connection, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}")
    top: dict[str, Any] = (plan if isinstance(plan, list) else json.loads(str(plan)))[0]["Plan"]
    return int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])


@pytest.mark.parametrize("count", [99_000, 101_000])
def test_conditions_on_long_arrays_are_met(connect: Connect, count: int) -> None:
    connection = connect()
    filled(connection, ", tenant int, tags int[]", "tenant = id, tags = ARRAY[id, id + 1]", rows=1000)
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, tenant, tags)")
    # With more than 100,000 values, the executor checks the condition.
    many = f"ARRAY(SELECT 7 * i FROM generate_series(0, {count}) i)"
    for condition in [f"tenant = ANY ({many})", f"tags && {many}", f"NOT tags && {many}"]:
        query = f"SELECT id FROM items WHERE {condition} ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 20"
        with connection.transaction():
            run(connection, "SET LOCAL enable_indexscan = off")
            expected = ids(connection, query)
        with only_by_index(connection):
            plan = str(run(connection, f"EXPLAIN {query}"))
            assert "Index Scan using items_embedding" in plan, plan
            found = ids(connection, query)
        assert len(set(found) & set(expected)) >= 19, condition


def test_rows_with_long_arrays_are_refused_early(connect: Connect) -> None:
    connection = connect()
    filled(connection, ", tags int[]", "tags = ARRAY[id]")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, tags)")
    many = "(SELECT array_agg(i) FROM generate_series(1, 2000000) i)"
    with pytest.raises(errors.ProgramLimitExceeded, match="more than 512 different elements"):
        run(connection, f"UPDATE items SET tags = {many} WHERE id = 1")
    # Repeated elements count once.
    same = "(SELECT array_agg(i % 500) FROM generate_series(1, 200000) i)"
    run(connection, f"UPDATE items SET tags = {same} WHERE id = 1")
    assert number(connection, "SELECT count(*) FROM pagehop_check('items_embedding')") == 1


def test_scans_are_complete_in_little_memory(connect: Connect) -> None:
    connection, rows = connect(), 12_000
    filled(connection, rows=rows)
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    run(connection, "SET work_mem = '64kB'; SET pagehop.scan_order = relaxed_order")
    every = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}'"
    one = f"SELECT id FROM items WHERE id % 4000 = 7 ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"
    with only_by_index(connection):
        for _ in range(2):
            found = ids(connection, every)
            assert sorted(found) == list(range(rows))
            scanned = number(connection, "SELECT pages_read FROM pagehop_last_scan()")
            assert sorted(ids(connection, one)) == [7, 4007, 8007]
        # A limit of the session ends the scan, also at eight times work_mem.
        run(connection, "SET pagehop.scan_mem_multiplier = 8")
        assert 0 < len(ids(connection, every)) < rows
        assert value(connection, "SELECT ended_by FROM pagehop_last_scan()") == "scan_mem_multiplier"
        run(connection, "SET pagehop.scan_mem_multiplier = 0; SET work_mem = '64MB'")
        assert sorted(ids(connection, every)) == list(range(rows))
    walked = number(connection, "SELECT pages_read FROM pagehop_last_scan()")
    assert walked < scanned, f"{scanned} pages read in little memory, {walked} in much"


def test_partitions_are_searched_for_the_limit(connect: Connect) -> None:
    connection = connect()
    partitioned(connection, 2)
    run(connection, "SET pagehop.recall = 0.95")
    hops = {}
    with only_by_index(connection):
        for rows in [10, 100]:
            ids(connection, f"SELECT id FROM items_1 ORDER BY embedding <-> '{QUERIES[0]}' LIMIT {rows}")
            alone = number(connection, "SELECT hops FROM pagehop_last_scan()")
            ids(connection, f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT {rows}")
            hops[rows] = (alone, number(connection, "SELECT hops FROM pagehop_last_scan()"))
    assert hops[100][0] > 2 * hops[10][0]
    # The last scan is of one partition. It searches for the same number of rows as a query of that
    # partition alone.
    assert hops[100][1] > 2 * hops[10][1] > 0


def test_a_session_remembers_the_indexes_of_many_partitions(connect: Connect) -> None:
    connection = connect()
    partitioned(connection, 20)
    run(connection, "ANALYZE items")
    with only_by_index(connection):
        alone = [blocks(connection, nearest(QUERIES[0], f"items_{at}")) for at in range(20)]
        together = blocks(connection, nearest(QUERIES[0]))
    assert together < 1.2 * sum(alone), f"{together} blocks, of the partitions one by one {sum(alone)}"


def test_a_recall_below_1_is_not_rounded_to_1(connect: Connect) -> None:
    connection = connect()
    filled(connection)
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    run(connection, "SET enable_seqscan = off; SET enable_sort = off")
    # No index scan answers a recall of 1.
    for recall, scan in [("0.99999999", "Index Scan"), ("1", "Seq Scan")]:
        run(connection, f"SET pagehop.recall = {recall}")
        assert scan in str(run(connection, f"EXPLAIN {nearest(QUERIES[0])}"))
        assert len(ids(connection, nearest(QUERIES[0]))) == 10
