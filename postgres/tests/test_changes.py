"""Inserted, changed and deleted rows: the index finds the same rows as a scan of the table."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import (
    KINDS,
    QUERIES,
    RELAXED,
    Connect,
    by_index,
    by_scan,
    create,
    everything,
    fill,
    ids,
    number,
    only_by_index,
    recall,
    run,
    vectors,
)
from tests.test_maintenance import wait


@pytest.mark.parametrize(("operators", "kind", "operator"), KINDS)
def test_an_empty_index_grows_and_keeps_recall(connect: Connect, operators: str, kind: str, operator: str) -> None:
    connection = connect()
    create(connection, operators, kind)
    assert by_index(connection, QUERIES[0], operator=operator) == []
    fill(connection, vectors(700, seed=1))
    assert recall(connection, operator=operator) > 0.97
    run(connection, "DELETE FROM items WHERE id % 3 = 0")
    assert recall(connection, operator=operator) > 0.97
    run(connection, "VACUUM items")
    assert recall(connection, operator=operator) > 0.97
    fill(connection, vectors(300, seed=2), first=1000)
    next_one = "SELECT embedding FROM items other WHERE other.id = items.id + 1"
    run(connection, f"UPDATE items SET embedding = ({next_one}) WHERE id < 100 AND id % 3 = 1")
    run(connection, "VACUUM items")
    assert recall(connection, operator=operator) > 0.97
    ids = [row[0] for row in run(connection, "SELECT id FROM items ORDER BY id")]
    assert everything(connection, operator) == ids


def test_a_row_of_unchanged_vector_takes_no_more_room(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "CREATE INDEX ON items (note)")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(1000, seed=1))
    run(connection, "SET pagehop.recall = 0.99")
    before = number(connection, "SELECT pg_relation_size('items_embedding')")
    found = recall(connection)
    assert found > 0.97
    for version in range(2):
        run(connection, f"UPDATE items SET note = 'version {version}'")
        # The pending list stays this long: it has room for as many versions as there are rows.
        assert number(connection, "SELECT pg_relation_size('items_embedding')") == before + 2 * 8192
        assert recall(connection) == found
    run(connection, "VACUUM items")
    assert recall(connection) > 0.97


def test_many_versions_of_a_row_make_no_new_node(connect: Connect) -> None:
    connection, reader = connect(), connect()
    create(connection)
    run(connection, "CREATE INDEX ON items (note)")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(1000, seed=1))
    nodes = "SELECT nodes FROM pagehop_info('items_embedding')"
    for version in range(6):
        run(connection, f"UPDATE items SET note = 'version {version}' WHERE id < 100")
        # A session that has read the pending list before and a new session find the same rows.
        assert everything(reader) == everything(connect()) == list(range(1000))
    assert number(connection, nodes) == 1000
    with connection.transaction(force_rollback=True):
        run(connection, "UPDATE items SET note = 'gone' WHERE id < 10")
    run(connection, "DELETE FROM items WHERE id BETWEEN 50 AND 59")
    for statement in ["SELECT * FROM pagehop_check('items_embedding')", "VACUUM items"] * 2:
        run(connection, statement)
    alive = [*range(50), *range(60, 1000)]
    assert everything(reader) == everything(connect()) == alive
    assert number(connection, nodes) == 990
    run(connection, "UPDATE items SET note = 'again' WHERE id < 300")
    assert everything(reader) == alive
    run(connection, "REINDEX INDEX items_embedding; UPDATE items SET note = 'and again' WHERE id < 300")
    assert everything(reader) == alive


@pytest.mark.parametrize("is_built_at_once", [True, False])
def test_a_vector_that_a_trigger_moves_is_found_where_it_is(connect: Connect, *, is_built_at_once: bool) -> None:
    """PostgreSQL says that such a vector is unchanged: the statement does not name its column. Each
    update moves all rows a tenth as far towards the query as they may be from their codes.

    An index that grows with its rows makes some codes of older ones.
    """
    connection, dim = connect(), 512
    create(connection, dim=dim)
    run(connection, "CREATE INDEX ON items (note)")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    for first in range(0, 300, 20):
        fill(connection, vectors(300, seed=1, dim=dim)[first : first + 20], first=first)
    if is_built_at_once:
        run(connection, "REINDEX INDEX items_embedding")
    # So few rows are then searched to the end.
    run(connection, "SET pagehop.recall = 0.99")
    [query] = vectors(1, seed=99, dim=dim)
    step = f"l2_normalize('{query}'::vector - NEW.embedding) * array_fill(0.002, ARRAY[{dim}])::vector"
    moves = f"BEGIN NEW.embedding := NEW.embedding + {step}; RETURN NEW; END"
    run(connection, f"CREATE FUNCTION moves() RETURNS trigger LANGUAGE plpgsql AS $${moves}$$")
    run(connection, "CREATE TRIGGER moves BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION moves()")
    for version in range(20):
        run(connection, f"UPDATE items SET note = 'version {version}'")
        assert by_index(connection, query, limit=100) == by_scan(connection, query, limit=100)
    assert number(connection, "SELECT nodes FROM pagehop_check('items_embedding')") > 300
    run(connection, "VACUUM items")
    assert number(connection, "SELECT nodes FROM pagehop_check('items_embedding')") == 300
    assert by_index(connection, query, limit=300) == by_scan(connection, query, limit=300)


def test_what_is_rolled_back_is_not_found(connect: Connect) -> None:
    connection = connect()
    create(connection)
    fill(connection, vectors(300, seed=1))
    with connection.transaction(force_rollback=True):
        fill(connection, vectors(200, seed=2), first=5000)
        assert len(everything(connection, where="id >= 5000")) == 200
    assert everything(connection) == list(range(300))
    run(connection, "VACUUM items")
    assert everything(connection) == list(range(300))


def test_a_cursor_sees_what_there_was(connect: Connect) -> None:
    reader, writer = connect(), connect()
    create(writer)
    fill(writer, vectors(800, seed=1))
    with only_by_index(reader):
        run(reader, RELAXED)
        run(reader, f"DECLARE near CURSOR FOR SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}'")
        seen = [row[0] for row in run(reader, "FETCH 20 FROM near")]
        run(writer, "DELETE FROM items WHERE id % 2 = 0")
        fill(writer, vectors(800, seed=2), first=1000)
        run(writer, "VACUUM items")
        seen += [row[0] for row in run(reader, "FETCH ALL FROM near")]
    assert len(seen) == 800
    assert set(seen) == set(range(800))


@pytest.mark.parametrize("mode", ["immediate", "kill"])
def test_committed_rows_survive_a_crash(
    new_cluster: Callable[..., Cluster], mode: Literal["immediate", "kill"]
) -> None:
    cluster = new_cluster(autovacuum=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        fill(connection, vectors(900, seed=1))
        run(connection, "CHECKPOINT")
        fill(connection, vectors(400, seed=2), first=900)
        run(connection, "DELETE FROM items WHERE id < 200")
        run(connection, "VACUUM items")
        run(connection, "UPDATE items SET note = 'x' WHERE id < 300")
    if mode == "kill":
        cluster.kill()
    else:
        cluster.stop(mode)
    cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        assert recall(connection) > 0.97
        assert everything(connection) == list(range(200, 1300))
        fill(connection, vectors(100, seed=3), first=5000)
        assert recall(connection) > 0.97


def test_a_replica_answers_the_same(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(autovacuum=False, wal_consistency_checking="all")
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        fill(connection, vectors(500, seed=1))
        replica = cluster.basebackup()
        replica.start()
        fill(connection, vectors(500, seed=2), first=500)
        run(connection, "DELETE FROM items WHERE id % 4 = 0")
        run(connection, "VACUUM items")
        fill(connection, vectors(200, seed=3), first=1000)
        run(connection, "UPDATE items SET note = 'x' WHERE id % 4 = 1")
        cluster.wait_for_replay(replica)
        with psycopg.connect(replica.dsn(), autocommit=True) as other:
            for query in QUERIES:
                assert by_index(other, query) == by_index(connection, query)
            assert everything(other) == everything(connection)
            assert len(everything(other)) == 950
    replica.remove()


def test_serializable_transactions_see_rows_that_wait_for_the_index(connect: Connect) -> None:
    """Each reads what the other writes, so one has to fail. The row of the first is in the table
    before the second reads, and comes into the index after that.
    """
    first, second, watcher = connect(), connect(), connect()
    create(first)
    fill(first, vectors(2000, seed=1))
    near = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"
    serializable = "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off"
    run(watcher, "SELECT pg_advisory_lock(7)")
    for session in [first, second]:
        run(session, serializable)
    assert 5000 not in ids(first, near)
    rows = f"(VALUES (5000, '{QUERIES[0]}'::vector), (5001, '{QUERIES[1]}'::vector)) new (id, embedding)"
    # The second row is never inserted: PostgreSQL looks for conflicts before each that is.
    lock = "CASE WHEN id = 5001 THEN pg_advisory_xact_lock_shared(7) IS NULL ELSE true END"
    insert = f"INSERT INTO items (id, embedding) SELECT id, embedding FROM {rows} WHERE {lock}"
    with ThreadPoolExecutor() as threads:
        inserted = threads.submit(run, first, f"{insert}; COMMIT")
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait(lambda: number(watcher, waits) > 0 or inserted.done())
        assert 5000 not in ids(second, near)
        run(second, f"INSERT INTO items (id, embedding) VALUES (6000, '{QUERIES[0]}'); COMMIT")
        run(watcher, "SELECT pg_advisory_unlock(7)")
        with pytest.raises(errors.SerializationFailure):
            inserted.result(timeout=60)
