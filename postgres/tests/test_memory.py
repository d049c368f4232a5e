"""Builds and scans with little memory: any maintenance_work_mem gives an equally good index, only
later.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import DIM, KINDS, Connect, create, everything, fill, ids, number, recall, run, vectors
from tests.test_inspect import ask, check

# More rows than the 16,384 that are always connected at once. With the least memory, the codes of
# the others are put aside.
ROWS = 17_000
AT_ONCE = 16_384


def notices(connection: psycopg.Connection) -> list[str]:
    """A list to which the notices of the connection are added."""
    said: list[str] = []
    connection.add_notice_handler(
        lambda notice: said.append(f"{notice.message_primary}\n{notice.message_detail}\n{notice.message_hint}")
    )
    return said


def scatter(connection: psycopg.Connection, rows: int, kind: str = "vector", dim: int = DIM) -> None:
    """Creates a table without an index. Its vectors lie around centers, in the order of ids."""
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding {kind}({dim}), note text)")
    run(connection, "SELECT setseed(0.5)")
    # The center of a row follows from its id: it moves along a curve through the table.
    run(
        connection,
        "INSERT INTO items SELECT id,"
        f" array_agg(sin(id / ({rows} / 12) * 7 + d * 3) + random_normal(0, 0.4) ORDER BY d)::{kind}"
        f" FROM generate_series(0, {rows - 1}) id, generate_series(1, {dim}) d GROUP BY id ORDER BY id",
    )


def queries(connection: psycopg.Connection, apart: int = 701) -> list[str]:
    """Vectors of the table, one of every `apart`."""
    rows = run(connection, f"SELECT embedding FROM items WHERE id % {apart} = 3 ORDER BY id")
    return [str(row[0]) for row in rows]


def build(connection: psycopg.Connection, operators: str = "vector_l2_ops") -> None:
    run(connection, f"CREATE INDEX items_embedding ON items USING pagehop (embedding {operators})")


@pytest.mark.parametrize(("operators", "kind", "operator"), [KINDS[0], pytest.param(*KINDS[5], marks=pytest.mark.long)])
def test_an_index_is_as_good_when_memory_is_not_enough(
    connect: Connect, operators: str, kind: str, operator: str
) -> None:
    connection = connect()
    said = notices(connection)
    scatter(connection, ROWS, kind)
    found = {}
    for memory in ["1MB", "256MB"]:
        run(connection, f"SET maintenance_work_mem = '{memory}'")
        build(connection, operators)
        found[memory] = recall(connection, queries(connection), operator)
        report, info = check(connection), ask(connection, "pagehop_info")
        assert report["nodes"] == ROWS
        assert info["trained_rows"] in ([ROWS] if memory == "256MB" else [AT_ONCE, AT_ONCE + 1])
        assert everything(connection, operator) == list(range(ROWS))
        if memory == "1MB":
            run(connection, "DROP INDEX items_embedding")
    assert min(found.values()) > 0.9, found
    assert found["1MB"] > found["256MB"] - 0.02, found
    [notice] = said
    assert f'index "items_embedding" no longer fits into maintenance_work_mem after {AT_ONCE} of {ROWS} rows' in notice
    assert "significantly more time" in notice


def test_the_memory_that_is_asked_for_is_enough(connect: Connect) -> None:
    connection = connect()
    said = notices(connection)
    scatter(connection, ROWS)
    run(connection, "SET maintenance_work_mem = '1MB'")
    build(connection)
    [enough] = re.findall(r"Increase maintenance_work_mem to (\d+) MB to speed up builds", said.pop())
    for memory, is_enough in [(int(enough) - 1, False), (int(enough), True)]:
        run(connection, f"SET maintenance_work_mem = '{memory}MB'")
        run(connection, "REINDEX INDEX items_embedding")
        assert (said == []) == is_enough
        said.clear()
        assert check(connection)["nodes"] == ROWS
    assert ask(connection, "pagehop_info")["trained_rows"] == ROWS


def test_a_long_row_fits_wherever_it_is(connect: Connect) -> None:
    """Under the inner product, a row may be longer than the rows that the graph is built over, here
    up to 200 times as long as most.
    """
    connection = connect()
    run(connection, "SET maintenance_work_mem = '1MB'")
    scatter(connection, ROWS)
    for id_ in [1, 7777, ROWS - 1]:
        vector = f"array_fill({1 + id_ / 100}::real, '{{{DIM}}}')::vector"
        run(connection, f"UPDATE items SET embedding = {vector} WHERE id = {id_}")
    build(connection, "vector_ip_ops")
    assert check(connection)["nodes"] == ROWS
    assert ask(connection, "pagehop_info")["trained_rows"] == AT_ONCE
    assert recall(connection, queries(connection), "<#>") > 0.9


def test_equal_vectors_share_nodes(connect: Connect) -> None:
    connection = connect()
    run(connection, "SET maintenance_work_mem = '1MB'")
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}))")
    half = ",".join(["1"] * (DIM - 1))
    run(
        connection,
        f"INSERT INTO items SELECT id, ('[' || id % 50 || ',{half}]')::vector FROM generate_series(1, {ROWS}) id",
    )
    build(connection)
    report = check(connection)
    # Among the rows that were added one by one, equal vectors share nodes.
    assert AT_ONCE <= report["nodes"] < ROWS
    assert everything(connection) == list(range(1, ROWS + 1))


def test_rows_in_files_are_read_when_they_all_fit_the_graph(connect: Connect) -> None:
    """With 1,024 dimensions, the vectors do not fit in memory beside the graph, and are in
    temporary files.
    """
    connection = connect()
    said = notices(connection)
    scatter(connection, 2000, dim=1024)
    run(connection, "SET maintenance_work_mem = '30MB'; SET log_temp_files = 0; SET client_min_messages = log")
    build(connection)
    assert sum("temporary file" in line for line in said) == 2, said
    run(connection, "RESET client_min_messages")
    assert check(connection)["nodes"] == 2000
    assert recall(connection, queries(connection)) > 0.95
    run(connection, "SET temp_file_limit = '1MB'")
    with pytest.raises(errors.ConfigurationLimitExceeded, match="temp_file_limit"):
        run(connection, "REINDEX INDEX items_embedding")
    assert check(connection)["nodes"] == 2000


@contextmanager
def processes_limited_to(address_space: int) -> Iterator[None]:
    """Limits the address space of processes that start in the block, as on a system without
    overcommit.
    """
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (address_space, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def limited(cluster: Cluster, used_kib: int, room: int) -> Iterator[psycopg.Connection]:
    """A session of a server that was started again, with `room` MB more than `used_kib`."""
    cluster.stop()
    with processes_limited_to(used_kib * 1024 + (room << 20)):
        cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        yield connection


def address_space_kib(connection: psycopg.Connection) -> int:
    """The address space of the session's process."""
    status = Path(f"/proc/{connection.info.backend_pid}/status").read_text()
    [used] = re.findall(r"VmSize:\s*(\d+) kB", status)
    return int(used)


def fresh_address_space_kib(cluster: Cluster) -> int:
    """The address space of a new session that has loaded the extension."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, "LOAD 'pagehop'")
        return address_space_kib(connection)


def test_memory_that_the_system_does_not_give_is_an_error(new_cluster: Callable[..., Cluster]) -> None:
    """The statement fails. An allocation that fails in Rust itself would end the server."""
    cluster = new_cluster(autovacuum=False, fsync=False, maintenance_work_mem="1GB", max_parallel_maintenance_workers=0)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        scatter(connection, 4000, dim=500)
    used = fresh_address_space_kib(cluster)
    # 6 MB are too little for the rows. 16 MB hold the rows, which take 8 MB, but not the graph.
    for room in [6, 16]:
        with limited(cluster, used, room) as connection:
            with pytest.raises(errors.OutOfMemory) as caught:
                build(connection)
            assert "Lower maintenance_work_mem" in (caught.value.diag.message_hint or ""), caught.value.diag
            assert number(connection, "SELECT count(*) FROM items") == 4000
    cluster.restart()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        build(connection)
        assert check(connection)["nodes"] == 4000


SCANS = {
    "a walk": ("", "true"),
    "a walk with a limit of its own": ("SET pagehop.scan_mem_multiplier = 1000;", "true"),
    "passes over the pages": ("SET work_mem = '256kB';", "true"),
    "a walk for some rows": ("", "part < 20"),
    "postings": ("", "part < 2"),
}


def test_memory_that_a_scan_does_not_get_is_an_error(new_cluster: Callable[..., Cluster]) -> None:
    """The statement fails: a scan may take as much as `work_mem`, and the system may have less."""
    cluster, rows = new_cluster(autovacuum=False, fsync=False, work_mem="2GB"), 24_000

    def nearest(connection: psycopg.Connection, query: str, setting: str, where: str) -> str:
        """A query for all rows, after the session has run the same query for ten rows."""
        run(connection, f"SET pagehop.scan_order = relaxed_order; {setting}")
        run(connection, "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off")
        ordered = f"SELECT id FROM items WHERE {where} ORDER BY embedding <-> '{query}'"
        assert len(ids(connection, f"{ordered} LIMIT 10")) == 10
        # With OFFSET 0 and count, neither the executor nor the client stores rows.
        return f"SELECT count(*) FROM ({ordered} OFFSET 0) found"

    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        scatter(connection, rows)
        run(connection, "ALTER TABLE items ADD part int GENERATED ALWAYS AS (id % 23) STORED")
        run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, part)")
        run(connection, "VACUUM ANALYZE items")
        [query] = queries(connection, rows)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        nearest(connection, query, "", "true")
        used = address_space_kib(connection)
    refused: dict[str, str | None] = {}
    for room in [256 << 10, 1 << 20, 2 << 20]:
        cluster.stop()
        with processes_limited_to(used * 1024 + room):
            cluster.start()
        with psycopg.connect(cluster.dsn(), autocommit=True) as other:
            for scan, (setting, where) in SCANS.items():
                with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
                    every = nearest(connection, query, setting, where)
                    try:
                        found = number(connection, every)
                    except errors.OutOfMemory as error:
                        refused[scan] = error.diag.message_hint
                    else:
                        assert found == number(other, f"SELECT count(*) FROM items WHERE {where}"), scan
                    nearest(connection, query, setting, where)
    assert refused.keys() == SCANS.keys(), "a scan was never refused memory"
    assert all("work_mem" in str(hint) for hint in refused.values()), refused


def test_a_vacuum_goes_on_without_memory_for_a_training(new_cluster: Callable[..., Cluster]) -> None:
    """If it failed, the table would keep its dead rows and old transaction ids."""
    cluster, rows, dim = new_cluster(autovacuum=False, fsync=False, maintenance_work_mem="1GB"), 2100, 500
    trained = "SELECT trained_rows FROM pagehop_info('items_embedding')"
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        scatter(connection, rows, dim=dim)
        run(connection, "ALTER TABLE items RENAME TO source")
        create(connection, dim=dim)
        for first in range(0, rows, 100):
            run(connection, f"INSERT INTO items SELECT * FROM source WHERE id BETWEEN {first} AND {first + 99}")
        before = number(connection, trained)
    used = fresh_address_space_kib(cluster)

    def is_refused(said: list[str]) -> bool:
        return any("the system does not give" in one and "to train it again" in one for one in said)

    # The first rows of a training need more. 4 MB are little more than the calibration asks for,
    # which comes after it.
    for room in [2, 4]:
        with limited(cluster, used, room) as connection:
            said = notices(connection)
            run(connection, "VACUUM items")
            assert is_refused(said), (room, said)
            assert number(connection, trained) == before
    refused, last, deleted = 0, before, 0
    # 4 MB are too little for the rows. The others hold the rows, which take 4 MB, but not the
    # graph.
    for at, room in enumerate([4, 6, 10, 14]):
        with limited(cluster, used, room) as connection:
            said = notices(connection)
            delete(connection, f"id = {at}")
            run(connection, "VACUUM (INDEX_CLEANUP on) items")
            assert dead_rows(connection) == 0
            deleted, last = deleted + 1 if number(connection, trained) == last else 0, number(connection, trained)
            assert ask(connection, "pagehop_info")["deleted_rows"] == deleted, "a training counts from 0"
            if number(connection, trained) == before:
                refused += 1
                assert is_refused(said), said
            assert number(connection, "SELECT count(*) FROM items") == rows - 1 - at
    assert refused > 1
    cluster.restart()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, "VACUUM items")
        assert number(connection, trained) == rows - 4
        assert check(connection)["nodes"] == rows - 4


def delete(connection: psycopg.Connection, where: str) -> None:
    """Deletes rows, and has them counted before the next statement."""
    run(connection, f"DELETE FROM items WHERE {where}")
    run(connection, "SELECT pg_stat_force_next_flush()")
    assert dead_rows(connection) > 0


def dead_rows(connection: psycopg.Connection) -> int:
    return number(connection, "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'items'")


def test_a_calibration_stays_within_maintenance_work_mem(new_cluster: Callable[..., Cluster]) -> None:
    """It takes fewer of the rows as queries. With no room for the fewest, or if the system has less
    memory, VACUUM goes on without it.
    """
    cluster = new_cluster(autovacuum=False, fsync=False, max_parallel_maintenance_workers=0)
    rows, dim = 3000, 384
    calibrated = "SELECT calibrated_nodes FROM pagehop_info('items_embedding')"
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        scatter(connection, rows, dim=dim)
        build(connection)
        by_all = run(connection, "SELECT * FROM pagehop_calibration('items_embedding')")
        run(connection, "SET maintenance_work_mem = '1MB'")
        by_some = run(connection, "SELECT * FROM pagehop_calibrate('items_embedding')")
        assert by_some != by_all
        assert recall(connection, queries(connection)) > 0.95
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        assert ask(connection, "pagehop_info")["nodes"] == rows
        used = address_space_kib(connection)
    cluster.stop()
    with processes_limited_to(used * 1024 + (3 << 20)):
        cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        delete(connection, "id % 4 = 0")
        run(connection, "SET maintenance_work_mem = '64MB'")
        run(connection, "VACUUM items")
        assert '"items_embedding" was not calibrated: the system does not give' in cluster.log_text()
        assert (number(connection, calibrated), dead_rows(connection)) == (rows, 0)
        run(connection, "SET maintenance_work_mem = '1MB'")
        run(connection, "VACUUM (INDEX_CLEANUP on) items")
        assert number(connection, calibrated) == rows * 3 // 4
    cluster.restart()
    if cluster.server.major < 18:
        return
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, "SET maintenance_work_mem = '64kB'")
        delete(connection, "id % 4 = 1")
        run(connection, "VACUUM items")
        assert '"items_embedding" was not calibrated: that takes' in cluster.log_text()
        assert dead_rows(connection) == 0
        with pytest.raises(errors.ProgramLimitExceeded, match="calibrating by rows needs 1 MB, more than maintenance"):
            run(connection, "SELECT pagehop_calibrate('items_embedding')")


def test_an_empty_table_and_a_single_row(connect: Connect) -> None:
    connection = connect()
    run(
        connection,
        f"SET maintenance_work_mem = '64kB'; CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}))",
    )
    build(connection)
    assert check(connection)["nodes"] == 0
    fill(connection, vectors(1, seed=1))
    run(connection, "REINDEX INDEX items_embedding")
    assert check(connection)["nodes"] == 1


def test_a_crash_after_a_build_in_little_memory_loses_nothing(new_cluster: Callable[..., Cluster]) -> None:
    """The build does not log rows that it adds one by one. It logs the whole index at its end."""
    cluster = new_cluster(autovacuum=False, fsync=False, wal_consistency_checking="all")
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        scatter(connection, ROWS)
        replica = cluster.basebackup()
        replica.start()
        run(connection, "SET maintenance_work_mem = '1MB'")
        build(connection)
        fill(connection, vectors(50, seed=1), first=ROWS)
        cluster.wait_for_replay(replica)
        with psycopg.connect(replica.dsn(), autocommit=True) as other:
            assert check(other) == check(connection)
    cluster.kill()
    cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        assert check(connection)["nodes"] == ROWS + 50
        fill(connection, vectors(50, seed=2), first=ROWS + 50)
        assert check(connection)["nodes"] == ROWS + 100
    replica.remove()


def test_a_vacuum_without_memory_for_an_audit_goes_on_without_one(new_cluster: Callable[..., Cluster]) -> None:
    """The least that PostgreSQL 18 lets maintenance have is less than twelve queries take."""
    cluster = new_cluster(autovacuum=False, fsync=False)
    if cluster.server.major < 18:
        pytest.skip("PostgreSQL 17 gives maintenance at least 1 MB")
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        scatter(connection, 1200, dim=64)
        build(connection)
        run(connection, "DELETE FROM items WHERE id % 8 = 0; SET maintenance_work_mem = '64kB'")
        run(connection, "VACUUM items")
        assert check(connection)["nodes"] == 1050
        said = 'index "items_embedding" was not audited: that takes 74 kB, more than maintenance_work_mem'
        assert said in cluster.log_text()
        assert ask(connection, "pagehop_info")["audited_recall"] is None
        run(connection, "RESET maintenance_work_mem")
        run(connection, "VACUUM (INDEX_CLEANUP on) items")
        assert ask(connection, "pagehop_info")["audited_recall"] is not None
