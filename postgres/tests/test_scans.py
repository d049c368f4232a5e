"""The cost of a scan as SQL shows it, the ends of limited scans, and reads in flight when a scan
ends early.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.rows import dict_row

from devserver import Cluster, Server, Setting
from tests.items import (
    QUERIES,
    Connect,
    by_index,
    by_scan,
    fill,
    ids,
    number,
    only_by_index,
    run,
    value,
    vectors,
)

ROWS = 3000


def last_scan(connection: psycopg.Connection) -> dict[str, Any]:
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute("SELECT *, index::text AS name FROM pagehop_last_scan()").fetchone()
    assert row is not None
    return row


def filled(connection: psycopg.Connection, dim: int = 24, rows: int = ROWS) -> None:
    """Creates a table of some hundred blocks, with an index of the same size."""
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({dim}), note text)")
    run(connection, "ALTER TABLE items ALTER embedding SET STORAGE PLAIN")
    fill(connection, vectors(rows, seed=1, dim=dim))
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")


def test_a_session_is_told_what_its_last_scan_cost(connect: Connect) -> None:
    connection = connect()
    filled(connection)
    assert last_scan(connection)["rows"] is None
    by_index(connection, QUERIES[0])
    cost = last_scan(connection)
    assert (cost["name"], cost["searches"], cost["ended_by"]) == ("items_embedding", 1, "executor")
    assert 10 <= cost["rows"] <= 20
    assert 10 <= cost["pages_read"] <= cost["hops"] == cost["distances"] < ROWS / 10
    assert cost["hops"] * 8 <= cost["estimates"] <= cost["hops"] * 64
    assert 0 <= cost["rechecks"] <= cost["rows"]
    assert cost["pages_missed"] == 0, "all pages were in shared buffers"
    assert last_scan(connect())["rows"] is None, "a session does not see another session's scan"


def test_searches_of_a_join_are_added_up(connect: Connect) -> None:
    connection = connect()
    filled(connection)
    by_index(connection, QUERIES[0], 5)
    one = last_scan(connection)
    nearest = "SELECT n.id FROM items n ORDER BY n.embedding <-> i.embedding LIMIT 5"
    with only_by_index(connection):
        run(connection, f"SELECT * FROM items i, LATERAL ({nearest}) near WHERE i.id < 40")
    many = last_scan(connection)
    assert many["searches"] == 40
    assert many["rows"] >= 200
    assert many["hops"] > 20 * one["hops"]
    # One search returns all rows and ends by itself. The executor ends the other one. The last one
    # counts.
    counted = "SELECT count(*) FROM (SELECT id FROM items ORDER BY embedding <-> i.embedding LIMIT i.id) n"
    for order, end in [("DESC", "executor"), ("ASC", "exhausted")]:
        wanted = f"(SELECT id * {2 * ROWS} + 1 AS id, embedding FROM items WHERE id < 2 ORDER BY id {order} OFFSET 0)"
        with only_by_index(connection):
            run(connection, f"SET LOCAL pagehop.scan_order = relaxed_order; SELECT ({counted}) FROM {wanted} i")
        assert (last_scan(connection)["searches"], last_scan(connection)["ended_by"]) == (2, end)


def test_explain_tells_the_same(connect: Connect, server: Server) -> None:
    if server.major < 18:
        pytest.skip("PostgreSQL 17 does not ask extensions")
    connection = connect()
    filled(connection)
    ordered = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"
    with only_by_index(connection):
        told = json.dumps(value(connection, f"EXPLAIN (ANALYZE, FORMAT json, TIMING off) {ordered}"))
        untold = value(connection, f"EXPLAIN (FORMAT json) {ordered}")
    scan = json.loads(told)[0]["Plan"]["Plans"][0]
    cost = last_scan(connection)
    labels = ["Hops", "Distance Estimates", "Exact Distances", "Rechecked Distances", "Late Rows"]
    columns = ["hops", "estimates", "distances", "rechecks", "late_rows"]
    assert [scan[label] for label in labels] == [cost[column] for column in columns]
    assert "Hops" not in json.dumps(untold), "EXPLAIN without ANALYZE runs nothing"
    other = value(connection, "EXPLAIN (ANALYZE, FORMAT json) SELECT id FROM items WHERE id = 7")
    assert "Hops" not in json.dumps(other)


def test_rows_that_come_too_late_are_counted(connect: Connect) -> None:
    connection = connect()
    filled(connection)
    late = {}
    for order in ["strict_order", "relaxed_order"]:
        with only_by_index(connection):
            run(connection, f"SET LOCAL pagehop.scan_order = {order}; SET LOCAL pagehop.slack = 0")
            found = ids(connection, f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}'")
        scan = last_scan(connection)
        assert len(found) == len(set(found)) == scan["rows"] == ROWS - scan["late_rows"], order
        late[order] = scan["late_rows"]
    assert late["strict_order"] > late["relaxed_order"] == 0, late


def test_a_scan_ends_at_its_limit_of_pages(connect: Connect) -> None:
    connection = connect()
    filled(connection)
    run(connection, "SET pagehop.max_scan_pages = 200")
    found = by_index(connection, QUERIES[0], ROWS)
    cost = last_scan(connection)
    assert cost["ended_by"] == "max_scan_pages"
    # The limit is checked between rows.
    assert 200 <= cost["hops"] < 260
    assert 20 < len(found) < 200
    assert found[:10] == by_index(connection, QUERIES[0]), "the limit does not change the rows before it"
    run(connection, "SET pagehop.max_scan_pages = 0; SET pagehop.scan_order = relaxed_order")
    assert len(by_index(connection, QUERIES[0], ROWS + 1)) == ROWS
    assert last_scan(connection)["ended_by"] == "exhausted"


def test_a_limit_of_pages_holds_within_a_pass(connect: Connect) -> None:
    """A scan whose memory is used up reads all pages of the index for the next row."""
    connection = connect()
    filled(connection, rows=16_000)
    run(connection, "SET work_mem = '64kB'; SET pagehop.scan_order = relaxed_order")
    nearest = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}'"
    # Page 0 has no nodes.
    pages = number(connection, "SELECT pages FROM pagehop_info('items_embedding')") - 1
    with only_by_index(connection):
        found = ids(connection, nearest)
        every = last_scan(connection)
        assert (len(found), every["ended_by"]) == (16_000, "exhausted")
        assert every["pages_read"] > 2 * pages
        # The limit counts one page for each hop, and all pages for each pass.
        reads = every["hops"] + pages * ((every["pages_read"] - 1) // pages)
        # The limit leaves out half of the last pass, and then the last pass and half of the one
        # before.
        for left_out in [pages // 2, 3 * pages // 2]:
            run(connection, f"SET pagehop.max_scan_pages = {reads - left_out}")
            some = ids(connection, nearest)
            cost = last_scan(connection)
            assert cost["ended_by"] == "max_scan_pages"
            assert every["pages_read"] - cost["pages_read"] == left_out
            assert some == found[: len(some)]
            assert 0 < len(some) < 16_000


def test_a_scan_ends_at_its_limit_of_memory(connect: Connect) -> None:
    connection = connect()
    filled(connection)
    run(
        connection,
        "SET pagehop.scan_order = relaxed_order; SET work_mem = '64kB'; SET pagehop.scan_mem_multiplier = 0.5",
    )
    few = len(by_index(connection, QUERIES[0], ROWS))
    assert last_scan(connection)["ended_by"] == "scan_mem_multiplier"
    run(connection, "SET pagehop.scan_mem_multiplier = 1.5")
    more = len(by_index(connection, QUERIES[0], ROWS))
    assert 10 <= few < more
    run(connection, "SET pagehop.scan_mem_multiplier = 100")
    assert len(by_index(connection, QUERIES[0], ROWS)) == ROWS


def methods(server: Server) -> list[dict[str, str]]:
    """The methods of I/O of a server. Each is tested on a cluster of its own."""
    if server.major < 18:
        return [{}]
    has_io_uring = server.name in {"18-source", "18-assert"}
    return [{"io_method": name} for name in ["sync", "worker", *["io_uring"] * has_io_uring]]


# Enough buffers for a backend to pin some: PostgreSQL divides them by the greatest number of
# backends, and subtracts 8.
FEW_BUFFERS: dict[str, Setting] = {
    "shared_buffers": "8MB", "max_connections": 5, "max_worker_processes": 0, "max_wal_senders": 0,
}  # fmt: skip
# A node fills a page of the index, and two rows fill one of the table.
WIDE = 1000


def test_reads_in_flight_leave_nothing_behind(new_cluster: Callable[..., Cluster], server: Server) -> None:
    """There are few buffers for hundreds of pages, so every search reads pages, and every scan that
    ends early has reads in flight.
    """
    for method in methods(server):
        cluster = new_cluster(log_min_messages="WARNING", **FEW_BUFFERS, **method)
        # By default, pages in the operating system's cache are only read when they are needed.
        cluster.psql("ALTER SYSTEM SET pagehop.read_ahead = on; SELECT pg_reload_conf()")
        with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
            filled(connection, dim=WIDE, rows=ROWS // 2)
            queries = vectors(12, seed=5, dim=WIDE)
            found = [by_index(connection, query) for query in queries]
            cost = last_scan(connection)
            assert min(cost["pages_missed"], cost["pages_ahead"]) > 3, (method, cost)
            matches = sum(len(set(by_scan(connection, q)) & set(f)) for q, f in zip(queries, found, strict=True))
            assert matches >= 0.9 * 10 * len(queries)
            _end_early(connection, queries)
            assert [by_index(connection, query) for query in queries] == found
            assert number(connection, "SELECT count(*) FROM pagehop_check('items_embedding')") == 1
        warnings = [line for line in cluster.log_text().splitlines() if "WARNING" in line or "PANIC" in line]
        assert warnings == [], method
        cluster.remove()


# Number of rounds of searches. At least one round must read nothing ahead.
CALM_TRIES = 20


def searched(connection: psycopg.Connection, queries: list[str]) -> tuple[list[list[int]], list[int]]:
    """The ids that the index finds for each query, and the numbers of reads that the searches began
    early, in ascending order.
    """
    found, costs = [], []
    for query in queries:
        found.append(by_index(connection, query))
        costs.append(last_scan(connection))
    assert sum(cost["pages_missed"] for cost in costs) > 3 * len(queries)
    return found, sorted(cost["pages_ahead"] for cost in costs)


def test_pages_that_the_system_has_are_not_read_ahead(new_cluster: Callable[..., Cluster], server: Server) -> None:
    """The files were just written, and there are few buffers. So there are many reads, and none
    waits for storage.
    """
    queries = vectors(30, seed=5, dim=WIDE)
    for method in methods(server):
        cluster = new_cluster(**FEW_BUFFERS, **method)
        found: dict[str, list[list[int]]] = {}
        ahead: dict[str, list[int]] = {}
        with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
            filled(connection, dim=WIDE, rows=ROWS // 2)
            # A process that loses its CPU during reads measures them as slow. It then begins reads
            # early until it has measured enough fast ones, and must stop doing so.
            for _ in range(CALM_TRIES):
                found["auto"], ahead["auto"] = searched(connection, queries)
                if ahead["auto"][len(queries) * 2 // 3] == 0:
                    break
            for mode in ["on", "off"]:
                run(connection, f"SET pagehop.read_ahead = {mode}")
                found[mode], ahead[mode] = searched(connection, queries)
        assert found["auto"] == found["on"] == found["off"]
        assert ahead["auto"][len(queries) * 2 // 3] == 0, (method, ahead["auto"])
        assert ahead["on"][len(queries) // 3] > 3, (method, ahead["on"])
        assert ahead["off"][-1] == 0, (method, ahead["off"])
        cluster.remove()


def _end_early(connection: psycopg.Connection, queries: list[str]) -> None:
    """Scans that stop after a few rows, fail, are rolled back, or run alternately with others of
    the same index.
    """
    for query, limit in zip(queries, itertools.cycle([1, 2, 3, 7]), strict=False):
        assert len(by_index(connection, query, limit)) == limit
    for query in queries:
        ordered = f"SELECT id FROM items ORDER BY embedding <-> '{query}'"
        with pytest.raises(errors.DivisionByZero), only_by_index(connection):
            run(connection, f"SELECT 1 / (20 - row_number() OVER ()) FROM ({ordered}) o")
        with only_by_index(connection):
            run(connection, f"DECLARE a CURSOR FOR {ordered}; DECLARE b CURSOR FOR {ordered}")
            seen = [[*ids(connection, f"FETCH 3 FROM {name}")] for name in "abab"]
            assert seen[0] == seen[1]
            assert seen[2] == seen[3]
            run(connection, "SAVEPOINT s")
            with pytest.raises(errors.DivisionByZero):
                run(connection, f"SELECT 1 / 0 FROM ({ordered} LIMIT 5) o")
            run(connection, "ROLLBACK TO s")
            assert len(ids(connection, "FETCH 3 FROM a")) == 3


def test_a_first_scan_reads_as_many_buffers_as_the_next(connect: Connect) -> None:
    """Page 0 is read once, whether the search is new or one from before, with a filter and
    without.
    """
    connection = connect()
    filled(connection)
    run(connection, "DROP INDEX items_embedding; ALTER TABLE items ADD kind int; UPDATE items SET kind = id % 5")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, kind)")
    run(connection, "VACUUM ANALYZE items")
    for where in ["true", "kind = 1"]:
        nearest = f"SELECT FROM items WHERE {where} ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"

        def buffers(connection: psycopg.Connection, nearest: str = nearest) -> int:
            [[plans]] = run(connection, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT json) {nearest}")
            assert isinstance(plans, list)
            scan = plans[0]["Plan"]["Plans"][0]
            assert scan["Index Name"] == "items_embedding"
            return int(scan["Shared Hit Blocks"]) + int(scan["Shared Read Blocks"])

        with only_by_index(connection):
            # The session opens the index, and keeps the search.
            buffers(connection)
            buffers(connection)
            again = buffers(connection)
            # Two cursors have the searches that were kept, so the third scan has a new one.
            for cursor in ["one", "other"]:
                run(connection, f"DECLARE {cursor} CURSOR FOR {nearest}; FETCH 1 FROM {cursor}")
            new = buffers(connection)
        print(where, new, again)
        assert new == again, where
