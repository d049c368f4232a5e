"""An index that is created before its rows: VACUUM trains it while other sessions write."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import (
    DIM,
    QUERIES,
    RELAXED,
    Connect,
    by_index,
    create,
    everything,
    explain,
    fill,
    ids,
    number,
    only_by_index,
    recall,
    run,
    value,
    vectors,
)
from tests.test_maintenance import wait

TRAINED = "SELECT trained_rows FROM pagehop_info('items_embedding')"
PAGES = "SELECT pages FROM pagehop_info('items_embedding')"
WANTS = "SELECT wants_training FROM pagehop_info('items_embedding')"


# Rows after which VACUUM trains an index. The first statement of `grow` trains it with 200 rows,
# and a training is due at eight times as many.
GROWN = 2000


def grow(connection: psycopg.Connection, rows: Iterable[str], first: int = 0, step: int = 200) -> None:
    """Adds rows by statements of which only the first one trains the index. Then the index has too
    many rows for that when its next training is due.
    """
    rows = list(rows)
    for at in range(0, len(rows), step):
        fill(connection, rows[at : at + step], first=first + at)


@pytest.fixture
def grown(connect: Connect) -> psycopg.Connection:
    """A table of `GROWN` rows, whose index was created first."""
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    grow(connection, vectors(GROWN, seed=1))
    return connection


def cost(connection: psycopg.Connection) -> tuple[int, int]:
    """Hops and rechecks of 100 searches with fixed settings."""
    hops = rechecks = 0
    with only_by_index(connection):
        run(connection, "SET LOCAL pagehop.slack = 0.1; SET LOCAL pagehop.search_list = 100")
        for query in vectors(100, seed=55):
            run(connection, f"SELECT id FROM items ORDER BY embedding <-> '{query}' LIMIT 10")
            [(one, other)] = run(connection, "SELECT hops, rechecks FROM pagehop_last_scan()")
            assert isinstance(one, int)
            assert isinstance(other, int)
            hops, rechecks = hops + one, rechecks + other
    return hops, rechecks


def test_an_index_made_before_its_rows_is_as_good_after_vacuum(grown: psycopg.Connection) -> None:
    """Insertions train only a small index. The index then reports that it wants to be trained."""
    assert number(grown, TRAINED) == 200
    assert value(grown, WANTS) is True
    run(grown, "VACUUM items")
    assert number(grown, TRAINED) == GROWN
    assert value(grown, WANTS) is False
    assert number(grown, "SELECT nodes FROM pagehop_check('items_embedding')") == GROWN
    assert everything(grown) == list(range(GROWN))
    hops, rechecks = cost(grown)
    assert recall(grown) > 0.97
    assert number(grown, "SELECT calibrated_nodes FROM pagehop_info('items_embedding')") == GROWN
    run(grown, "REINDEX INDEX items_embedding")
    best_hops, best_rechecks = cost(grown)
    assert hops <= 1.05 * best_hops, (hops, best_hops)
    assert rechecks <= 1.2 * best_rechecks, (rechecks, best_rechecks)


def test_no_insertion_trains_and_none_fails_for_it(connect: Connect) -> None:
    """Otherwise, each statement would have to train the index once that is due, even with a short
    timeout.
    """
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    # The index is trained with 30 rows, and then with 240.
    grow(connection, vectors(1500, seed=1), step=30)
    trained = number(connection, TRAINED)
    assert value(connection, WANTS) is False
    grow(connection, vectors(2500, seed=2), first=1500)
    assert value(connection, WANTS) is True
    assert number(connection, TRAINED) == trained == 240
    # This is too short for the training with 4,000 rows that would be due here.
    run(connection, "SET statement_timeout = '100ms'")
    canceled = 0
    for at in range(20):
        # A busy machine may cancel a row now and then. A later attempt with the same row must
        # succeed.
        for _ in range(20):
            try:
                run(connection, f"INSERT INTO items (id, embedding) VALUES ({10_000 + at}, '{QUERIES[at]}')")
                break
            except errors.QueryCanceled:
                canceled += 1
        else:
            pytest.fail(f"row {at} was canceled 20 times")
    assert canceled < 20
    run(connection, "RESET statement_timeout")
    assert number(connection, TRAINED) == trained
    assert number(connection, "SELECT count(*) FROM items") == 4020


def test_rows_come_and_go_while_vacuum_trains(grown: psycopg.Connection, connect: Connect) -> None:
    vacuum, reader = connect(), connect()
    run(vacuum, "SET vacuum_cost_delay = 2; SET vacuum_cost_limit = 20")
    thread = threading.Thread(target=lambda: run(vacuum, "VACUUM items"))
    run(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ")
    with_snapshot = number(reader, "SELECT count(*) FROM items")
    thread.start()
    new, rounds = vectors(4000, seed=3), 0
    while thread.is_alive() and rounds < 400:
        fill(grown, new[rounds * 10 : rounds * 10 + 10], first=10_000 + rounds * 10)
        run(grown, f"UPDATE items SET note = 'x' WHERE id % 200 = {rounds % 200}")
        run(grown, f"UPDATE items SET embedding = '{new[rounds]}' WHERE id = {rounds}")
        run(grown, f"DELETE FROM items WHERE id = {1000 + rounds}")
        rounds += 1
    thread.join()
    assert rounds > 3
    assert GROWN - 500 < number(grown, TRAINED) < GROWN + 10 * rounds
    # The old snapshot sees the rows that were deleted later.
    run(reader, f"{RELAXED}; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
    seen = ids(reader, f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}'")
    assert sorted(seen) == list(range(with_snapshot))
    run(reader, "COMMIT")
    assert everything(grown) == ids(grown, "SELECT id FROM items ORDER BY id")
    run(grown, "VACUUM items")
    assert everything(grown) == ids(grown, "SELECT id FROM items ORDER BY id")
    run(grown, "SELECT pagehop_check('items_embedding')")
    assert recall(grown, vectors(300, seed=500)) > 0.96


def test_a_canceled_training_leaves_an_index_that_works(grown: psycopg.Connection) -> None:
    """Whenever the training is canceled, its graph is discarded, and rows use its pages."""
    before, canceled, rows = number(grown, PAGES), 0, GROWN
    for after in [10, 20, 40, 60, 90, 120, 160, 200, 300, 450]:
        run(grown, f"SET statement_timeout = {after}")
        try:
            run(grown, "VACUUM items")
        except errors.QueryCanceled:
            canceled += 1
            run(grown, "RESET statement_timeout")
            fill(grown, [QUERIES[0]], first=rows)
            rows += 1
            run(grown, "SELECT pagehop_check('items_embedding')")
            assert everything(grown) == list(range(rows))
        else:
            break
    assert canceled > 1
    run(grown, "RESET statement_timeout")
    run(grown, "VACUUM items")
    assert GROWN <= number(grown, TRAINED) <= rows
    assert everything(grown) == list(range(rows))
    # This transaction is later than the one that replaced the graph.
    fill(grown, [QUERIES[1]], first=rows)
    rows += 1
    run(grown, "VACUUM items")
    assert number(grown, "SELECT nodes FROM pagehop_check('items_embedding')") <= rows
    assert number(grown, PAGES) < (canceled + 3) * before
    # The next rows use the pages of the retired graphs.
    after = number(grown, PAGES)
    grow(grown, vectors(GROWN // 3, seed=4), first=20_000)
    assert number(grown, PAGES) == after


GRANTED = "SELECT count(*) FROM pg_locks WHERE locktype = 'page' AND granted AND pid = {}"
WAITS = "SELECT count(*) FROM pg_locks WHERE locktype = 'page' AND NOT granted AND pid = {}"


@contextlib.contextmanager
def stopped_while_it_holds_the_lock(holder: psycopg.Connection, watcher: psycopg.Connection) -> Iterator[None]:
    """Stops a session while a check gives it exclusive access to the index. It continues at the end
    of the block.
    """
    process = holder.info.backend_pid
    # A session that is stopped inside the lock manager would block the watcher.
    run(watcher, "SET statement_timeout = '10s'")
    try:
        for _ in range(100):
            thread = threading.Thread(target=run, args=(holder, "SELECT pagehop_check('items_embedding')"))
            thread.start()
            if is_stopped_with_the_lock(process, watcher, thread):
                break
            thread.join()
        else:
            pytest.fail("no check could be stopped while it held the lock")
        yield
    finally:
        os.kill(process, signal.SIGCONT)
        thread.join()


def is_stopped_with_the_lock(process: int, watcher: psycopg.Connection, thread: threading.Thread) -> bool:
    """Stops the session of `thread` while it holds the lock. Returns false if the thread ended
    before.
    """
    while thread.is_alive():
        if number(watcher, GRANTED.format(process)) == 0:
            continue
        os.kill(process, signal.SIGSTOP)
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            if number(watcher, GRANTED.format(process)) > 0:
                return True
        os.kill(process, signal.SIGCONT)
    return False


def test_a_training_that_waits_for_the_lock_can_be_canceled(grown: psycopg.Connection, connect: Connect) -> None:
    """Another session has exclusive access to the index for a long time."""
    vacuum, holder, watcher, rows = connect(), connect(), connect(), 7000
    # A check of fewer rows is too short to be stopped while it holds the lock.
    grow(grown, vectors(rows - GROWN, seed=5), first=GROWN)
    before = number(grown, PAGES)
    failed: list[psycopg.Error] = []
    # With these settings, the vacuum sleeps for seconds while it writes the pages of the new graph.
    run(vacuum, "SET vacuum_cost_delay = 40; SET vacuum_cost_limit = 100")

    def train() -> None:
        try:
            run(vacuum, "VACUUM items")
        except psycopg.Error as error:
            failed.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    # The pages are reserved when the graph has been computed.
    while number(watcher, "SELECT pg_relation_size('items_embedding')") < 1.3 * 8192 * before:
        assert thread.is_alive()
        time.sleep(0.005)
    with stopped_while_it_holds_the_lock(holder, watcher):
        wait(lambda: number(watcher, WAITS.format(vacuum.info.backend_pid)) > 0)
        run(watcher, f"SELECT pg_cancel_backend({vacuum.info.backend_pid})")
        thread.join(60)
        assert not thread.is_alive(), "the training waits for the lock"
        [error] = failed
        assert isinstance(error, errors.QueryCanceled)
        assert "due to user request" in str(error)
        # The session can be used as before.
        assert number(vacuum, "SELECT count(*) FROM items") == rows
        assert value(vacuum, "SHOW lock_timeout") == "0"
    # The graph could not be discarded. Insertions continue to add to it until the next training.
    fill(grown, [QUERIES[0]], first=rows)
    run(grown, "SELECT pagehop_check('items_embedding')")
    assert everything(grown) == list(range(rows + 1))
    assert number(grown, TRAINED) == 200
    run(vacuum, "RESET vacuum_cost_delay")
    run(vacuum, "VACUUM items")
    assert number(grown, TRAINED) == rows + 1
    fill(grown, [QUERIES[1]], first=rows + 1)
    run(vacuum, "VACUUM items")
    assert number(grown, "SELECT nodes FROM pagehop_check('items_embedding')") == rows + 2
    assert number(grown, PAGES) < 4 * before


@pytest.mark.parametrize("images", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_kill_during_a_training_loses_nothing(new_cluster: Callable[..., Cluster], *, images: bool) -> None:
    """Replay gives the same pages, also on a standby, with and without images of whole pages.
    Insertions continue in every state that the training left, and the next vacuum frees its pages.
    """
    checked = "generic,btree,heap" if images else ""
    cluster = new_cluster(
        autovacuum=False,
        fsync=False,
        full_page_writes=images,
        wal_consistency_checking=checked,
        wal_keep_size="2GB",
    )
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        grow(connection, vectors(GROWN, seed=1))
        replica = cluster.basebackup()
        replica.start()
        before = number(connection, PAGES)
    rows, kills = GROWN, 0
    # The first two trainings sleep for seconds while they write the pages of the new graph, and are
    # killed at that time. The others are killed at a random time, and one of them may finish.
    for delay_ms, after in [(100, 0), (100, 0.5), (5, 0.02), (5, 0.05), (5, 0.1), (0, 0.02)]:
        vacuum = psycopg.connect(cluster.dsn(), autocommit=True)
        run(vacuum, f"SET vacuum_cost_delay = {delay_ms}; SET vacuum_cost_limit = 100")
        with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
            thread = threading.Thread(target=expect_the_end, args=(vacuum,))
            thread.start()
            # The pages of the new graph are reserved when it has been computed.
            reserved, pages = None, number(connection, PAGES)
            while thread.is_alive() and (reserved is None or time.monotonic() < reserved + after):
                fill(connection, [QUERIES[rows % 10]], first=rows)
                rows += 1
                time.sleep(0.005)
                if reserved is None and number(connection, PAGES) > pages + before / 3:
                    reserved = time.monotonic()
            cluster.kill()
            thread.join()
        cluster.start()
        with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
            run(connection, "SELECT pagehop_check('items_embedding')")
            assert everything(connection) == list(range(rows))
            fill(connection, [QUERIES[0]], first=rows)
            rows += 1
            assert everything(connection) == list(range(rows))
            kills += number(connection, TRAINED) == 200
    assert kills > 0
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, "VACUUM items")
        assert number(connection, TRAINED) >= GROWN
        run(connection, "VACUUM items")
        run(connection, "SELECT pagehop_check('items_embedding')")
        assert everything(connection) == list(range(rows))
        cluster.wait_for_replay(replica)
        with psycopg.connect(replica.dsn(), autocommit=True) as other:
            run(other, "SELECT pagehop_check('items_embedding')")
            assert everything(other) == list(range(rows))
    replica.remove()


def expect_the_end(vacuum: psycopg.Connection) -> None:
    """Runs VACUUM until it is done or the server ends."""
    with contextlib.suppress(psycopg.OperationalError):
        run(vacuum, "VACUUM items")


@pytest.mark.parametrize(
    ("column", "index", "where"),
    [
        ("embedding vector", f"((embedding::vector({DIM})) vector_l2_ops)", "true"),
        (f"embedding vector({DIM})", f"((embedding::halfvec({DIM})) halfvec_l2_ops) WHERE id % 3 > 0", "id % 3 > 0"),
        (f"embedding vector({DIM}) STORAGE EXTERNAL", "(embedding vector_l2_ops, id)", "true"),
    ],
)
def test_an_index_of_any_kind_is_trained(connect: Connect, column: str, index: str, where: str) -> None:
    connection = connect()
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, {column}, note text)")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    run(connection, f"CREATE INDEX items_embedding ON items USING pagehop {index}")
    grow(connection, vectors(GROWN, seed=1))
    run(connection, "UPDATE items SET note = 'x' WHERE id % 10 = 0")
    run(connection, "DELETE FROM items WHERE id % 11 = 0")
    run(connection, "VACUUM items")
    rows = number(connection, f"SELECT count(*) FROM items WHERE {where}")
    assert number(connection, TRAINED) == rows
    assert number(connection, "SELECT nodes FROM pagehop_check('items_embedding')") == rows


def test_a_standby_reads_a_graph_to_its_end(new_cluster: Callable[..., Cluster]) -> None:
    """The primary uses the pages of the graph again. Replay waits for the cursor that reads them.

    Without images of pages, VACUUM freezes no row here. Freezing would make replay wait for the
    cursor's page of the table.
    """
    cluster = new_cluster(autovacuum=False, fsync=False, full_page_writes=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        grow(connection, vectors(GROWN, seed=1))
        replica = cluster.basebackup({"max_standby_streaming_delay": -1})
        replica.start()
        cluster.wait_for_replay(replica)
        with (
            psycopg.connect(replica.dsn(), autocommit=True) as other,
            psycopg.connect(replica.dsn(), autocommit=True) as watcher,
        ):
            with only_by_index(other):
                run(other, RELAXED)
                nearest = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}'"
                assert "Index Scan" in explain(other, nearest)
                run(other, f"DECLARE near CURSOR FOR {nearest}")
                seen = ids(other, "FETCH 20 FROM near")
                run(connection, "VACUUM items")
                trained = number(connection, TRAINED)
                # Each of these frees and fills pages of the old graph.
                grow(connection, vectors(1000, seed=2), first=GROWN)
                run(connection, "VACUUM items")
                waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'RecoveryConflictSnapshot'"
                looks = 0
                while number(watcher, waits) == 0:
                    looks += 1
                    assert looks < 3000, "replay did not wait for the cursor"
                    time.sleep(0.02)
                seen += ids(other, "FETCH ALL FROM near")
            assert sorted(seen) == list(range(GROWN))
            cluster.wait_for_replay(replica)
            assert everything(other) == list(range(GROWN + 1000))
            assert by_index(other, QUERIES[1]) == by_index(connection, QUERIES[1])
        assert trained == GROWN
    replica.remove()


@pytest.mark.long
def test_a_training_reads_the_table_at_the_pace_of_vacuum(connect: Connect) -> None:
    """The expression of the index says when each row is read."""
    connection = connect()
    timed = "BEGIN RAISE NOTICE '%', extract(epoch FROM clock_timestamp()); RETURN embedding; END"
    run(connection, f"CREATE FUNCTION timed(embedding vector) RETURNS vector IMMUTABLE LANGUAGE plpgsql AS $${timed}$$")
    run(connection, "CREATE TABLE items (id int, embedding vector(800) STORAGE PLAIN)")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    run(
        connection,
        "CREATE INDEX items_embedding ON items USING pagehop ((timed(embedding)::vector(800)) vector_l2_ops)",
    )
    run(connection, "SET client_min_messages = warning")
    grow(connection, vectors(1800, seed=1, dim=800))
    assert value(connection, WANTS) is True
    seconds: list[float] = []
    connection.add_notice_handler(lambda said: seconds.append(float(said.message_primary or "")))
    run(connection, "SET client_min_messages = notice; SET vacuum_cost_delay = '20ms'; SET vacuum_cost_limit = 10")
    run(connection, "VACUUM items")
    assert value(connection, WANTS) is False
    # The first time that all rows are read: a pause lasts 80 ms, and comes about every 128 rows.
    read = seconds[:1800]
    pauses = [at for at in range(1, 1800) if read[at] - read[at - 1] > 0.05]
    assert len(pauses) >= 10, pauses
