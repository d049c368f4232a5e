"""The size of an index after failed operations: later operations use the space that VACUUM frees.

For canceled trainings, see test_training.py: their pages are used for rows, and not for other
trainings.
"""

from __future__ import annotations

from contextlib import suppress

import psycopg
from psycopg import errors

from tests.items import Connect, create, everything, fill, number, run, value, vectors
from tests.test_training import PAGES

# Number of failures of an operation. The first ones may add pages, the later ones must use free
# space.
FAILURES = 2
# Most pages that all failures and vacuums add, for dead rows and for lists of them. A failed
# statement would add 120 pages if there were no free slots.
MORE_PAGES = 36


def canceled(connection: psycopg.Connection, sql: str, after_ms: int) -> bool:
    """Whether a statement was canceled after that time."""
    run(connection, f"SET statement_timeout = {after_ms}")
    try:
        run(connection, sql)
    except errors.QueryCanceled:
        return True
    finally:
        run(connection, "RESET statement_timeout")
    return False


def test_failed_insertions_leave_no_pages_that_vacuum_does_not_free(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(3000, seed=1))
    run(connection, "CREATE TABLE source (id int, embedding vector)")
    fill(connection, vectors(1500, seed=2), first=10_000, table="source")
    add = "INSERT INTO items SELECT id, embedding FROM source"

    def roll_back() -> None:
        with connection.transaction():
            run(connection, add)
            raise psycopg.Rollback

    roll_back()
    run(connection, "VACUUM items")
    pages = number(connection, PAGES)
    for at in range(FAILURES):
        roll_back()
        run(connection, "VACUUM items")
        # Only the last row is refused. All others are in the index at that time.
        with suppress(errors.UniqueViolation):
            run(connection, f"{add} UNION ALL SELECT 0, embedding FROM items WHERE id = 0")
        run(connection, "VACUUM items")
        canceled(connection, add, 10 * (at + 1))
        run(connection, "DELETE FROM items WHERE id >= 10000")
        run(connection, "VACUUM items")
    most = pages + MORE_PAGES
    assert number(connection, PAGES) <= most
    # Rows that are committed fit into the free slots, too.
    run(connection, add)
    assert number(connection, PAGES) <= most
    assert len(everything(connection)) == 4500


def test_a_canceled_reindex_leaves_the_index_and_nothing_else(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(6000, seed=1))
    size = "SELECT pg_database_size(current_database())"
    path = "SELECT pg_relation_filepath('items_embedding')"
    run(connection, "VACUUM items")
    run(connection, "CHECKPOINT")
    before, file, pages = number(connection, size), value(connection, path), number(connection, PAGES)
    stopped = 0
    for at in range(FAILURES):
        stopped += canceled(connection, "REINDEX INDEX items_embedding", 20 + 40 * at)
        if not stopped:
            break
        if value(connection, path) != file:
            # On a fast machine, the statement succeeded.
            file, pages = value(connection, path), number(connection, PAGES)
        # A checkpoint removes files that no transaction uses any more.
        run(connection, "CHECKPOINT")
        assert number(connection, PAGES) == pages
        assert number(connection, size) <= before + (1 << 18)
    assert stopped > 0
    assert everything(connection) == list(range(6000))
