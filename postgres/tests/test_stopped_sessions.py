"""Sessions that are canceled or terminated while others change the index, and clients that insert
one vector.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

import psycopg
from psycopg import errors

from devserver import Cluster
from tests.items import QUERIES, by_index, everything, ids, run
from tests.test_concurrency import Crowd, Reader, Step, Writer, assert_sound, vacuum
from tests.test_inspect import check

Stopped = Counter[str]
"""How often statements ended early, by kind."""
KINDS = ["writer canceled", "writer terminated", "vacuum canceled", "vacuum terminated"]
STOPS = 40
"""Statements of each kind that are stopped at least."""
SECONDS_MAX = 300


def stoppable(step: Step, kind: str, stopped: Stopped) -> Step:
    """The same step, which others may cancel or terminate."""

    def tolerant(connection: psycopg.Connection) -> None:
        try:
            step(connection)
        except errors.QueryCanceled:
            stopped[f"{kind} canceled"] += 1
        except errors.AdminShutdown:
            stopped[f"{kind} terminated"] += 1
            raise

    return tolerant


def stop_some(seed: int) -> Step:
    """Cancels or terminates a session that changes the table, at any moment of its statement."""
    source = random.Random(seed)

    def step(connection: psycopg.Connection) -> None:
        what = source.choice(["VACUUM%", "INSERT%", "UPDATE%"])
        act = source.choice(["pg_cancel_backend", "pg_terminate_backend"])
        run(
            connection,
            f"""SELECT {act}(pid) FROM pg_stat_activity
            WHERE state = 'active' AND query LIKE '{what}' ORDER BY random() LIMIT 1""",
        )
        connection.execute(f"SELECT pg_sleep({source.random() * 0.02})")

    return step


def test_sessions_are_canceled_and_terminated_while_others_write(busy_cluster: Cluster) -> None:
    writers, reader, stopped = [Writer(number) for number in range(1, 9)], Reader(1), Stopped()
    steps = [stoppable(writer.step, "writer", stopped) for writer in writers]
    crowd, late = Crowd(busy_cluster, may_crash=True), time.monotonic() + SECONDS_MAX
    with crowd.beside([reader.step, stop_some(1), stoppable(vacuum, "vacuum", stopped), *steps]):
        while min(stopped[kind] for kind in KINDS) < STOPS and not crowd.failures:
            assert time.monotonic() < late, stopped
            time.sleep(0.05)
    assert "reinitializing" not in busy_cluster.log_text(), "the server went on"
    with psycopg.connect(busy_cluster.dsn(), autocommit=True) as connection:
        # Nodes of rows that were being added may not be linked yet: their rows are dead.
        run(connection, "VACUUM (INDEX_CLEANUP on) items")
    assert_sound(busy_cluster, writers)


def same_vector(number: int, each: int) -> Callable[[psycopg.Connection], None]:
    """Inserts a row of the first query's vector, and now and then takes back another."""
    unused = iter(range(each * number, each * (number + 1)))

    def step(connection: psycopg.Connection) -> None:
        row = next(unused)
        run(connection, f"INSERT INTO items (id, embedding) VALUES ({row}, '{QUERIES[0]}')")
        if row % 4 == 3:
            run(connection, f"DELETE FROM items WHERE id = {row - 1}")

    return step


def test_many_clients_insert_one_vector(busy_cluster: Cluster) -> None:
    clients, each = 8, 100
    crowd = Crowd(busy_cluster)
    with crowd.beside([vacuum]):
        for thread in crowd.take([same_vector(number, each) for number in range(clients)], each):
            thread.join()
    crowd.raise_failures()
    left = [row for row in range(clients * each) if row % 4 != 2]
    with psycopg.connect(busy_cluster.dsn(), autocommit=True) as connection:
        assert everything(connection) == left
        run(connection, "VACUUM (INDEX_CLEANUP on) items")
        found = check(connection)
        # A node holds up to three rows of one vector.
        assert len(left) // 3 <= found["nodes"] <= len(left), found
        assert found["dead_nodes"] == 0, found
        assert len(by_index(connection, QUERIES[0], 30)) == 30
        assert ids(connection, "SELECT id FROM items ORDER BY id") == left
