"""Distances that order rows but are not read: plans leave them out, and results are the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from devserver import Cluster, Server
from tests.items import (
    QUERIES,
    RELAXED,
    Connect,
    by_scan,
    explain,
    fill,
    ids,
    number,
    only_by_index,
    run,
    value,
    vectors,
)

DISTANCE = f"embedding <-> '{QUERIES[0]}'"
NEAREST = f"SELECT id FROM items ORDER BY {DISTANCE} LIMIT 10"
# The output of EXPLAIN (VERBOSE) in place of a distance that is left out.
NOTHING = "NULL::double precision"
OFF = "SET LOCAL pagehop.skip_unread_distances = off"

# Statements whose plans would compute a distance that nothing reads.
UNREAD = {
    "limit": NEAREST,
    "no limit": f"SELECT id FROM items ORDER BY {DISTANCE}",
    "offset": f"SELECT id FROM items ORDER BY {DISTANCE} LIMIT 10 OFFSET 5",
    "offset alone": f"SELECT id FROM items ORDER BY {DISTANCE} OFFSET 1480",
    "limit of all": f"SELECT id FROM items ORDER BY {DISTANCE} LIMIT NULL",
    "limit of none": f"SELECT id FROM items ORDER BY {DISTANCE} LIMIT 0",
    "computed limit": f"SELECT id FROM items ORDER BY {DISTANCE} LIMIT 3 + (SELECT count(*) FROM parts WHERE id < 5)",
    "condition": f"SELECT id FROM items WHERE id % 3 = 0 ORDER BY {DISTANCE} LIMIT 10",
    "whole rows": f"SELECT items FROM items ORDER BY {DISTANCE} LIMIT 10",
    "other way round": f"SELECT id FROM items ORDER BY '{QUERIES[0]}' <-> embedding LIMIT 10",
    "another distance selected": f"SELECT id, embedding <-> '{QUERIES[1]}' FROM items ORDER BY {DISTANCE} LIMIT 10",
    "a negative distance selected": f"SELECT id, -({DISTANCE}) FROM items ORDER BY {DISTANCE} LIMIT 10",
    "expression": f"SELECT id FROM items ORDER BY embedding::halfvec(24) <-> '{QUERIES[0]}' LIMIT 10",
    "subquery": f"SELECT id + 1 FROM ({NEAREST}) near WHERE id > 7",
    "row of a subquery": f"SELECT near, near IS NULL FROM ({NEAREST}) near",
    "join": f"SELECT items.id FROM ({NEAREST}) near JOIN items USING (id) ORDER BY 1",
    "rows put in another order": f"SELECT id FROM ({NEAREST}) near JOIN tagged USING (id) ORDER BY tag, id LIMIT 5",
    "limit of a limit": f"SELECT id FROM ({NEAREST}) near LIMIT 5",
    "locks on other rows": f"SELECT items.id FROM items JOIN ({NEAREST}) n USING (id) ORDER BY 1 FOR UPDATE OF items",
    "two in a union": f"({NEAREST}) UNION ALL (SELECT id FROM items ORDER BY embedding <-> '{QUERIES[1]}' LIMIT 10)",
    "union": f"({NEAREST}) UNION (SELECT id FROM items ORDER BY embedding <-> '{QUERIES[1]}' LIMIT 10) ORDER BY 1",
    "common table expression": f"WITH near AS MATERIALIZED ({NEAREST}) SELECT id FROM near, near n(other)",
    "row of a common table expression": f"WITH near AS MATERIALIZED ({NEAREST}) SELECT near FROM near",
    "recursive": "WITH RECURSIVE r(id, step) AS "
    f"(SELECT id, 1 FROM ({NEAREST}) n UNION ALL SELECT id, step + 1 FROM r WHERE step < 3) SELECT id FROM r",
    "lateral": "SELECT i.id, n.id FROM items i, LATERAL "
    "(SELECT id FROM items n ORDER BY n.embedding <-> i.embedding LIMIT 3) n WHERE i.id < 5",
    "scalar subquery": "SELECT id, (SELECT id FROM items n ORDER BY n.embedding <-> i.embedding LIMIT 1) "
    "FROM items i WHERE id < 5",
    "array": f"SELECT ARRAY({NEAREST})",
    "in": f"SELECT id FROM items WHERE id IN ({NEAREST}) ORDER BY id",
    "view": "SELECT id FROM nearest",
    "one partition": f"SELECT id FROM parts WHERE part = 1 ORDER BY {DISTANCE} LIMIT 10",
    "aggregate": f"SELECT array_agg(id) FROM ({NEAREST}) n",
    "filter column": f"SELECT id FROM tagged WHERE tag = 1 ORDER BY tag, {DISTANCE} LIMIT 10",
    "update from": f"UPDATE items SET note = 'near' FROM ({NEAREST}) n WHERE n.id = items.id RETURNING items.id",
    "delete using": f"DELETE FROM items USING ({NEAREST}) n WHERE n.id = items.id RETURNING items.id",
    "delete in": f"DELETE FROM items WHERE id IN ({NEAREST}) RETURNING id",
    "merge": f"MERGE INTO items USING ({NEAREST}) n ON n.id = items.id "
    "WHEN MATCHED THEN UPDATE SET note = n.id::text RETURNING items.id, note",
    "insert": f"INSERT INTO found {NEAREST} RETURNING id",
    "table": f"CREATE TEMP TABLE other AS {NEAREST}",
}

# Statements whose plans read each computed distance, or may read it.
READ = {
    "ties": f"SELECT id FROM items ORDER BY {DISTANCE} FETCH FIRST 10 ROWS WITH TIES",
    "ties in a subquery": f"SELECT id FROM (SELECT id FROM items ORDER BY {DISTANCE} FETCH FIRST 10 ROWS WITH TIES) n",
    "several rows of one": f"SELECT generate_series(1, 2), id FROM items ORDER BY {DISTANCE} LIMIT 10",
    "distance selected": f"SELECT id, {DISTANCE} FROM items ORDER BY {DISTANCE} LIMIT 10",
    "distance selected by name": f"SELECT id, {DISTANCE} AS d FROM items ORDER BY d LIMIT 10",
    "distance of a subquery": "SELECT id FROM "
    f"(SELECT id, {DISTANCE} AS d FROM items ORDER BY d LIMIT 10) n WHERE d < 9",
    "distances of two subqueries": f"SELECT id FROM ((SELECT id, {DISTANCE} AS d FROM items ORDER BY d LIMIT 10) "
    f"UNION ALL (SELECT id, {DISTANCE} AS d FROM tagged ORDER BY d LIMIT 10)) u ORDER BY d, id LIMIT 5",
    "second key": f"SELECT id FROM items ORDER BY {DISTANCE}, id LIMIT 10",
    "partitions": f"SELECT id FROM parts ORDER BY {DISTANCE} LIMIT 10",
    "children": f"SELECT id FROM parent ORDER BY {DISTANCE} LIMIT 10",
    "sorted union": f"SELECT id FROM (SELECT id, embedding FROM items UNION ALL SELECT id, embedding FROM tagged) u "
    f"ORDER BY {DISTANCE} LIMIT 10",
    "window": f"SELECT id, rank() OVER (ORDER BY {DISTANCE}) FROM items LIMIT 10",
    "distinct": f"SELECT DISTINCT ON ({DISTANCE}) id FROM items ORDER BY {DISTANCE} LIMIT 10",
    "least distance": f"SELECT min({DISTANCE}) FROM items",
    "group": f"SELECT min(id) FROM items GROUP BY {DISTANCE} ORDER BY {DISTANCE} LIMIT 10",
}


@pytest.fixture(scope="module")
def connection(cluster: Cluster) -> Iterator[psycopg.Connection]:
    cluster.psql("CREATE DATABASE unread")
    # Tests compare the rows of two scans of a table in which other tests leave dead rows. Without a
    # fixed list, the session would learn from the first scan how far to search.
    cluster.psql("ALTER DATABASE unread SET pagehop.search_list = 400")
    with psycopg.connect(cluster.dsn("unread"), autocommit=True) as connection:
        _fill(connection)
        yield connection
    cluster.psql("DROP DATABASE unread WITH (FORCE)")


def _fill(connection: psycopg.Connection) -> None:
    columns = "id int, embedding vector(24), note text"
    run(connection, f"CREATE TABLE items ({columns}, PRIMARY KEY (id)); CREATE TABLE found (id int)")
    fill(connection, vectors(1500, seed=1))
    run(connection, f"CREATE TABLE parts ({columns}, part int) PARTITION BY LIST (part)")
    run(connection, "CREATE TABLE parts_0 PARTITION OF parts FOR VALUES IN (0)")
    run(connection, "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1)")
    run(connection, "INSERT INTO parts SELECT *, id % 2 FROM items")
    run(connection, f"CREATE TABLE parent ({columns}); CREATE TABLE child () INHERITS (parent)")
    run(connection, "INSERT INTO parent SELECT * FROM items WHERE id < 700")
    run(connection, "INSERT INTO child SELECT * FROM items WHERE id >= 700")
    run(connection, "CREATE TABLE tagged AS SELECT *, id % 2 AS tag FROM items")
    for table in ["items", "parts_0", "parts_1", "parent", "child", "tagged"]:
        run(connection, f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    for table in ["items", "parts", "parent", "child"]:
        run(connection, f"CREATE INDEX {table}_embedding ON {table} USING pagehop (embedding vector_l2_ops)")
    run(connection, "CREATE INDEX ON items USING pagehop ((embedding::halfvec(24)) halfvec_l2_ops)")
    run(connection, "CREATE INDEX ON tagged USING pagehop (embedding vector_l2_ops, tag)")
    run(connection, f"CREATE VIEW nearest AS {NEAREST}")
    run(connection, "ANALYZE")


def _both(connection: psycopg.Connection, statement: str) -> tuple[str, str]:
    """The plans with the setting on and off. Fails unless both return the same rows."""
    plans, rows = [], []
    for setting in [None, OFF]:
        with only_by_index(connection):
            run(connection, setting or "SELECT 1")
            plans.append(explain(connection, statement, "VERBOSE, COSTS off"))
            with connection.transaction(force_rollback=True):
                rows.append(run(connection, statement))
    assert rows[0] == rows[1], plans
    return plans[0], plans[1]


@pytest.mark.parametrize("name", UNREAD)
def test_a_distance_that_is_not_read_is_left_out(connection: psycopg.Connection, name: str) -> None:
    on, off = _both(connection, UNREAD[name])
    assert "Order By" in on, "the index is not used"
    assert NOTHING in on, on
    assert NOTHING not in off, off
    # Nothing else has changed: the plan still orders the rows.
    assert [line for line in on.split("\n") if "Output" not in line] == [
        line for line in off.split("\n") if "Output" not in line
    ]


@pytest.mark.parametrize("name", READ)
def test_a_distance_that_is_read_stays(connection: psycopg.Connection, name: str) -> None:
    on, off = _both(connection, READ[name])
    assert "Order By" in on, on
    assert on == off


def test_rows_are_those_that_the_table_has(connection: psycopg.Connection) -> None:
    for query in QUERIES:
        with only_by_index(connection):
            found = ids(connection, f"SELECT id FROM items ORDER BY embedding <-> '{query}' LIMIT 10")
        assert len(set(found) & set(by_scan(connection, query))) >= 8


def test_distances_are_computed_for_rechecks_alone(connect: Connect) -> None:
    """PostgreSQL counts the calls of the distance function."""
    connection = connect()
    _fill(connection)
    calls = "SELECT coalesce(pg_stat_get_xact_function_calls('l2_distance(vector,vector)'::regprocedure), 0)::int"
    for setting, computed in [("on", 0), ("off", 10)]:
        for query in QUERIES:
            with only_by_index(connection):
                run(connection, "SET LOCAL track_functions = 'all'")
                run(connection, f"SET LOCAL pagehop.skip_unread_distances = {setting}")
                before = number(connection, calls)
                nearest = f"SELECT id FROM items ORDER BY embedding <-> '{query}' LIMIT 10"
                assert "items_embedding" in explain(connection, nearest)
                assert len(run(connection, nearest)) == 10
                rechecks = number(connection, "SELECT rechecks::int FROM pagehop_last_scan()")
                assert number(connection, calls) - before == computed + rechecks


@pytest.mark.parametrize("statement", [f"{NEAREST} FOR UPDATE", f"SELECT id FROM ({NEAREST}) n FOR UPDATE"])
def test_locked_rows_keep_their_distance(connection: psycopg.Connection, statement: str) -> None:
    with only_by_index(connection):
        run(connection, RELAXED)
        assert NOTHING not in explain(connection, statement, "VERBOSE, COSTS off")
        locked = ids(connection, statement)
        assert sorted(locked) == sorted(ids(connection, NEAREST))


@pytest.mark.parametrize("setting", ["on", "off"])
def test_a_row_that_another_session_has_changed_is_changed_again(connection: psycopg.Connection, setting: str) -> None:
    """PostgreSQL keeps the subquery's row, and evaluates it again after the other commit."""
    with psycopg.connect(connection.info.dsn) as session, ThreadPoolExecutor() as threads:
        run(session, f"LOAD 'pagehop'; {OFF.replace('off', setting)}")
        run(session, "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        near = ids(session, NEAREST)
        update = f"UPDATE items SET note = note || 'b' FROM ({NEAREST}) n WHERE n.id = items.id RETURNING items.note"
        assert (NOTHING in explain(session, update, "VERBOSE, COSTS off")) == (setting == "on")
        with connection.transaction():
            run(connection, f"UPDATE items SET note = 'a' WHERE id = ANY('{set(near)}')")
            changed = threads.submit(run, session, update)
            waits = f"SELECT count(*)::int FROM pg_locks WHERE NOT granted AND pid = {session.info.backend_pid}"
            while number(connection, waits) == 0 and not changed.done():
                time.sleep(0.01)
        assert changed.result(timeout=60) == [("ab",)] * 10
        session.rollback()


@pytest.mark.parametrize("scroll", ["NO SCROLL", "SCROLL"])
def test_cursors_give_the_same(connection: psycopg.Connection, scroll: str) -> None:
    fetched = []
    for setting in ["on", "off"]:
        with only_by_index(connection):
            run(connection, f"SET LOCAL pagehop.skip_unread_distances = {setting}")
            run(connection, f"DECLARE c {scroll} CURSOR FOR SELECT id FROM items ORDER BY {DISTANCE}")
            rows = ids(connection, "FETCH 7 FROM c")
            if scroll == "SCROLL":
                assert ids(connection, "FETCH BACKWARD 3 FROM c") == rows[-2:-5:-1]
            fetched.append(rows + ids(connection, "FETCH 20 FROM c"))
            run(connection, f"DECLARE h CURSOR WITH HOLD FOR {NEAREST}")
        fetched[-1] += ids(connection, "FETCH ALL FROM h")
        run(connection, "CLOSE h")
    assert fetched[0] == fetched[1]


def test_the_first_plan_of_a_session_is_made_again(connection: psycopg.Connection) -> None:
    """Making this plan loads the library, so the plan keeps the distance. A prepared statement is
    then planned again.
    """
    with psycopg.connect(connection.info.dsn, autocommit=True) as session:
        run(session, "SET enable_seqscan = off; SET enable_sort = off; SET plan_cache_mode = force_generic_plan")
        run(session, "PREPARE nearest(vector) AS SELECT id FROM items ORDER BY embedding <-> $1 LIMIT 10")
        shown = f"EXECUTE nearest('{QUERIES[0]}')"
        first = ids(session, shown)
        assert NOTHING in explain(session, shown, "VERBOSE, COSTS off")
        assert ids(session, shown) == first
    with psycopg.connect(connection.info.dsn, autocommit=True) as session:
        run(session, "SET enable_seqscan = off; SET enable_sort = off")
        assert NOTHING not in explain(session, NEAREST, "VERBOSE, COSTS off")
        assert NOTHING in explain(session, NEAREST, "VERBOSE, COSTS off")


def test_a_function_may_be_the_first_statement_of_a_session(connection: psycopg.Connection) -> None:
    """PL/pgSQL caches its plan, which is marked as invalid while it is made."""
    body = f"BEGIN RETURN (SELECT array_agg(id) FROM ({NEAREST}) n); END"
    run(connection, f"CREATE FUNCTION first() RETURNS int[] LANGUAGE plpgsql AS $${body}$$")
    with psycopg.connect(connection.info.dsn, autocommit=True) as session:
        run(session, "SET enable_seqscan = off; SET enable_sort = off")
        found = [value(session, "SELECT first()") for _ in range(3)]
        run(session, OFF.replace("LOCAL", ""))
        assert found == [value(session, "SELECT first()")] * 3


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan", "auto"])
def test_kept_plans_follow_the_setting(connection: psycopg.Connection, mode: str) -> None:
    with psycopg.connect(connection.info.dsn, autocommit=True) as session:
        run(session, f"SET enable_seqscan = off; SET enable_sort = off; SET plan_cache_mode = {mode}")
        run(session, "PREPARE nearest(vector) AS SELECT id FROM items ORDER BY embedding <-> $1 LIMIT 10")
        found = []
        for setting in ["on", "off", "on"]:
            run(session, f"SET pagehop.skip_unread_distances = {setting}")
            found += [ids(session, f"EXECUTE nearest('{QUERIES[0]}')") for _ in range(7)]
            plan = explain(session, f"EXECUTE nearest('{QUERIES[0]}')", "VERBOSE, COSTS off")
            assert (NOTHING in plan) == (setting == "on"), plan
        assert found == [found[0]] * len(found)


def test_functions_give_the_same(connection: psycopg.Connection) -> None:
    body = "SELECT id FROM items ORDER BY embedding <-> $1 LIMIT 10"
    run(connection, f"CREATE FUNCTION in_sql(vector) RETURNS SETOF int LANGUAGE sql AS '{body}'")
    run(
        connection,
        f"CREATE FUNCTION in_plpgsql(vector) RETURNS SETOF int LANGUAGE plpgsql AS 'BEGIN RETURN QUERY {body}; END'",
    )
    with only_by_index(connection):
        truth = ids(connection, NEAREST)
        for name in ["in_sql", "in_plpgsql"]:
            for _ in range(7):
                assert ids(connection, f"SELECT * FROM {name}('{QUERIES[0]}')") == truth


def test_a_plan_for_workers_gives_the_same(connection: psycopg.Connection) -> None:
    with only_by_index(connection):
        truth = ids(connection, NEAREST)
        run(connection, "SET LOCAL debug_parallel_query = on")
        assert "Gather" in explain(connection, NEAREST)
        assert ids(connection, NEAREST) == truth
        run(connection, "SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0")
        assert ids(connection, f"SELECT id FROM ({NEAREST}) n WHERE id >= 0") == truth


def test_other_indexes_are_left_alone(connect: Connect) -> None:
    connection = connect()
    run(connection, "CREATE TABLE items (id int PRIMARY KEY, embedding vector(24), note text)")
    fill(connection, vectors(300, seed=1))
    run(connection, "CREATE INDEX items_other ON items USING hnsw (embedding vector_l2_ops); LOAD 'pagehop'")
    with only_by_index(connection):
        plan = explain(connection, NEAREST, "VERBOSE, COSTS off")
    assert "items_other" in plan
    assert NOTHING not in plan


def test_other_extensions_hooks_are_called(new_cluster: Callable[..., Cluster], server: Server) -> None:
    if not (server.library_folder / "pg_stat_statements.so").exists():
        pytest.skip("the server has no pg_stat_statements")
    cluster = new_cluster(shared_preload_libraries="pg_stat_statements", **{"pg_stat_statements.track_planning": True})
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, "CREATE EXTENSION pg_stat_statements")
        _fill(connection)
        with only_by_index(connection):
            for _ in range(5):
                run(connection, NEAREST)
            assert NOTHING in explain(connection, NEAREST, "VERBOSE, COSTS off")
        counted = "SELECT plans FROM pg_stat_statements WHERE query LIKE 'SELECT id FROM items ORDER BY%'"
        assert value(connection, counted) == 5
    cluster.remove()
