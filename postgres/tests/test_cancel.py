"""Statements that end early: canceled, terminated, or without space on the disk. The index remains
valid.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import Connect, create, everything, fill, ids, number, recall, run, value, vectors
from tests.test_inspect import ask, check
from tests.test_maintenance import wait
from tests.test_memory import ROWS, scatter

# A fast machine is canceled late in a phase and a slow one early. Both must be correct.
TIMEOUTS_MS = [1, 3, 10, 30, 60, 100, 150, 250, 400]


def canceled(connection: psycopg.Connection, sql: str, milliseconds: int) -> bool:
    """Whether a statement was canceled because it took longer."""
    run(connection, f"SET statement_timeout = {milliseconds}")
    try:
        run(connection, sql)
    except errors.QueryCanceled:
        return True
    finally:
        run(connection, "RESET statement_timeout")
    return False


def assert_no_temporary_files(connection: psycopg.Connection) -> None:
    assert number(connection, "SELECT count(*) FROM pg_ls_tmpdir()") == 0


@pytest.mark.parametrize("memory", ["1MB", pytest.param("256MB", marks=pytest.mark.long)])
def test_a_canceled_build_leaves_nothing(connect: Connect, memory: str) -> None:
    connection = connect()
    scatter(connection, ROWS)
    before = number(connection, "SELECT pg_database_size(current_database())")
    run(connection, f"SET maintenance_work_mem = '{memory}'")
    index = "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)"
    assert sum(canceled(connection, index, after) for after in TIMEOUTS_MS if drop(connection)) > 3
    drop(connection)
    assert_no_temporary_files(connection)
    assert number(connection, "SELECT pg_database_size(current_database())") < before + (1 << 20)
    run(connection, index)
    # A failed build does not change the existing index.
    rebuilt = sum(canceled(connection, "REINDEX INDEX items_embedding", after) for after in TIMEOUTS_MS)
    assert rebuilt > 3
    assert check(connection)["nodes"] == ROWS


def drop(connection: psycopg.Connection) -> bool:
    run(connection, "DROP INDEX IF EXISTS items_embedding")
    return True


def test_a_canceled_concurrent_build_can_be_begun_again(connect: Connect) -> None:
    connection = connect()
    scatter(connection, ROWS)
    index = "CREATE INDEX CONCURRENTLY items_embedding ON items USING pagehop (embedding vector_l2_ops)"
    # On a slow machine, the cancel may come before the index exists.
    for after in [100, 300, 1000, 3000]:
        assert canceled(connection, index, after)
        if value(connection, "SELECT to_regclass('items_embedding')") is not None:
            break
    fill(connection, vectors(10, seed=1), first=ROWS)
    run(connection, "DELETE FROM items WHERE id < 10")
    run(connection, "VACUUM items")
    run(connection, "REINDEX INDEX CONCURRENTLY items_embedding")
    assert check(connection)["nodes"] == ROWS


def terminate_in(phase: str, sql: str, connection: psycopg.Connection, other: psycopg.Connection) -> None:
    """Runs a build, and ends its session in a phase."""
    process = connection.info.backend_pid

    def build() -> None:
        with suppress(psycopg.Error):
            run(connection, sql)

    thread = threading.Thread(target=build)
    thread.start()
    in_phase = f"SELECT count(*) FROM pg_stat_progress_create_index WHERE pid = {process} AND phase LIKE '%: {phase}%'"
    # A short phase may end before it is seen.
    wait(lambda: number(other, in_phase) > 0 or not thread.is_alive())
    run(other, f"SELECT pg_terminate_backend({process}, 10000)")
    thread.join()


def test_a_session_that_is_terminated_while_it_builds(connect: Connect) -> None:
    other = connect()
    scatter(other, ROWS)
    index = "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)"
    for phase in ["scanning table", "training", "connecting", "writing", "adding rows"]:
        connection = connect()
        run(connection, "SET maintenance_work_mem = '1MB'; SET max_parallel_maintenance_workers = 4")
        terminate_in(phase, index, connection, other)
        assert_no_temporary_files(other)
        run(other, "DROP INDEX IF EXISTS items_embedding")
    run(other, index)
    assert check(other)["nodes"] == ROWS


def test_canceled_insertions_leave_an_index(connect: Connect) -> None:
    """The index is empty at first, so some of these insertions also train its model."""
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    # Which rows the calibration covers depends on the time of the cancel, so the slack is fixed.
    run(connection, "SET pagehop.slack = 0.2")
    run(connection, "CREATE TABLE source (id int, embedding vector)")
    fill(connection, vectors(6000, seed=1), table="source")
    add = "INSERT INTO items SELECT id + 10000 * {}, embedding FROM source"
    stopped = 0
    for at, after in enumerate([*TIMEOUTS_MS, 600, 900]):
        is_canceled = canceled(connection, add.format(at), after)
        stopped += is_canceled
        report = ask(connection, "pagehop_check")
        # The node of the row that was being added may not be linked yet. No query needs it.
        assert report["nodes"] - report["anchored"] <= at + 1
        if not is_canceled:
            # A fast machine needs no more attempts. The same rows again would share the nodes of
            # the first ones.
            break
    assert stopped > 5
    assert len(everything(connection)) == number(connection, "SELECT count(*) FROM items")
    run(connection, "VACUUM items")
    rows = number(connection, "SELECT count(*) FROM items")
    report = check(connection)
    assert (report["nodes"], report["dead_nodes"]) == (rows, 0)
    run(connection, "TRUNCATE source")
    fill(connection, vectors(6000, seed=2), table="source")
    run(connection, add.format(99))
    assert check(connection)["nodes"] == rows + 6000
    assert recall(connection, vectors(100, seed=5)) > 0.95
    assert len(everything(connection)) == rows + 6000


def test_a_canceled_vacuum_goes_on_next_time(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(3000, seed=1))
    run(connection, "DELETE FROM items WHERE id % 2 = 0")
    stopped = 0
    for after in TIMEOUTS_MS:
        stopped += canceled(connection, "VACUUM (INDEX_CLEANUP on) items", after)
        report = ask(connection, "pagehop_check")
        assert report["nodes"] >= 1500
        assert report["nodes"] == report["reachable"]
    assert stopped > 2
    run(connection, "VACUUM (INDEX_CLEANUP on) items")
    report = check(connection)
    assert (report["nodes"], report["dead_nodes"]) == (1500, 0)
    assert recall(connection) > 0.97


def test_a_full_disk_ends_the_statement_only(new_cluster: Callable[..., Cluster], small_disk: Path) -> None:
    cluster = new_cluster(autovacuum=False, fsync=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, f"CREATE TABLESPACE small LOCATION '{small_disk}'")
        scatter(connection, ROWS)
        index = "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops) TABLESPACE small"
        for memory in ["1MB", "256MB"]:
            run(connection, f"SET maintenance_work_mem = '{memory}'")
            with pytest.raises(errors.DiskFull):
                run(connection, index)
        # An index of fewer rows fits, until more rows are added.
        run(connection, "DELETE FROM items WHERE id >= 2000")
        run(connection, "VACUUM items")
        run(connection, index)
        with pytest.raises(errors.DiskFull):
            fill(connection, vectors(10_000, seed=1), first=100_000)
        # These include nodes of rows that were never committed.
        nodes = check(connection)["nodes"]
        assert nodes > 2000
        # The disk stays full.
        with pytest.raises(errors.DiskFull):
            fill(connection, vectors(10_000, seed=1), first=200_000)
        assert check(connection)["nodes"] == nodes
        assert len(everything(connection)) == 2000
        assert recall(connection) > 0.9
        # VACUUM frees space, but first needs one page for each few hundred nodes of the dead list.
        subprocess.run(["mount", "-o", "remount,size=6400k", small_disk], check=True)
        run(connection, "VACUUM items")
        report = check(connection)
        assert (report["nodes"], report["dead_nodes"]) == (2000, 0)
        fill(connection, vectors(400, seed=2), first=50_000)
        assert check(connection)["nodes"] == 2400
        assert len(everything(connection)) == 2400
        assert str(value(connection, "SELECT pg_relation_filepath('items_embedding')")).startswith("pg_tblspc/")
        run(connection, "DROP TABLE items")
        run(connection, "DROP TABLESPACE small")


def fill_the_disk(connection: psycopg.Connection, step: int) -> None:
    """Adds rows, `step` in a statement, until the disk is full. The rows of the last statement are
    dead.
    """
    first = number(connection, "SELECT max(id) + 1 FROM items")
    for at in range(100):
        fill(connection, vectors(step, seed=1000 * step + at), first=first + step * at)


def test_a_vacuum_without_room_loses_nothing(new_cluster: Callable[..., Cluster], small_disk: Path) -> None:
    """VACUUM needs a page for the dead list, and there is none. The next VACUUM starts from the
    beginning.
    """
    cluster = new_cluster(autovacuum=False, fsync=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, f"CREATE TABLESPACE small LOCATION '{small_disk}'")
        scatter(connection, 2000)
        index = "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops) TABLESPACE small"
        run(connection, index)
        for step in [1000, 100, 1]:
            with pytest.raises(errors.DiskFull):
                fill_the_disk(connection, step)
        run(connection, "DELETE FROM items WHERE id < 500")
        left = ids(connection, "SELECT id FROM items ORDER BY id")
        nodes = check(connection)["nodes"]
        for _ in range(2):
            with pytest.raises(errors.DiskFull):
                run(connection, "VACUUM (INDEX_CLEANUP on) items")
            assert check(connection)["nodes"] == nodes
            assert everything(connection) == left
        # The index is not calibrated for the added rows.
        assert recall(connection) > 0.8
        subprocess.run(["mount", "-o", "remount,size=6400k", small_disk], check=True)
        run(connection, "VACUUM (INDEX_CLEANUP on) items")
        assert recall(connection) > 0.95
        report = check(connection)
        assert (report["nodes"], report["dead_nodes"]) == (len(left), 0)
        assert everything(connection) == left
        fill(connection, vectors(400, seed=2), first=200_000)
        assert len(everything(connection)) == len(left) + 400
        run(connection, "DROP TABLE items")
        run(connection, "DROP TABLESPACE small")


def test_no_room_for_temporary_files(new_cluster: Callable[..., Cluster], small_disk: Path) -> None:
    cluster = new_cluster(autovacuum=False, fsync=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, f"CREATE TABLESPACE small LOCATION '{small_disk}'")
        # The rows take 7 MB.
        scatter(connection, 1800, dim=1024)
        run(connection, "SET maintenance_work_mem = '1MB'; SET temp_tablespaces = small")
        index = "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)"
        with pytest.raises(errors.DiskFull):
            run(connection, index)
        run(connection, "RESET temp_tablespaces")
        run(connection, index)
        assert check(connection)["nodes"] == 1800
        run(connection, "DROP TABLE items")
        run(connection, "DROP TABLESPACE small")


HEADER_BYTES = 24


def lost_pages(connection: psycopg.Connection, cluster: Cluster) -> int:
    """The number of pages of the index with a header and nothing else: no step has used them."""
    run(connection, "CHECKPOINT")
    file = cluster.data / str(value(connection, "SELECT pg_relation_filepath('items_embedding')"))
    content = file.read_bytes()
    pages = [content[at : at + 8192] for at in range(0, len(content), 8192)]
    return sum(any(page[:HEADER_BYTES]) and not any(page[HEADER_BYTES:]) for page in pages)


def test_vacuum_frees_pages_of_failed_insertions(new_cluster: Callable[..., Cluster], small_disk: Path) -> None:
    """The disk repeatedly has space for one page more. A row takes this page, and fails because its
    postings need another one.
    """
    cluster, dim = new_cluster(autovacuum=False, fsync=False), 1000
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, f"CREATE TABLESPACE small LOCATION '{small_disk}'")
        run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({dim}), a int, b int, c int)")
        index = "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, a, b, c)"
        run(connection, f"{index} TABLESPACE small")
        rows = vectors(1000, seed=1, dim=dim)

        def insert(row: int) -> bool:
            """Adds a row. Returns whether there was space for it."""
            columns = ", ".join(str(row * by % 1009) for by in (1, 331, 757))
            try:
                run(connection, f"INSERT INTO items VALUES ({row}, '{rows[row]}', {columns})")
            except errors.DiskFull:
                return False
            return True

        row, failures = 0, 0
        size = 3 << 20
        while (lost := lost_pages(connection, cluster) if failures % 10 == 0 else 0) < 3:
            assert failures < 200, "no failed insertion left a page"
            size += 8192
            subprocess.run(["mount", "-o", f"remount,size={size}", small_disk], check=True)
            while insert(row):
                row += 1
            failures += 1
        # VACUUM needs a page for the dead list.
        subprocess.run(["mount", "-o", f"remount,size={size + (64 << 10)}", small_disk], check=True)
        before = ask(connection, "pagehop_check")
        run(connection, "VACUUM (INDEX_CLEANUP on) items")
        assert lost_pages(connection, cluster) == 0
        report = check(connection)
        assert report["nodes"] == row
        assert report["free_slots"] >= before["free_slots"] + lost
        assert report["pages"] <= before["pages"] + 1
        run(connection, "DROP TABLE items")
        run(connection, "DROP TABLESPACE small")
