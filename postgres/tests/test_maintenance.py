"""Maintenance of tables with an index: upgrades, vacuums, rewrites, concurrent builds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster, Server, install, install_extension
from tests.items import DIM, QUERIES, Connect, create, everything, fill, number, recall, run, value, vectors
from tests.test_inspect import ask, check


def test_an_index_survives_pg_upgrade(new_cluster: Callable[..., Cluster], server: Server) -> None:
    old = new_cluster(fsync=False, autovacuum=False)
    with psycopg.connect(old.dsn(), autocommit=True) as connection:
        run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), note text)")
        fill(connection, vectors(1500, seed=1))
        run(connection, "UPDATE items SET note = id % 10")
        run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, note)")
        # The index has more than rows: dead rows that wait for VACUUM, a calibration and an audit.
        run(connection, "DELETE FROM items WHERE id % 7 = 0; SELECT * FROM pagehop_recall('items_embedding')")
        before, info = everything(connection), ask(connection, "pagehop_info")
        # 17.12 gives columns an option that older releases of 18 do not accept in an upgrade.
        run(connection, "SET allow_system_table_mods = on")
        run(connection, "UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text LIKE '%pg_attver=%'")
    # From 17 to 18, and from 18 to 18.
    new_server = server if server.major >= 18 else install()
    install_extension(new_server)
    new = old.upgraded(new_server)
    try:
        new.start()
        with psycopg.connect(new.dsn(), autocommit=True) as connection:
            assert ask(connection, "pagehop_info") == info
            assert everything(connection) == before
            run(connection, "VACUUM items")
            check(connection)
            fill(connection, vectors(300, seed=2), first=5000)
            assert len(everything(connection)) == len(before) + 300
            assert recall(connection) > 0.97
            check(connection)
    finally:
        new.remove()


@pytest.mark.parametrize("workers", [0, 2])
def test_indexes_are_vacuumed_beside_others(connect: Connect, workers: int) -> None:
    """Parallel workers vacuum other indexes, the leader Pagehop's: see test_vacuum.py."""
    connection = connect()
    create(connection)
    run(connection, "CREATE INDEX ON items (note)")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    run(connection, "CREATE INDEX items_cosine ON items USING pagehop (embedding vector_cosine_ops)")
    fill(connection, vectors(1500, seed=1))
    run(connection, "DELETE FROM items WHERE id % 3 = 0")
    run(connection, "SET min_parallel_index_scan_size = 0; SET max_parallel_maintenance_workers = 2")
    said: list[str] = []
    connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    run(connection, f"VACUUM (VERBOSE, PARALLEL {workers}, INDEX_CLEANUP on) items")
    launched = [line for line in said if "parallel vacuum worker" in line]
    assert (len(launched) > 0) == (workers > 0), said
    for index in ["items_embedding", "items_cosine"]:
        report = check(connection, index)
        assert (report["nodes"], report["dead_nodes"]) == (1000, 0)
    assert recall(connection) > 0.97
    assert len(everything(connection)) == 1000


@pytest.mark.parametrize("parallel", [0, 2])
def test_a_vacuum_sleeps_as_its_cost_says(connect: Connect, parallel: int) -> None:
    connection, watcher = connect(), connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    run(connection, "CREATE INDEX items_cosine ON items USING pagehop (embedding vector_cosine_ops)")
    fill(connection, vectors(1500, seed=1))
    run(connection, "DELETE FROM items WHERE id % 3 = 0")
    run(connection, "SET min_parallel_index_scan_size = 0; SET vacuum_cost_delay = 20; SET vacuum_cost_limit = 20")
    failed: list[Exception] = []

    def vacuum() -> None:
        try:
            run(connection, f"VACUUM (PARALLEL {parallel}, INDEX_CLEANUP on) items")
        except psycopg.Error as error:
            failed.append(error)

    thread = threading.Thread(target=vacuum)
    thread.start()
    sleeps = (
        "SELECT count(*) FROM pg_stat_progress_vacuum JOIN pg_stat_activity a USING (pid)"
        f" WHERE phase = 'vacuuming indexes' AND a.pid = {connection.info.backend_pid} AND wait_event = 'VacuumDelay'"
    )
    wait(lambda: number(watcher, sleeps) > 0)
    # An insertion does not wait while a vacuum sleeps.
    run(watcher, "SET statement_timeout = '60s'")
    fill(watcher, vectors(5, seed=3), first=2000)
    run(watcher, f"SELECT pg_cancel_backend({connection.info.backend_pid})")
    thread.join()
    [error] = failed
    assert isinstance(error, errors.QueryCanceled)
    run(connection, "SET vacuum_cost_delay = 0")
    for index in ["items_embedding", "items_cosine"]:
        check(connection, index)
    run(connection, "VACUUM items")
    for index in ["items_embedding", "items_cosine"]:
        report = check(connection, index)
        assert (report["nodes"], report["dead_nodes"]) == (1005, 0)


def wait(until: Callable[[], bool], seconds: float = 300) -> None:
    late = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < late, "the condition was not met in time"
        time.sleep(0.005)


@pytest.mark.parametrize(
    "rewrite",
    [
        "VACUUM FULL items",
        "CLUSTER items USING items_pkey",
        "REINDEX TABLE items",
        "REINDEX INDEX CONCURRENTLY items_embedding",
        "ALTER TABLE items ALTER id TYPE bigint",
    ],
)
def test_a_table_that_is_written_again_keeps_its_index(connect: Connect, rewrite: str) -> None:
    connection, other = connect(), connect()
    create(connection)
    fill(connection, vectors(800, seed=1))
    run(connection, "DELETE FROM items WHERE id % 4 = 0")
    assert recall(connection) > 0.97
    # The other session keeps data about the index, which must not be used after the rewrite.
    assert recall(other) > 0.97
    run(connection, rewrite)
    for session in [connection, other]:
        report = check(session)
        assert (report["nodes"], report["dead_nodes"]) == (600, 0)
        assert recall(session) > 0.97
    fill(other, vectors(100, seed=2), first=1000)
    assert check(connection)["nodes"] == 700
    assert len(everything(connection)) == 700


def test_a_table_that_was_emptied_fills_again(connect: Connect) -> None:
    connection = connect()
    create(connection)
    fill(connection, vectors(2000, seed=1))
    run(connection, "DELETE FROM items")
    run(connection, "VACUUM (INDEX_CLEANUP on) items")
    report = check(connection)
    assert (report["nodes"], report["dead_nodes"]) == (0, 0)
    assert everything(connection) == []
    size = ask(connection, "pagehop_info")["bytes"]
    fill(connection, vectors(1500, seed=2))
    assert check(connection)["nodes"] == 1500
    assert recall(connection) > 0.95
    assert ask(connection, "pagehop_info")["bytes"] == size


def test_a_truncated_table_has_an_empty_index(connect: Connect) -> None:
    connection, other = connect(), connect()
    create(connection)
    fill(connection, vectors(500, seed=1))
    assert len(everything(other)) == 500
    with connection.transaction(force_rollback=True):
        run(connection, "TRUNCATE items")
        assert check(connection)["nodes"] == 0
        fill(connection, vectors(20, seed=2), first=1000)
        assert check(connection)["nodes"] == 20
    assert check(connection)["nodes"] == 500
    run(connection, "TRUNCATE items")
    assert everything(other) == []
    assert (check(other)["nodes"], ask(other, "pagehop_info")["pages"]) == (0, 1)
    fill(other, vectors(300, seed=3))
    assert recall(connection) > 0.95


def test_an_index_moves_to_another_tablespace(connect: Connect, database: str) -> None:
    connection, other = connect(), connect()
    create(connection)
    fill(connection, vectors(500, seed=1))
    assert len(everything(other)) == 500
    space = f"space_{database}"
    run(connection, "SET allow_in_place_tablespaces = on")
    run(connection, f"CREATE TABLESPACE {space} LOCATION ''")
    try:
        run(connection, f"ALTER TABLE items SET TABLESPACE {space}")
        run(connection, f"ALTER INDEX items_embedding SET TABLESPACE {space}")
        path = str(value(connection, "SELECT pg_relation_filepath('items_embedding')"))
        assert path.startswith("pg_tblspc/")
        assert check(other)["nodes"] == 500
        fill(other, vectors(50, seed=2), first=500)
        assert check(connection)["nodes"] == 550
        assert recall(connection) > 0.97
    finally:
        run(connection, "DROP TABLE items")
        run(connection, f"DROP TABLESPACE {space}")


def test_an_index_is_built_beside_writers(connect: Connect) -> None:
    """CREATE INDEX CONCURRENTLY: ambulkdelete lists the rows in the index, and aminsert adds the
    rows that came during the build.
    """
    connection, writer = connect(), connect()
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), note text)")
    fill(connection, vectors(1500, seed=1))
    stop = threading.Event()
    written = [1500]

    def write() -> None:
        while not stop.is_set():
            fill(writer, vectors(5, seed=written[0]), first=written[0])
            run(writer, f"DELETE FROM items WHERE id = {written[0] - 900}")
            written[0] += 5

    thread = threading.Thread(target=write)
    thread.start()
    try:
        run(connection, "CREATE INDEX CONCURRENTLY items_embedding ON items USING pagehop (embedding vector_l2_ops)")
        run(connection, "REINDEX INDEX CONCURRENTLY items_embedding")
    finally:
        stop.set()
        thread.join()
    check(connection)
    run(connection, "VACUUM items")
    assert check(connection)["nodes"] == number(connection, "SELECT count(*) FROM items")
    assert recall(connection, QUERIES) > 0.95
