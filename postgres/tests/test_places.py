"""Places of rows in the table (`ctid`): everything that reads them from an ordered scan gets the
right ones, and the rows are still in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from devserver import Cluster
from tests.items import (
    QUERIES,
    RELAXED,
    Connect,
    assert_ascending,
    by_index,
    create,
    explain,
    fill,
    ids,
    number,
    only_by_index,
    run,
    vectors,
)
from tests.test_maintenance import wait

ROWS = 3000
QUERY = QUERIES[0]
# Otherwise, a condition on ctid alone would be planned as a TID scan.
BY_INDEX = "SET LOCAL enable_tidscan = off"


@pytest.fixture
def connection(connect: Connect) -> psycopg.Connection:
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(ROWS, seed=1))
    run(connection, "REINDEX INDEX items_embedding")
    # All scans have the same list, so the scans of a statement differ only in the reading of
    # places.
    run(connection, "SET pagehop.search_list = 200")
    return connection


def nearest(columns: str = "id", limit: int = 50, where: str = "true") -> str:
    return f"SELECT {columns} FROM items WHERE {where} ORDER BY embedding <-> '{QUERY}' LIMIT {limit}"


CONDITIONS = [
    "ctid < '(1000000,0)'",
    "ctid IN (SELECT ctid FROM items)",
    "(SELECT i.id FROM items i WHERE i.ctid = items.ctid) = id",
    "EXISTS (SELECT FROM items i WHERE i.ctid = items.ctid OFFSET 0)",
    "tableoid = 'items'::regclass AND ctid IS NOT NULL AND (ctid::text::point)[0] < 1000000",
    "xmin::text <> '' AND items IS NOT NULL OR ctid > '(0,0)'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_on_the_place_leaves_out_no_other_row(connection: psycopg.Connection, condition: str) -> None:
    truth = by_index(connection, QUERY, 50)
    with only_by_index(connection):
        run(connection, BY_INDEX)
        statement = nearest(where=condition)
        assert "Index Scan using items_embedding" in explain(connection, statement)
        found = ids(connection, statement)
    assert len(set(found) & set(truth)) >= 48, found
    assert len(found) == 50


def test_selected_places_are_those_of_the_rows(connection: psycopg.Connection) -> None:
    truth = {row[0]: row[1] for row in run(connection, "SELECT id, ctid::text FROM items")}
    with only_by_index(connection):
        statement = nearest(f"id, ctid::text, embedding <-> '{QUERY}'")
        assert "Index Scan using items_embedding" in explain(connection, statement)
        rows = run(connection, statement)
        assert [row[1] for row in rows] == [truth[row[0]] for row in rows]
        assert_ascending(row[2] for row in rows)
        rechecks = number(connection, "SELECT rechecks::int FROM pagehop_last_scan()")
        assert 0 < rechecks <= number(connection, "SELECT rows::int FROM pagehop_last_scan()") + 20
        assert [row[0] for row in rows] == ids(connection, nearest())


def test_rows_in_strict_order_are_locked_where_they_are(connect: Connect, connection: psycopg.Connection) -> None:
    with only_by_index(connection):
        statement = f"{nearest()} FOR UPDATE"
        assert "Index Scan using items_embedding" in explain(connection, statement)
        locked = ids(connection, statement)
        assert locked == ids(connection, nearest())
        other = connect()
        free = ids(other, f"SELECT id FROM items WHERE id = ANY('{set(locked)}') FOR UPDATE SKIP LOCKED")
        assert free == []
        assert len(ids(other, "SELECT id FROM items FOR UPDATE SKIP LOCKED")) == ROWS - 50


def test_rows_are_changed_by_their_places(connection: psycopg.Connection) -> None:
    with only_by_index(connection):
        run(connection, f"UPDATE items SET note = 'x' FROM ({nearest('ctid AS place')}) n WHERE ctid = place")
    assert number(connection, "SELECT count(*) FROM items WHERE note = 'x'") == 50


def test_a_row_that_was_changed_while_its_lock_was_awaited_has_places(
    connect: Connect, connection: psycopg.Connection
) -> None:
    """PostgreSQL then runs the subquery again, by a plan that EXPLAIN does not show."""
    places = {row[0]: row[1] for row in run(connection, "SELECT id, ctid::text FROM items")}
    near = "SELECT n.id, n.ctid FROM items n ORDER BY n.embedding <-> i.embedding LIMIT 9"
    listed = f"SELECT array_agg(near.id || ' ' || near.ctid) FROM ({near}) near"
    update = f"UPDATE items i SET note = note || ({listed})::text WHERE id = 7 RETURNING note"
    other = connect()
    run(other, "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off")
    assert "Index Scan using items_embedding" in explain(other, update)
    with ThreadPoolExecutor() as threads:
        with connection.transaction():
            run(connection, "UPDATE items SET note = 'changed ' WHERE id = 7")
            changed = threads.submit(run, other, update)
            waits = f"SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = {other.info.backend_pid}"
            wait(lambda: number(connection, waits) > 0 or changed.done())
        [(note,)] = changed.result(timeout=60)
    assert str(note).startswith("changed {")
    found = re.findall(r"(\d+) (\(\d+,\d+\))", str(note))
    assert len(found) == 9
    assert [place for _, place in found] == [places[int(row)] for row, _ in found]


@pytest.mark.parametrize(("first", "then"), [("relaxed_order", "strict_order"), ("strict_order", "relaxed_order")])
def test_a_kept_plan_locks_the_rows_in_either_order(connection: psycopg.Connection, first: str, then: str) -> None:
    """Rows that the executor put in order once had an invalid block as their place. Locking one
    extended the table by a block.
    """
    run(connection, "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_sort = off")
    run(connection, f"SET pagehop.scan_order = {first}")
    for lock in ["FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE", "FOR KEY SHARE"]:
        name = lock.replace(" ", "_")
        run(connection, f"PREPARE {name}(vector) AS {nearest(limit=20).replace(repr(QUERY), '$1')} {lock}")
        assert len(ids(connection, f"EXECUTE {name}('{QUERY}')")) == 20
    before = number(connection, "SELECT pg_relation_size('items')")
    run(connection, f"SET pagehop.scan_order = {then}")
    for query in QUERIES:
        for lock in ["FOR_UPDATE", "FOR_NO_KEY_UPDATE", "FOR_SHARE", "FOR_KEY_SHARE"]:
            assert len(ids(connection, f"EXECUTE {lock}('{query}')")) == 20
    assert number(connection, "SELECT pg_relation_size('items')") == before


@pytest.mark.parametrize("change", ["UPDATE items SET note = 'here'", "DELETE FROM items"])
def test_the_row_that_a_cursor_is_on_is_changed(connection: psycopg.Connection, change: str) -> None:
    before = number(connection, "SELECT pg_relation_size('items')")
    for query in QUERIES:
        with only_by_index(connection):
            run(connection, f"DECLARE c CURSOR FOR SELECT id FROM items ORDER BY embedding <-> '{query}'")
            [row] = ids(connection, "FETCH 1 FROM c")
            for step in [1, 1, 3, 10]:
                changed = ids(connection, f"{change} WHERE CURRENT OF c RETURNING id")
                assert changed == [row]
                row = ids(connection, f"FETCH {step} FROM c")[-1]
    assert number(connection, "SELECT pg_relation_size('items')") <= before + 8192 * 2


def test_a_loop_of_plpgsql_changes_the_row_that_it_is_at(connection: psycopg.Connection) -> None:
    run(
        connection,
        "CREATE FUNCTION mark(query vector) RETURNS SETOF int LANGUAGE plpgsql AS $$"
        "DECLARE c CURSOR FOR SELECT id FROM items ORDER BY embedding <-> query; row record; BEGIN "
        "FOR row IN c LOOP UPDATE items SET note = 'x' WHERE CURRENT OF c; RETURN NEXT row.id; "
        "EXIT WHEN (SELECT count(*) FROM items WHERE note = 'x') = 30; END LOOP; END $$",
    )
    with only_by_index(connection):
        found = ids(connection, f"SELECT mark('{QUERY}')")
        assert sorted(found) == ids(connection, "SELECT id FROM items WHERE note = 'x' ORDER BY id")
        assert found == ids(connection, nearest(limit=30))


def test_a_cursor_gives_the_rows_of_a_statement(connection: psycopg.Connection) -> None:
    """A cursor may be asked for the place of its row, so its rows are ordered in another way."""
    run(connection, "DELETE FROM items WHERE id % 7 = 0")
    for query in QUERIES[:5]:
        with only_by_index(connection):
            ordered = f"SELECT id, embedding <-> '{query}' FROM items WHERE id % 3 > 0 ORDER BY embedding <-> '{query}'"
            whole = run(connection, ordered)
            run(connection, f"DECLARE c CURSOR FOR {ordered}")
            fetched = []
            for count in [1, 9, 40, 200, 5000]:
                fetched += run(connection, f"FETCH {count} FROM c")
            assert run(connection, "FETCH 1 FROM c") == []
            # Rows at equal distances come in any order.
            assert [row[1] for row in fetched] == [row[1] for row in whole]
            assert sorted(map(str, fetched)) == sorted(map(str, whole))
            run(connection, RELAXED)
            assert len(run(connection, ordered)) >= len(whole)


@pytest.mark.parametrize(
    ("column", "operators", "operator"),
    [("embedding::halfvec(24)", "halfvec_cosine_ops", "<=>"), ("embedding", "vector_ip_ops", "<#>")],
)
def test_expressions_and_other_metrics_have_places(
    connection: psycopg.Connection, column: str, operators: str, operator: str
) -> None:
    run(connection, f"DROP INDEX items_embedding; CREATE INDEX near ON items USING pagehop (({column}) {operators})")
    truth = {row[0]: row[1] for row in run(connection, "SELECT id, ctid::text FROM items")}
    distance = f"n.{column} {operator} i.{column}"
    with only_by_index(connection):
        # A join starts the ordered scan again for each row.
        near = f"SELECT n.id, n.ctid::text AS place, {distance} AS distance FROM items n ORDER BY {distance} LIMIT 5"
        statement = f"SELECT i.id, near.* FROM items i, LATERAL ({near}) near WHERE i.id < 20"
        assert "Index Scan using near" in explain(connection, statement)
        rows = run(connection, statement)
    assert len(rows) == 100
    assert [row[2] for row in rows] == [truth[row[1]] for row in rows]
    for at in range(0, 100, 5):
        assert_ascending(row[3] for row in rows[at : at + 5])


def test_partitions_are_locked_in_order(connection: psycopg.Connection) -> None:
    run(connection, "CREATE TABLE parts (LIKE items) PARTITION BY HASH (id)")
    for part in range(3):
        run(connection, f"CREATE TABLE part{part} PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER {part})")
    run(connection, "INSERT INTO parts SELECT * FROM items")
    run(connection, "CREATE INDEX ON parts USING pagehop (embedding vector_l2_ops)")
    with only_by_index(connection):
        statement = nearest().replace("items", "parts")
        assert explain(connection, f"{statement} FOR UPDATE").count("Index Scan using") == 3
        locked = ids(connection, f"{statement} FOR UPDATE")
        assert locked == ids(connection, statement)


def test_a_table_that_was_locked_in_both_orders_is_whole_after_a_restart(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(autovacuum=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        fill(connection, vectors(ROWS, seed=1))
        run(connection, "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_sort = off")
        run(connection, "SET pagehop.scan_order = relaxed_order")
        run(connection, f"PREPARE lock(vector) AS {nearest().replace(repr(QUERY), '$1')} FOR UPDATE")
        run(connection, f"EXECUTE lock('{QUERY}')")
        size = number(connection, "SELECT pg_relation_size('items')")
        run(connection, "RESET pagehop.scan_order")
        for query in QUERIES:
            run(connection, f"EXECUTE lock('{query}')")
        run(connection, "CHECKPOINT")
    cluster.stop()
    cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        assert number(connection, "SELECT pg_relation_size('items')") == size
        assert number(connection, "SELECT count(*) FROM items") == ROWS
    cluster.remove()


def test_a_place_is_read_without_the_other_expressions_of_the_index(
    connect: Connect, connection: psycopg.Connection
) -> None:
    """They are not part of the query, whose user may have no right to their functions."""
    run(connection, "CREATE FUNCTION doubled(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 2 * $1; END'")
    run(connection, "REVOKE EXECUTE ON FUNCTION doubled FROM PUBLIC; DROP INDEX items_embedding")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, doubled(id))")
    role = f"reader_{connection.info.dbname}"
    run(connection, f"CREATE ROLE {role}; GRANT SELECT ON items TO {role}")
    try:
        reader = connect()
        run(reader, f"SET ROLE {role}; SET pagehop.search_list = 200")
        with only_by_index(reader):
            run(reader, f"DECLARE c CURSOR FOR {nearest()}")
            fetched = ids(reader, "FETCH 50 FROM c")
            assert fetched == ids(reader, nearest())
    finally:
        run(connection, f"REVOKE ALL ON items FROM {role}; DROP ROLE {role}")
