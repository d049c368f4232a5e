"""The extension's own log records for an index: replay gives the same pages."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from devserver import Cluster
from tests.items import QUERIES, Connect, by_index, create, everything, fill, number, run, vectors

KIND = ("vector_cosine_ops", "vector", "<=>")


@pytest.mark.parametrize("images", [True, False])
def test_replay_of_each_record_gives_the_page_that_there_was(
    new_cluster: Callable[..., Cluster], *, images: bool
) -> None:
    """After each record, the server compares the replayed page with the writer's, and stops if they
    differ.

    With `images`, the log has whole pages after a checkpoint. Without them, every page is replayed
    from its changes.
    """
    cluster = new_cluster(autovacuum=False, fsync=False, full_page_writes=images, wal_consistency_checking="all")
    operators, kind, operator = KIND
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection, operators, kind)
        fill(connection, vectors(300, seed=1))
        replica = cluster.basebackup()
        replica.start()
        run(connection, "CHECKPOINT")
        change_all(connection)
        expected = [by_index(connection, query, operator=operator) for query in QUERIES]
        rows = everything(connection, operator)
        assert len(rows) == 1125
        checked = run(connection, "SELECT * FROM pagehop_check('items_embedding')")
        cluster.wait_for_replay(replica)
    cluster.kill()
    cluster.start()
    for other in [cluster, replica]:
        with psycopg.connect(other.dsn(), autocommit=True) as connection:
            assert [by_index(connection, query, operator=operator) for query in QUERIES] == expected
            assert everything(connection, operator) == rows
            assert run(connection, "SELECT * FROM pagehop_check('items_embedding')") == checked
    replica.remove()


def change_all(connection: psycopg.Connection) -> None:
    """Produces every kind of record: insertions that train, duplicates, a rollback, new versions,
    deletions, vacuum.
    """
    fill(connection, vectors(500, seed=2), first=300)
    fill(connection, vectors(20, seed=2) * 10, first=1000)
    run(connection, "BEGIN")
    fill(connection, vectors(50, seed=3), first=2000)
    run(connection, "ROLLBACK")
    run(connection, "UPDATE items SET note = 'x' WHERE id % 5 = 1")
    run(connection, "DELETE FROM items WHERE id < 800 AND id % 8 = 0")
    run(connection, "VACUUM items")
    fill(connection, vectors(225, seed=4), first=3000)


def records_of(connection: psycopg.Connection, sql: str) -> int:
    """Records of the log that a statement writes. The index takes rows after the plan has run, so
    EXPLAIN does not count them.
    """
    count = "SELECT wal_records FROM pg_stat_wal"
    run(connection, "SELECT pg_stat_force_next_flush()")
    before = number(connection, count)
    run(connection, sql)
    run(connection, "SELECT pg_stat_force_next_flush()")
    records = number(connection, count) - before
    print(records, "records for", sql)
    return records


def test_an_insertion_writes_few_records(connect: Connect) -> None:
    """An insertion logs its node, its anchor with edges back, and sometimes a new page."""
    connection = connect()
    create(connection)
    fill(connection, vectors(1000, seed=1))
    run(connection, "CREATE TEMP TABLE fresh (id int, embedding vector)")
    fill(connection, vectors(200, seed=2), first=5000, table="fresh")
    run(connection, "CHECKPOINT")
    records = records_of(connection, "INSERT INTO items (id, embedding) SELECT id, embedding FROM fresh")
    # Two of the records are those of the table and its primary key.
    assert 2 + 2 < records / 200 < 2 + 4
    assert number(connection, "SELECT count(*) FROM items") == 1200


def test_an_update_of_a_filter_column_writes_few_records(connect: Connect) -> None:
    """An update logs one step for the node and its postings, one for its anchor, and sometimes a
    new page.
    """
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items ADD price int")
    fill(connection, vectors(1000, seed=1))
    run(connection, "UPDATE items SET price = id % 100")
    run(connection, "DROP INDEX items_embedding")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, price)")
    run(connection, "VACUUM FULL items")
    run(connection, "CHECKPOINT")
    records = records_of(connection, "UPDATE items SET price = price + 1 WHERE id % 5 = 0")
    # Three of the records are those of the table, two of them for one row, and its primary key.
    assert 3 + 1 < records / 200 < 3 + 3
    assert number(connection, "SELECT nodes FROM pagehop_check('items_embedding')") == 1200


def test_an_index_that_is_not_logged_takes_rows(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET UNLOGGED")
    logged = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
    before = number(connection, logged)
    fill(connection, vectors(400, seed=1))
    # Only the growth of the file is logged. The rows of a logged index would take a megabyte.
    assert number(connection, logged) - before < 100_000
    assert everything(connection) == list(range(400))
    assert number(connection, "SELECT nodes FROM pagehop_check('items_embedding')") == 400
