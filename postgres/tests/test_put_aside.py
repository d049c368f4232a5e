"""Builds of more rows than maintenance_work_mem holds: they put codes aside in temporary files,
which are removed after a success and after every failure.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import DIM, KINDS, Connect, everything, number, recall, run
from tests.test_cancel import assert_no_temporary_files
from tests.test_inspect import ask, check
from tests.test_maintenance import wait
from tests.test_memory import ROWS, notices, queries, scatter

# The phases of such a build in order. Phases of a partition repeat for the next one.
PHASES = [
    "scanning table",
    "surveying rows",
    "training centroids",
    "encoding rows",
    "putting rows aside",
    "partitioning rows",
    "connecting rows",
    "pruning edges",
    "refining edges",
    "merging partitions",
    "attaching unreachable rows",
    "choosing anchors",
    "writing pages",
    "calibrating: finding true neighbors",
    "calibrating: searching",
]
# `./dev test long` sets the number of kills, and tries all phases. Otherwise a cancel and the death
# of a server have four phases each.
CANCELED, DYING = (PHASES, PHASES) if "PAGEHOP_PG_KILLS" in os.environ else (PHASES[::4], PHASES[2::4])
# Least share of these phases that a test must observe; it tries twice for each. On a busy machine,
# a short phase may begin and end between two looks.
SEEN_MIN = 1 / 3
INDEX = "CREATE INDEX items_embedding ON items USING pagehop (embedding {})"
_least: dict[str, str] = {}


def least(connection: psycopg.Connection, sql: str = INDEX.format("vector_l2_ops")) -> str:
    """Sets the least maintenance_work_mem for all rows, and returns its MB. A notice of a smaller
    build names it. Equal numbers of rows and dimensions need the same.
    """
    numbers = run(connection, "SELECT count(embedding), max(vector_dims(embedding)) FROM items")
    key = f"{sql} {numbers}"
    if key not in _least:
        said = notices(connection)
        run(connection, "SET maintenance_work_mem = '1MB'; BEGIN")
        run(connection, sql)
        run(connection, "ROLLBACK")
        [_least[key]] = re.findall(r"Increase maintenance_work_mem to (\d+) MB", said.pop())
    run(connection, f"SET maintenance_work_mem = '{_least[key]}MB'")
    return _least[key]


def put_aside(connection: psycopg.Connection, sql: str) -> int:
    """Runs a statement. Returns the number of its temporary files."""
    said = notices(connection)
    run(connection, "SET log_temp_files = 0; SET client_min_messages = log")
    run(connection, sql)
    run(connection, "RESET client_min_messages; RESET log_temp_files")
    return sum("temporary file" in line for line in said)


@pytest.mark.parametrize(("operators", "kind", "operator"), [KINDS[1], pytest.param(*KINDS[5], marks=pytest.mark.long)])
def test_an_index_of_rows_put_aside_is_as_good(connect: Connect, operators: str, kind: str, operator: str) -> None:
    connection = connect()
    scatter(connection, ROWS, kind)
    sql = INDEX.format(operators)
    # Both indexes are searched with the same setting: a recall would be calibrated differently.
    run(connection, "SET pagehop.search_list = 40")
    found, pages = {}, {}
    for memory in [least(connection, sql), "256"]:
        said = notices(connection)
        run(connection, f"SET maintenance_work_mem = '{memory}MB'")
        assert (put_aside(connection, sql) > 4) == (memory != "256")
        assert not any("no longer fits" in line for line in said)
        assert_no_temporary_files(connection)
        # With 35 queries, the recall of two equally good indexes may differ by .02.
        found[memory] = recall(connection, queries(connection, apart=97), operator)
        pages[memory] = number(connection, "SELECT pg_relation_size('items_embedding')")
        report = check(connection)
        assert (report["nodes"], report["anchored"], ask(connection, "pagehop_info")["trained_rows"]) == (ROWS,) * 3
        assert everything(connection, operator) == list(range(ROWS))
        run(connection, "DROP INDEX items_embedding")
    aside, within = found.values()
    assert aside > within - 0.02, found
    assert within > 0.9, found
    aside, within = pages.values()
    assert aside < 1.02 * within, pages


def test_what_is_indexed_is_what_the_index_says(connect: Connect) -> None:
    """NULLs, equal vectors, filter columns and a condition, built concurrently and rebuilt."""
    connection = connect()
    scatter(connection, ROWS + 4000)
    run(connection, "ALTER TABLE items ADD topic int, ADD price float8")
    run(connection, "UPDATE items SET topic = id % 50, price = nullif(id % 1000, 7)")
    run(connection, "UPDATE items SET embedding = NULL WHERE id % 17 = 3")
    run(connection, "UPDATE items i SET embedding = o.embedding FROM items o WHERE i.id % 9 = 0 AND o.id = 90")
    run(connection, "DELETE FROM items WHERE id % 31 = 1")
    where = "id % 11 <> 5"
    sql = f"items_embedding ON items USING pagehop (embedding vector_l2_ops, topic, price) WHERE {where}"
    enough = least(connection, f"CREATE INDEX {sql}")
    # The table still contains dead rows, which the index does not get.
    assert put_aside(connection, f"CREATE INDEX CONCURRENTLY {sql}") > 4
    asked = [query for query in queries(connection) if query != "None"][:15]
    expected = number(connection, f"SELECT count(*) FROM items WHERE embedding IS NOT NULL AND {where}")
    for again in ["", "REINDEX INDEX items_embedding", "REINDEX INDEX CONCURRENTLY items_embedding"]:
        run(connection, f"SET maintenance_work_mem = '{enough}MB'")
        assert again == "" or put_aside(connection, again) > 4
        assert check(connection)["nodes"] == expected
        for filters in ["true", "topic = 7", "price < 20", "price IS NULL AND topic > 3"]:
            both = f"{where} AND {filters}"
            assert len(everything(connection, where=both)) == number(
                connection, f"SELECT count(*) FROM items WHERE embedding IS NOT NULL AND {both}"
            )
            assert recall(connection, asked, where=both) > 0.9
    assert_no_temporary_files(connection)


def test_rows_too_close_together_for_a_partition(connect: Connect) -> None:
    """Rows that differ in their last bits are in the same cell, which may exceed the memory. The
    error then names a sufficient setting, with which the build succeeds.
    """
    connection = connect()
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}))")
    run(connection, "SELECT setseed(0.5)")
    run(
        connection,
        "INSERT INTO items SELECT id, array_agg(1 + (d = id % 24)::int * 0.02 * random() ORDER BY d)::vector"
        f" FROM generate_series(0, {ROWS - 1}) id, generate_series(1, {DIM}) d GROUP BY id",
    )
    least(connection)
    with pytest.raises(errors.ProgramLimitExceeded, match="more than maintenance_work_mem") as caught:
        run(connection, INDEX.format("vector_l2_ops"))
    assert_no_temporary_files(connection)
    run(connection, caught.value.diag.message_hint or "")
    run(connection, INDEX.format("vector_l2_ops"))
    assert everything(connection) == list(range(ROWS))


def building(connection: psycopg.Connection, sql: str) -> tuple[threading.Thread, list[psycopg.Error]]:
    """Runs a statement beside the test. After its end, the list has its error, if it failed."""
    failed: list[psycopg.Error] = []

    def build() -> None:
        try:
            run(connection, sql)
        except psycopg.Error as error:
            failed.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    return thread, failed


def comes_to(other: psycopg.Connection, process: int, phase: str, thread: threading.Thread, then: str = "true") -> bool:
    """Waits until a build is in a phase, and evaluates `then` in the same statement. Returns false
    if the build ended before it was observed in that phase.
    """
    in_phase = f"SELECT {then} FROM pg_stat_progress_create_index WHERE pid = {process} AND phase LIKE '%: {phase}'"
    while thread.is_alive():
        if run(other, in_phase):
            return True
        time.sleep(0.0005)
    return False


def test_progress_and_a_cancel_in_every_phase(connect: Connect) -> None:
    connection, other = connect(), connect()
    scatter(connection, ROWS)
    least(connection)
    process = connection.info.backend_pid
    seen: set[str] = set()
    for phase in 2 * CANCELED:
        if phase in seen:
            continue
        run(connection, "DROP INDEX IF EXISTS items_embedding")
        thread, failed = building(connection, INDEX.format("vector_l2_ops"))
        is_asked = comes_to(other, process, phase, thread, f"pg_cancel_backend({process})")
        thread.join()
        assert_no_temporary_files(other)
        if is_asked and not failed:
            # In one of its last phases, a build may end before it checks for the request.
            assert phase in PHASES[-2:], f"{phase}: the build went on to its end"
            continue
        assert [type(error) for error in failed] == [errors.QueryCanceled] * is_asked, (phase, failed)
        if is_asked:
            seen.add(phase)
    assert len(seen) >= SEEN_MIN * len(CANCELED), seen
    run(connection, "DROP INDEX IF EXISTS items_embedding")
    run(connection, INDEX.format("vector_l2_ops"))
    assert check(connection)["nodes"] == ROWS


def test_a_server_that_dies_in_any_phase_has_no_temporary_files_when_it_is_back(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster(autovacuum=False, fsync=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        scatter(connection, ROWS)
        enough = least(connection)
    died: set[str] = set()
    for at, phase in enumerate(2 * DYING):
        if phase in died:
            continue
        with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
            run(connection, f"SET maintenance_work_mem = '{enough}MB'")
            process = connection.info.backend_pid
            thread, failed = building(connection, INDEX.format("vector_l2_ops"))
            with psycopg.connect(cluster.dsn(), autocommit=True) as other:
                if comes_to(other, process, phase, thread):
                    died.add(phase)
                    if at % 4 == 3:
                        cluster.kill()
                        cluster.start()
                    else:
                        os.kill(process, signal.SIGKILL)
                    with suppress(psycopg.OperationalError):
                        # The server ends all sessions before it recovers.
                        wait(lambda: number(other, "SELECT 1") == 0)
            thread.join()
        assert all(phase in died and isinstance(error, psycopg.OperationalError) for error in failed), failed
        with back(cluster) as connection:
            assert_no_temporary_files(connection)
            assert not list(Path(cluster.data, "base").glob("pgsql_tmp/*"))
            run(connection, "DROP INDEX IF EXISTS items_embedding")
            assert number(connection, "SELECT count(*) FROM items") == ROWS
    assert len(died) >= SEEN_MIN * len(DYING), died
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, f"SET maintenance_work_mem = '{enough}MB'")
        run(connection, INDEX.format("vector_l2_ops"))
        assert check(connection)["nodes"] == ROWS
        assert recall(connection, queries(connection)) > 0.9


def back(cluster: Cluster) -> psycopg.Connection:
    """A new connection, once the server has recovered from a killed backend."""
    for _ in range(600):
        with suppress(psycopg.OperationalError):
            connection = psycopg.connect(cluster.dsn(), autocommit=True)
            run(connection, "SELECT 1")
            return connection
        time.sleep(0.1)
    raise AssertionError("the server did not come back")


def test_more_than_temp_file_limit_is_an_error(connect: Connect) -> None:
    connection = connect()
    scatter(connection, ROWS)
    least(connection)
    sql = INDEX.format("vector_l2_ops")
    assert put_aside(connection, sql) > 4
    for limit in ["1kB", "4MB"]:
        run(connection, f"SET temp_file_limit = '{limit}'")
        with pytest.raises(errors.ConfigurationLimitExceeded, match="temp_file_limit"):
            run(connection, "REINDEX INDEX items_embedding")
        assert_no_temporary_files(connection)
        assert check(connection)["nodes"] == ROWS
    run(connection, "RESET temp_file_limit")
    run(connection, "REINDEX INDEX items_embedding")


def test_a_disk_without_room_for_temporary_files(new_cluster: Callable[..., Cluster], small_disk: Path) -> None:
    cluster = new_cluster(autovacuum=False, fsync=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        scatter(connection, ROWS)
        enough = least(connection)
        for name in ["one", "two"]:
            folder = small_disk / name
            folder.mkdir()
            os.chown(folder, small_disk.stat().st_uid, small_disk.stat().st_gid)
            run(connection, f"CREATE TABLESPACE {name} LOCATION '{folder}'")
        sql = INDEX.format("vector_l2_ops")
        # The build compares the free space with its need before it writes, in one tablespace and in
        # two on one disk.
        for spaces in ["one", "one, two"]:
            run(connection, f"SET temp_tablespaces = {spaces}; SET maintenance_work_mem = '{enough}MB'")
            assert number(connection, "SELECT count(*) FROM items") == ROWS
            with pytest.raises(errors.DiskFull, match="MiB of disk space"):
                run(connection, sql)
            assert not list(small_disk.glob("*/*/pgsql_tmp/*"))
        run(connection, "RESET temp_tablespaces")
        run(connection, sql)
        assert check(connection)["nodes"] == ROWS
        run(connection, "DROP TABLE items")
        for name in ["one", "two"]:
            run(connection, f"DROP TABLESPACE {name}")


@pytest.mark.long
@pytest.mark.parametrize(("rows", "dim"), [(24_000, 64), (6_000, 1536)])
def test_the_memory_of_a_build_is_kept(
    new_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, rows: int, dim: int
) -> None:
    """The peak of the backend's private memory. With many dimensions, most of it is the sample that
    trains the model.
    """
    # With one arena, all threads reuse freed memory. With an arena per thread, the peak would
    # depend on chance.
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    cluster = new_cluster(autovacuum=False, fsync=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        if dim == 64:
            scatter(connection, rows, dim=dim)
            enough = int(least(connection))
        else:
            run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({dim}))")
            one = f"SELECT array_agg(sin(id * (d + 0.5)) ORDER BY d)::vector FROM generate_series(1, {dim}) d"
            run(connection, f"INSERT INTO items SELECT id, ({one}) FROM generate_series(1, {rows}) id")
            # For few rows there is no notice that names the least memory.
            enough = 44
            run(connection, f"SET maintenance_work_mem = '{enough}MB'")
        process = connection.info.backend_pid
        before = private_bytes(process)
        thread, failed = building(connection, INDEX.format("vector_l2_ops"))
        peak = 0
        while thread.is_alive():
            peak = max(peak, private_bytes(process))
            time.sleep(0.002)
        assert failed == []
        assert check(connection)["nodes"] == rows
    used = (peak - before) >> 20
    # The vectors of all rows would take 6 MB more, or 35 MB.
    assert used < enough + 5, f"{used} MB of memory, maintenance_work_mem is {enough} MB"


def private_bytes(process: int) -> int:
    """Bytes of a process's memory that are neither shared nor backed by a file."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) << 10
