"""Tables whose rows come and go, with VACUUM in between: pages of the index that become empty are
used again, so it does not grow.
"""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.items import DIM, RELAXED, Connect, by_index, create, fill, number, run, vectors
from tests.test_inspect import check

SIZE = "SELECT pg_relation_size('items_embedding') / 8192"
ROWS = 1200


def with_time(connection: psycopg.Connection) -> None:
    """A table of rows whose times grow with their ids, and an index with that column."""
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), at int8, note text)")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(ROWS, seed=1))
    run(connection, "UPDATE items SET at = id")
    run(connection, "VACUUM items")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, at)")


def test_an_index_with_a_column_of_times_of_updates_does_not_grow(connect: Connect) -> None:
    connection = connect()
    with_time(connection)
    run(connection, f"CREATE SEQUENCE times START {ROWS}")
    sizes = []
    for turn in range(16):
        run(connection, f"UPDATE items SET at = nextval('times') WHERE id % 4 = {turn % 4}")
        run(connection, "VACUUM items")
        sizes.append(number(connection, SIZE))
    assert sizes[-1] <= sizes[7] * 1.03, sizes
    check(connection)
    newest = number(connection, "SELECT max(at) FROM items") - ROWS // 4
    with connection.transaction():
        run(connection, RELAXED)
        found = by_index(connection, vectors(1, seed=5)[0], ROWS, where=f"at > {newest}")
    assert sorted(found) == [row for row in range(ROWS) if row % 4 == 3]


@pytest.mark.long
def test_an_index_of_rows_that_are_kept_for_a_time_does_not_grow(connect: Connect) -> None:
    connection = connect()
    with_time(connection)
    sizes, rows = [], vectors(ROWS * 5, seed=2)
    for turn in range(16):
        first = ROWS + turn * 300
        run(connection, f"DELETE FROM items WHERE id < {first + 300 - ROWS}")
        fill(connection, rows[first - ROWS : first - ROWS + 300], first=first)
        run(connection, f"UPDATE items SET at = id WHERE id >= {first}")
        run(connection, "VACUUM items")
        sizes.append(number(connection, SIZE))
    assert sizes[-1] <= sizes[7] * 1.03, sizes
    check(connection)
    last = ROWS + 16 * 300
    with connection.transaction():
        run(connection, RELAXED)
        found = by_index(connection, vectors(1, seed=5)[0], ROWS, where=f"at >= {last - 100}")
    assert sorted(found) == list(range(last - 100, last))


def test_updates_of_another_column_use_the_same_pages(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "CREATE INDEX ON items (note)")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(1500, seed=1))
    sizes = []
    for version in range(12):
        run(connection, f"UPDATE items SET note = 'version {version}'")
        run(connection, "VACUUM items")
        sizes.append(number(connection, SIZE))
    assert sizes[-1] == sizes[1], sizes
    check(connection)


def test_searches_find_all_rows_while_leaves_are_merged(connect: Connect) -> None:
    """A vacuum empties most leaves, and insertions use their pages again."""
    connection, other, vacuum = connect(), connect(), connect()
    with_time(connection)
    stays = [row for row in range(ROWS) if row % 30 == 0]
    stop = threading.Event()
    failed: list[Exception] = []

    def churn() -> None:
        try:
            for turn in range(6):
                first, rows = 10_000 + turn * 1000, vectors(400, seed=20 + turn)
                fill(other, rows, first=first)
                run(other, f"UPDATE items SET at = id % {ROWS} WHERE id >= {first}")
                run(other, f"DELETE FROM items WHERE id >= {first} OR id < {ROWS} AND id % 30 > 0")
                run(vacuum, "VACUUM items")
        except psycopg.Error as error:
            failed.append(error)
        finally:
            stop.set()

    thread = threading.Thread(target=churn)
    thread.start()
    query, searches = vectors(1, seed=5)[0], 0
    while not stop.is_set():
        with connection.transaction():
            run(connection, RELAXED)
            found = by_index(connection, query, 10 * ROWS, where="at >= 0")
        assert set(found) >= set(stays)
        searches += 1
    thread.join()
    assert failed == []
    assert searches > 3
    check(connection)
