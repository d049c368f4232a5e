"""A training and what goes on beside it: bad rows of others, old snapshots of a standby, and ids of
transactions that run out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg
from psycopg import errors

from devserver import Cluster
from tests.items import DIM, QUERIES, RELAXED, Connect, create, ids, number, only_by_index, run, value, vectors
from tests.test_maintenance import wait
from tests.test_training import GROWN, TRAINED, WAITS, WANTS, grow, stopped_while_it_holds_the_lock

# autovacuum_freeze_max_age is at least this.
TRANSACTIONS = 100_000


def test_a_row_of_another_session_that_the_index_will_refuse_is_not_read(connect: Connect) -> None:
    """Its insertion waits before it comes to the index, and the row is in the table."""
    connection, writer, watcher = connect(), connect(), connect()
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), tags int[])")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    lock = "PERFORM pg_advisory_xact_lock_shared(7) WHERE $1 < 0; RETURN $1;"
    run(connection, f"CREATE FUNCTION waits(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN {lock} END$$")
    # Rows come into this index first.
    run(connection, "CREATE INDEX ON items (waits(id))")
    # The function runs a statement, so rows come into the other index one by one. They would train
    # it with 8, 64 and 512 rows, so it is built over the first 200.
    grow(connection, vectors(GROWN, seed=1)[:200])
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, tags)")
    grow(connection, vectors(GROWN, seed=1)[200:], first=200)
    assert value(connection, WANTS) is True
    failed: list[psycopg.Error] = []

    def insert() -> None:
        try:
            row = f"SELECT -1, '{QUERIES[0]}', array_agg(tag) FROM generate_series(1, 600) tag"
            run(writer, f"INSERT INTO items {row}")
        except psycopg.Error as error:
            failed.append(error)

    run(watcher, "SELECT pg_advisory_lock(7)")
    thread = threading.Thread(target=insert)
    thread.start()
    try:
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait(lambda: number(watcher, waits) > 0)
        run(connection, "VACUUM items")
        assert number(connection, TRAINED) == GROWN
    finally:
        run(watcher, "SELECT pg_advisory_unlock(7)")
        thread.join()
    [error] = failed
    assert isinstance(error, errors.ProgramLimitExceeded)


def test_a_row_that_a_snapshot_of_a_standby_sees_stays(new_cluster: Callable[..., Cluster]) -> None:
    """The table is read without rows that no snapshot of the primary sees. Replay waits for those
    who see them before it comes to the new graph.
    """
    # A check of fewer rows is too short to be stopped while it holds the lock.
    cluster, rows = new_cluster(autovacuum=False, fsync=False), 7000
    with (
        psycopg.connect(cluster.dsn(), autocommit=True) as connection,
        psycopg.connect(cluster.dsn(), autocommit=True) as vacuum,
        psycopg.connect(cluster.dsn(), autocommit=True) as holder,
        psycopg.connect(cluster.dsn(), autocommit=True) as keeper,
    ):
        create(connection)
        grow(connection, vectors(rows, seed=1))
        run(connection, "VACUUM (FREEZE, INDEX_CLEANUP off) items")
        replica = cluster.basebackup({"max_standby_streaming_delay": -1})
        replica.start()
        cluster.wait_for_replay(replica)
        with (
            psycopg.connect(replica.dsn(), autocommit=True) as other,
            psycopg.connect(replica.dsn(), autocommit=True) as watcher,
        ):
            run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ")
            assert number(other, "SELECT count(*) FROM items") == rows
            run(keeper, "BEGIN ISOLATION LEVEL REPEATABLE READ")
            assert number(keeper, "SELECT count(*) FROM items") == rows
            run(connection, "DELETE FROM items WHERE id = 77")
            thread = threading.Thread(target=run, args=(vacuum, "VACUUM items"))
            with stopped_while_it_holds_the_lock(holder, connection):
                # It leaves the row where it is, and then wants to change the index.
                thread.start()
                wait(lambda: number(connection, WAITS.format(vacuum.info.backend_pid)) > 0)
                run(keeper, "COMMIT")
            thread.join()
            assert number(connection, TRAINED) == rows - 1
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'RecoveryConflictSnapshot'"
            late = time.monotonic() + 60
            while number(watcher, waits) == 0 and number(watcher, TRAINED) < rows - 1:
                assert time.monotonic() < late, "replay does not go on"
                time.sleep(0.02)
            run(other, f"{RELAXED}; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
            seen = ids(other, f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}'")
            assert sorted(seen) == list(range(rows))
            run(other, "COMMIT")
            cluster.wait_for_replay(replica)
            assert number(watcher, TRAINED) == rows - 1
            with only_by_index(other):
                run(other, RELAXED)
                assert len(ids(other, f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}'")) == rows - 1
    replica.remove()


def test_a_vacuum_against_wraparound_does_not_train(new_cluster: Callable[..., Cluster]) -> None:
    """While one trains, no id of a transaction can be given up."""
    cluster = new_cluster(
        fsync=False, autovacuum_naptime=1, autovacuum_freeze_max_age=TRANSACTIONS, log_autovacuum_min_duration=0
    )
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
        grow(connection, vectors(GROWN, seed=1))
        trained = number(connection, TRAINED)
        run(connection, "CREATE TABLE used (of int) WITH (autovacuum_enabled = off)")
        one = "BEGIN INSERT INTO used VALUES (1); EXCEPTION WHEN OTHERS THEN RAISE; END"
        for _ in range(11):
            run(connection, f"DO $$BEGIN FOR at IN 1..{TRANSACTIONS // 10} LOOP {one}; END LOOP; END$$")
        age = "SELECT age(relfrozenxid) FROM pg_class WHERE relname = 'items'"
        wait(lambda: number(connection, age) < TRANSACTIONS)
        # The server writes this line after the new age of the table can be seen.
        wait(lambda: "to prevent wraparound" in cluster.log_text())
        assert number(connection, TRAINED) == trained
        assert value(connection, WANTS) is True
        run(connection, "VACUUM items")
        assert number(connection, TRAINED) == GROWN
