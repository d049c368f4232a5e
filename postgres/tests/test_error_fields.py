"""Errors keep all of their fields in a session that has loaded the library: those of statements
that have nothing to do with it, and those of functions that an index expression calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import QUERIES, Connect, create, fill, number, only_by_index, run, value, vectors
from tests.test_maintenance import wait
from tests.test_training import WANTS, grow

LOST = """
CREATE FUNCTION lost(why text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'lost: %', why USING ERRCODE = 'PT404', CONSTRAINT = 'a_rule', COLUMN = 'a_column',
        DATATYPE = 'a_type', TABLE = 'a_table', SCHEMA = 'a_schema', DETAIL = 'a detail', HINT = 'a hint';
END $$
"""

# Raises the error above if the setting says so.
PICKY = """
CREATE FUNCTION picky(embedding vector) RETURNS vector LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF current_setting('test.fails', true) = 'on' THEN PERFORM public.lost('picky'); END IF;
    RETURN embedding;
END $$
"""


@pytest.fixture(params=["LOAD", "session_preload_libraries"])
def connection(request: pytest.FixtureRequest, cluster: Cluster, database: str) -> Iterator[psycopg.Connection]:
    """A session with the library."""
    options = "-c session_preload_libraries=pagehop" if request.param != "LOAD" else ""
    with psycopg.connect(cluster.dsn(database), autocommit=True, options=options) as connection:
        if request.param == "LOAD":
            run(connection, "LOAD 'pagehop'")
        run(connection, LOST)
        yield connection


def failed(connection: psycopg.Connection, sql: str) -> errors.Diagnostic:
    """The fields of the error that a statement raises."""
    with pytest.raises(psycopg.Error) as raised:
        run(connection, sql)
    return raised.value.diag


def assert_is_lost(found: errors.Diagnostic, why: str) -> None:
    """All fields of the error of `lost`."""
    assert (found.sqlstate, found.message_primary) == ("PT404", f"lost: {why}")
    assert (found.message_detail, found.message_hint) == ("a detail", "a hint")
    assert (found.schema_name, found.table_name, found.column_name) == ("a_schema", "a_table", "a_column")
    assert (found.datatype_name, found.constraint_name) == ("a_type", "a_rule")
    assert "PL/pgSQL function" in (found.context or "")
    assert "lost(text) line 3 at RAISE" in (found.context or "")


def test_a_constraint_that_is_violated_is_named(connection: psycopg.Connection) -> None:
    run(connection, "CREATE DOMAIN positive AS int CONSTRAINT is_positive CHECK (VALUE > 0)")
    run(
        connection,
        "CREATE TABLE kept (id int PRIMARY KEY, name text NOT NULL, size positive); INSERT INTO kept VALUES (1, 'a')",
    )
    found = failed(connection, "INSERT INTO kept VALUES (1, 'b')")
    assert (found.sqlstate, found.constraint_name) == ("23505", "kept_pkey")
    assert (found.schema_name, found.table_name) == ("public", "kept")
    found = failed(connection, "INSERT INTO kept VALUES (2, NULL)")
    assert (found.sqlstate, found.table_name, found.column_name) == ("23502", "kept", "name")
    found = failed(connection, "INSERT INTO kept SELECT n, 'c', n - 5 FROM generate_series(2, 9) n")
    assert (found.sqlstate, found.datatype_name, found.constraint_name) == ("23514", "positive", "is_positive")
    # The planner computes this one.
    found = failed(connection, "SELECT (1 - 5)::positive")
    assert (found.sqlstate, found.datatype_name, found.constraint_name) == ("23514", "positive", "is_positive")
    assert run(connection, "SELECT id FROM kept") == [(1,)]


def test_any_code_and_the_context_reach_the_client(connection: psycopg.Connection) -> None:
    assert_is_lost(failed(connection, "SELECT lost('here')"), "here")
    assert_is_lost(failed(connection, "DO $$ BEGIN PERFORM lost('there'); END $$"), "there")
    found = failed(connection, "DO $$ BEGIN EXECUTE 'SELECT 1 + '; END $$")
    assert (found.sqlstate, found.internal_query) == ("42601", "SELECT 1 + ")
    assert found.internal_position == "12"


def test_any_code_can_be_caught(connection: psycopg.Connection) -> None:
    run(
        connection,
        """
        CREATE FUNCTION caught(why text) RETURNS text LANGUAGE plpgsql AS $$
        DECLARE code text; rule text; rows_of text; place text;
        BEGIN
            PERFORM lost(why);
        EXCEPTION WHEN SQLSTATE 'PT404' THEN
            GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, rule = CONSTRAINT_NAME, rows_of = TABLE_NAME,
                place = PG_EXCEPTION_CONTEXT;
            RETURN concat_ws(' ', code, rule, rows_of, place);
        END $$
        """,
    )
    # Each error that PostgreSQL keeps takes one of five places until it is dropped.
    for _ in range(10):
        found = str(value(connection, "SELECT caught('here')"))
        assert found.startswith("PT404 a_rule a_table PL/pgSQL function lost(text) line 3 at RAISE\n")
        assert "PL/pgSQL function caught(text) line 4 at PERFORM" in found


def test_a_search_knows_its_statement_after_an_inner_one_failed(connection: psycopg.Connection) -> None:
    """A search for as many rows as the LIMIT says takes more hops than one for ten."""
    create(connection)
    fill(connection, vectors(3000, seed=1))
    run(
        connection,
        """
        CREATE FUNCTION survives(fails bool) RETURNS bool LANGUAGE plpgsql AS $$
        BEGIN
            IF fails THEN PERFORM lost('inside') FROM generate_series(1, 3); END IF;
            RETURN true;
        EXCEPTION WHEN SQLSTATE 'PT404' THEN RETURN true;
        END $$
        """,
    )
    hops = {}
    for fails in ["true", "false"]:
        with only_by_index(connection):
            query = f"CASE WHEN o.is_there THEN '{QUERIES[0]}'::vector END"
            near = f"SELECT id FROM items ORDER BY embedding <-> {query} LIMIT 200"
            outer = f"(SELECT survives({fails}) AS is_there FROM generate_series(1, 2) OFFSET 0) o"
            assert len(run(connection, f"SELECT near.id FROM {outer}, LATERAL ({near}) near")) == 400
            hops[fails] = number(connection, "SELECT hops FROM pagehop_last_scan()")
            run(connection, f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10")
            assert number(connection, "SELECT hops FROM pagehop_last_scan()") < hops[fails] / 2
    assert hops["true"] == hops["false"]


def test_the_log_has_the_statements_of_a_deadlock(
    cluster: Cluster, connection: psycopg.Connection, connect: Connect
) -> None:
    other, watcher = connect(), connect()
    run(other, "LOAD 'pagehop'")
    run(other, "CREATE TABLE pairs (id int PRIMARY KEY, note text); INSERT INTO pairs VALUES (1), (2)")
    begun = len(cluster.log_text())
    run(other, "BEGIN; SET LOCAL deadlock_timeout = '10s'; UPDATE pairs SET note = 'first' WHERE id = 1")
    run(connection, "BEGIN; UPDATE pairs SET note = 'second' WHERE id = 2")
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(run, other, "UPDATE pairs SET note = 'third' WHERE id = 2")
        wait(lambda: number(watcher, "SELECT count(*) FROM pg_locks WHERE NOT granted") > 0)
        found = failed(connection, "UPDATE pairs SET note = 'fourth' WHERE id = 1")
        run(connection, "ROLLBACK")
        waiting.result(timeout=60)
    assert found.sqlstate == "40P01"
    assert len(re.findall(r"Process \d+ waits for ShareLock on transaction", found.message_detail or "")) == 2
    assert 'while updating tuple (0,1) in relation "pairs"' in (found.context or "")
    log = cluster.log_text()[begun:]
    for note, row in [("third", 2), ("fourth", 1)]:
        assert re.search(rf"Process \d+: UPDATE pairs SET note = '{note}' WHERE id = {row}", log)


def picky_index(connection: psycopg.Connection, dim: int) -> str:
    """A statement that indexes an expression which calls a function."""
    run(connection, PICKY)
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({dim}), note text)")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    return f"CREATE INDEX items_embedding ON items USING pagehop ((picky(embedding)::vector({dim})) vector_l2_ops)"


def test_an_index_expression_fails_in_create_index(connection: psycopg.Connection) -> None:
    statement = picky_index(connection, 24)
    fill(connection, vectors(300, seed=1))
    run(connection, "SET test.fails = on")
    for _ in range(10):
        found = failed(connection, statement)
        assert_is_lost(found, "picky")
        assert "function public.picky(vector)" in (found.context or "") or "function picky(vector)" in (
            found.context or ""
        )
    caught = f"DO $do$ BEGIN {statement}; EXCEPTION WHEN SQLSTATE 'PT404' THEN NULL; END $do$"
    for _ in range(10):
        run(connection, caught)
    run(connection, f"SET test.fails = off; {statement}")
    assert number(connection, "SELECT nodes FROM pagehop_check('items_embedding')") == 300


def test_an_index_expression_fails_in_a_training(connection: psycopg.Connection) -> None:
    run(connection, picky_index(connection, 800))
    grow(connection, vectors(1800, seed=1, dim=800))
    assert value(connection, WANTS) is True
    run(connection, "SET test.fails = on")
    for _ in range(6):
        assert_is_lost(failed(connection, "VACUUM items"), "picky")
    run(connection, "SET test.fails = off")
    run(connection, "VACUUM items")
    assert value(connection, WANTS) is False
    assert number(connection, "SELECT nodes FROM pagehop_check('items_embedding')") == 1800


def test_an_index_expression_fails_in_a_search(connection: psycopg.Connection) -> None:
    """A search whose rows are locked computes distances itself."""
    run(connection, picky_index(connection, 24))
    fill(connection, vectors(600, seed=1))
    order = f"ORDER BY picky(embedding)::vector(24) <-> '{QUERIES[0]}'"
    for _ in range(10):
        with only_by_index(connection):
            run(connection, "SET LOCAL test.fails = on")
            with pytest.raises(psycopg.Error) as raised, connection.transaction():
                run(connection, f"SELECT id FROM items {order} LIMIT 5 FOR UPDATE")
            assert_is_lost(raised.value.diag, "picky")
            run(connection, "SET LOCAL test.fails = off")
            assert len(run(connection, f"SELECT id FROM items {order} LIMIT 5 FOR UPDATE")) == 5
