"""Statements on whole indexes and tables: create, rebuild, move, truncate, drop, dump."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from devserver import Cluster, DevServerError
from devserver.processes import run as run_program
from devserver.processes import server_owner
from tests.items import (
    QUERIES,
    Connect,
    by_index,
    create,
    everything,
    explain,
    fill,
    number,
    only_by_index,
    recall,
    run,
    value,
    vectors,
)
from tests.test_inspect import check
from tests.test_maintenance import wait

INDEX = "INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)"


@pytest.fixture
def connection(connect: Connect) -> psycopg.Connection:
    """Connects to a database with an index that was filled with 600 rows by insertions."""
    made = connect()
    # Some indexes here outgrow their calibration, so the slack is fixed.
    run(made, "SET pagehop.slack = 0.2")
    create(made)
    fill(made, vectors(600, seed=1))
    return made


@contextmanager
def inserting(connection: psycopg.Connection, first: int) -> Iterator[tuple[list[int], threading.Thread]]:
    """Inserts rows one by one in a thread until the end of the block. The list then has the ids of
    the committed rows.
    """
    rows, inserted, stop = vectors(20_000, seed=5), list[int](), threading.Event()
    failures = list[Exception]()

    def insert() -> None:
        try:
            for at in itertools.count():
                if stop.is_set():
                    return
                values = (first + at, rows[at % len(rows)])
                connection.execute("INSERT INTO items (id, embedding) VALUES (%s, %s)", values)
                inserted.append(first + at)
        except psycopg.Error as error:
            failures.append(error)

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        yield inserted, thread
    finally:
        stop.set()
        thread.join()
    assert failures == []


def statement_of(connection: psycopg.Connection, statement: str) -> None:
    """Executes a statement that creates or rebuilds an index."""
    if statement.startswith("CREATE"):
        run(connection, "DROP INDEX items_embedding")
    run(connection, statement)


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE {INDEX}",
        f"CREATE {INDEX.replace('INDEX', 'INDEX CONCURRENTLY')}",
        "REINDEX INDEX items_embedding",
        "REINDEX INDEX CONCURRENTLY items_embedding",
        "REINDEX TABLE items",
        "REINDEX TABLE CONCURRENTLY items",
        "VACUUM FULL items",
        "CLUSTER items USING items_pkey",
        "ALTER TABLE items ALTER embedding TYPE vector(24) USING embedding",
        "ALTER TABLE items SET UNLOGGED",
    ],
)
def test_an_index_is_made_again(connection: psycopg.Connection, statement: str) -> None:
    run(connection, "DELETE FROM items WHERE id % 3 = 0")
    left = [at for at in range(600) if at % 3]
    statement_of(connection, statement)
    assert everything(connection) == left
    assert recall(connection) > 0.95
    fill(connection, vectors(50, seed=2), first=1000)
    assert everything(connection) == [*left, *range(1000, 1050)]
    run(connection, "VACUUM items")
    assert everything(connection) == [*left, *range(1000, 1050)]


@pytest.mark.parametrize(
    "statement",
    [f"CREATE {INDEX.replace('INDEX', 'INDEX CONCURRENTLY')}", "REINDEX INDEX CONCURRENTLY items_embedding"],
)
def test_rows_inserted_while_an_index_is_made_concurrently_are_in_it(
    connect: Connect, connection: psycopg.Connection, statement: str
) -> None:
    fill(connection, vectors(3000, seed=2), first=10_000)
    with inserting(connect(), first=100_000) as (inserted, thread):
        statement_of(connection, statement)
        # Some rows must go into the finished index.
        enough = len(inserted) + 50
        wait(lambda: len(inserted) >= enough or not thread.is_alive())
    assert everything(connection) == [*range(600), *range(10_000, 13_000), *inserted]
    assert recall(connection) > 0.95
    assert value(connection, "SELECT bool_and(indisvalid) FROM pg_index WHERE indrelid = 'items'::regclass") is True


def test_a_concurrent_build_waits_for_an_open_transaction_and_takes_its_rows(
    connect: Connect, connection: psycopg.Connection
) -> None:
    other = connect()
    run(connection, "DROP INDEX items_embedding")
    failures = list[Exception]()

    def build() -> None:
        try:
            run(connection, f"CREATE {INDEX.replace('INDEX', 'INDEX CONCURRENTLY')}")
        except psycopg.Error as error:
            failures.append(error)

    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE INDEX CONC%'"
    watcher = connect()
    with other.transaction():
        fill(other, vectors(40, seed=2), first=1000)
        thread = threading.Thread(target=build)
        thread.start()
        wait(lambda: number(watcher, waiting) > 0 or not thread.is_alive())
        assert thread.is_alive(), f"the build did not wait: {failures}"
        fill(other, vectors(40, seed=3), first=2000)
    thread.join()
    assert failures == []
    assert everything(connection) == [*range(600), *range(1000, 1040), *range(2000, 2040)]


def test_a_truncated_table_begins_again(connect: Connect, connection: psycopg.Connection) -> None:
    other = connect()
    assert len(by_index(other, QUERIES[0])) == 10
    run(connection, "TRUNCATE items")
    assert by_index(connection, QUERIES[0]) == []
    assert by_index(other, QUERIES[0]) == []
    fill(other, vectors(100, seed=2), first=5000)
    assert everything(connection) == list(range(5000, 5100))


def test_a_truncation_that_is_rolled_back_loses_nothing(connection: psycopg.Connection) -> None:
    with connection.transaction(force_rollback=True):
        run(connection, "TRUNCATE items")
        fill(connection, vectors(100, seed=2), first=5000)
        assert everything(connection) == list(range(5000, 5100))
        with connection.transaction(force_rollback=True):
            run(connection, "REINDEX INDEX items_embedding")
            assert everything(connection) == list(range(5000, 5100))
        assert everything(connection) == list(range(5000, 5100))
    assert everything(connection) == list(range(600))


def test_an_index_that_is_rolled_back_leaves_no_file(connection: psycopg.Connection) -> None:
    with connection.transaction(force_rollback=True):
        run(connection, f"CREATE {INDEX.replace('items_embedding', 'another')}")
        assert by_index(connection, QUERIES[0], index="another")
        path = value(connection, "SELECT pg_relation_filepath('another')")
        size = f"SELECT (pg_stat_file('{path}')).size"
        assert number(connection, size) > 0
    run(connection, "CHECKPOINT")
    missing = number(connection, f"SELECT count(*) FROM pg_stat_file('{path}', true) WHERE size > 0")
    assert missing == 0
    assert everything(connection) == list(range(600))


def test_a_dropped_index_is_scanned_no_more(connect: Connect, connection: psycopg.Connection) -> None:
    other = connect()
    assert len(by_index(other, QUERIES[0])) == 10
    run(connection, "DROP INDEX items_embedding")
    nearest = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"
    assert "items_embedding" not in explain(other, nearest)
    assert len(run(other, nearest)) == 10
    run(connection, f"CREATE {INDEX}")
    assert len(by_index(other, QUERIES[0])) == 10


def test_another_session_sees_the_index_that_was_made_again(connect: Connect, connection: psycopg.Connection) -> None:
    other = connect()
    for version in range(3):
        assert everything(other) == list(range(600 - 100 * version))
        run(connection, f"DELETE FROM items WHERE id >= {500 - 100 * version}")
        run(connection, "REINDEX INDEX items_embedding")
        assert everything(other) == list(range(500 - 100 * version))


def test_a_renamed_index_is_the_same(connection: psycopg.Connection) -> None:
    run(connection, "ALTER INDEX items_embedding RENAME TO near")
    run(connection, "ALTER TABLE items RENAME COLUMN embedding TO place")
    assert recall(connection, index="near", column="place") > 0.95


def test_a_column_of_another_type_gets_another_index(connection: psycopg.Connection) -> None:
    run(connection, "DROP INDEX items_embedding")
    run(connection, "ALTER TABLE items ALTER embedding TYPE halfvec(24)")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding halfvec_l2_ops)")
    assert recall(connection) > 0.95


@pytest.mark.parametrize(("empty", "dim"), [("TRUNCATE items", 8), ("DELETE FROM items", 40)])
def test_a_column_of_another_dimension_has_an_index_of_that_dimension(
    connection: psycopg.Connection, empty: str, dim: int
) -> None:
    alter = f"ALTER TABLE items ALTER embedding TYPE vector({dim})"
    with pytest.raises(psycopg.errors.DataException, match=f"expected {dim} dimensions, not 24"):
        run(connection, alter)
    assert everything(connection) == list(range(600))
    run(connection, empty)
    run(connection, alter)
    with pytest.raises(psycopg.errors.DataException, match=f"expected {dim} dimensions, not 24"):
        fill(connection, vectors(1, seed=2))
    fill(connection, vectors(300, seed=2, dim=dim))
    assert value(connection, "SELECT dim FROM pagehop_info('items_embedding')") == dim
    assert check(connection)["nodes"] == 300
    assert recall(connection, vectors(25, seed=99, dim=dim)) > 0.95


def test_an_index_that_is_marked_invalid_gets_rows_and_gives_none(connection: psycopg.Connection) -> None:
    mark = "UPDATE pg_index SET indisvalid = {} WHERE indexrelid = 'items_embedding'::regclass"
    nearest = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    run(connection, mark.format("false"))
    fill(connection, vectors(100, seed=2), first=1000)
    run(connection, f"UPDATE items SET embedding = '{QUERIES[0]}' WHERE id = 7")
    run(connection, "DELETE FROM items WHERE id >= 500 AND id < 600")
    with only_by_index(connection):
        assert "items_embedding" not in explain(connection, nearest)
        assert run(connection, nearest)[0] == (7,)
    run(connection, "VACUUM items")
    run(connection, mark.format("true"))
    assert by_index(connection, QUERIES[0], 1) == [7]
    assert everything(connection) == [*range(500), *range(1000, 1100)]
    assert check(connection)["nodes"] == 600
    assert recall(connection) > 0.95


def test_an_index_moves_to_another_tablespace(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster()
    folder = cluster.folder / "elsewhere"
    folder.mkdir()
    server_owner().own(folder)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        fill(connection, vectors(600, seed=1))
        run(connection, f"CREATE TABLESPACE elsewhere LOCATION '{folder}'")
        run(connection, "ALTER INDEX items_embedding SET TABLESPACE elsewhere")
        assert "pg_tblspc" in str(value(connection, "SELECT pg_relation_filepath('items_embedding')"))
        assert everything(connection) == list(range(600))
        fill(connection, vectors(100, seed=2), first=1000)
    cluster.kill()
    cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        assert everything(connection) == [*range(600), *range(1000, 1100)]
        run(connection, f"CREATE {INDEX.replace('items_embedding', 'another')} TABLESPACE elsewhere")
        assert by_index(connection, QUERIES[0], index="another")


def test_an_index_made_with_its_table_survives_a_crash_at_minimal_wal(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(wal_level="minimal", max_wal_senders=0, wal_skip_threshold=0)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        with connection.transaction():
            create(connection)
            fill(connection, vectors(300, seed=1))
            with connection.transaction():
                run(connection, "REINDEX INDEX items_embedding")
            fill(connection, vectors(300, seed=2), first=300)
            run(connection, "DELETE FROM items WHERE id < 100")
        fill(connection, vectors(100, seed=3), first=1000)
    cluster.kill()
    cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        assert everything(connection) == [*range(100, 600), *range(1000, 1100)]
        assert recall(connection) > 0.95


def test_a_database_copied_as_template_has_the_index(cluster: Cluster, connect: Connect, database: str) -> None:
    with connect() as connection:
        create(connection)
        fill(connection, vectors(300, seed=1))
    cluster.psql(f"CREATE DATABASE {database}_copy TEMPLATE {database}")
    try:
        with psycopg.connect(cluster.dsn(f"{database}_copy"), autocommit=True) as connection:
            assert everything(connection) == list(range(300))
            fill(connection, vectors(100, seed=2), first=1000)
            assert recall(connection) > 0.95
    finally:
        cluster.psql(f"DROP DATABASE {database}_copy WITH (FORCE)")


def test_a_dump_is_restored_with_its_index(cluster: Cluster, connect: Connect, database: str) -> None:
    connection = connect()
    create(connection)
    fill(connection, vectors(300, seed=1))
    dump = run_program([cluster.server.bin / "pg_dump", "-d", cluster.dsn(database)])
    run(connection, "DROP TABLE items; DROP EXTENSION pagehop; DROP EXTENSION vector")
    cluster.psql(dump, database)
    assert everything(connection) == list(range(300))
    assert recall(connection) > 0.95


def test_the_extension_goes_with_its_indexes_and_comes_back(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        run(connection, "DROP EXTENSION pagehop")
    run(connection, "DROP EXTENSION pagehop CASCADE")
    assert number(connection, "SELECT count(*) FROM items") == 600
    run(connection, "CREATE EXTENSION pagehop")
    run(connection, f"CREATE {INDEX}")
    assert recall(connection) > 0.95


def test_the_extension_lives_in_any_schema(connect: Connect) -> None:
    connection = connect()
    run(connection, "DROP EXTENSION pagehop; DROP EXTENSION vector")
    run(connection, "CREATE SCHEMA one; CREATE SCHEMA two")
    run(connection, "CREATE EXTENSION vector SCHEMA one; CREATE EXTENSION pagehop SCHEMA two")
    run(connection, "CREATE TABLE items (id int, embedding one.vector(24))")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding two.vector_l2_ops)")
    fill(connection, vectors(100, seed=1))
    with only_by_index(connection):
        near = f"SELECT id FROM items ORDER BY embedding OPERATOR(one.<->) '{QUERIES[0]}' LIMIT 10"
        assert "Index Scan using items_embedding" in explain(connection, near)
        assert len(run(connection, near)) == 10


def test_operator_classes_pass_the_servers_own_check(connection: psycopg.Connection) -> None:
    checked = run(
        connection,
        """SELECT opcname, amvalidate(c.oid) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
        WHERE amname = 'pagehop'""",
    )
    assert len(checked) == 6 + 11 + 3
    assert all(valid for _, valid in checked)


def test_progress_of_a_build_can_be_watched(connect: Connect, connection: psycopg.Connection) -> None:
    run(connection, "CREATE TABLE many AS SELECT * FROM items")
    for _ in range(5):
        run(connection, "INSERT INTO many SELECT * FROM many")
    watcher, phases, done = connect(), set[object](), threading.Event()

    def build() -> None:
        try:
            run(connection, "CREATE INDEX ON many USING pagehop (embedding vector_l2_ops)")
        finally:
            done.set()

    thread = threading.Thread(target=build)
    thread.start()
    while not done.is_set():
        phases |= {row[0] for row in run(watcher, "SELECT phase FROM pg_stat_progress_create_index")}
    thread.join()
    assert any(str(phase).startswith("building index: ") for phase in phases), phases


def test_a_read_only_server_refuses_to_make_an_index(cluster: Cluster, database: str) -> None:
    with pytest.raises(DevServerError, match="read-only transaction"):
        cluster.psql(
            "CREATE TABLE items (embedding vector(3)); SET default_transaction_read_only = on;"
            "CREATE INDEX ON items USING pagehop (embedding vector_l2_ops)",
            database,
        )


def test_a_column_that_no_longer_says_its_dimensions_keeps_its_index(connection: psycopg.Connection) -> None:
    """PostgreSQL keeps the file of the index, because only the modifier of the type changes."""
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    before = number(connection, "SELECT pg_relation_filenode('items_embedding')::int")
    rows = number(connection, "SELECT count(*) FROM items")
    run(connection, "ALTER TABLE items ALTER embedding TYPE vector")
    assert number(connection, "SELECT pg_relation_filenode('items_embedding')::int") == before
    for at in range(45):
        fill(connection, vectors(100, seed=50 + at), first=100_000 + 100 * at)
    assert value(connection, "SELECT wants_training FROM pagehop_info('items_embedding')") is True
    run(connection, "VACUUM items")
    assert number(connection, "SELECT trained_rows FROM pagehop_info('items_embedding')") == rows + 4500
    assert len(everything(connection)) == rows + 4500
    assert recall(connection) > 0.95
    with only_by_index(connection):
        unordered = "SELECT id FROM items ORDER BY embedding <-> (SELECT NULL::vector) LIMIT 5"
        assert "items_embedding" in explain(connection, unordered)
        assert len(run(connection, unordered)) == 5
    with pytest.raises(psycopg.errors.DataException, match="different vector dimensions 24 and 3"):
        run(connection, "INSERT INTO items VALUES (1000000, '[1,2,3]')")
    # An index that is built again has the dimensions of its first row.
    run(connection, "DELETE FROM items WHERE id < 100_000")
    for rewrite in ["REINDEX INDEX items_embedding", "VACUUM FULL items", "CLUSTER items USING items_pkey"]:
        run(connection, rewrite)
        assert check(connection)["nodes"] == 4500
        assert recall(connection) > 0.95
    run(connection, "DROP INDEX items_embedding; INSERT INTO items VALUES (1000000, '[1,2,3]')")
    with pytest.raises(psycopg.errors.DataException, match="different vector dimensions 24 and 3"):
        run(connection, f"CREATE {INDEX}")


@pytest.mark.parametrize("kind", ["", "UNLOGGED", "TEMP"])
def test_an_empty_index_keeps_the_dimensions_that_its_column_no_longer_says(connect: Connect, kind: str) -> None:
    connection = connect()
    run(connection, f"CREATE {kind} TABLE items (id int PRIMARY KEY, embedding vector(24))")
    run(connection, f"CREATE {INDEX}")
    fill(connection, vectors(500, seed=1))
    run(connection, "ALTER TABLE items ALTER embedding TYPE vector")
    for empties in [["TRUNCATE items"], ["DELETE FROM items", "VACUUM FULL items"], ["REINDEX TABLE items"]]:
        for statement in empties:
            run(connection, statement)
        assert check(connection)["nodes"] == 0
        assert everything(connection) == []
        with pytest.raises(psycopg.errors.DataException, match="different vector dimensions 24 and 3"):
            run(connection, "INSERT INTO items VALUES (1, '[1,2,3]')")
        fill(connection, vectors(300, seed=2))
        assert recall(connection) > 0.95
        run(connection, "TRUNCATE items")
    with connection.transaction(force_rollback=True):
        run(connection, "TRUNCATE items; TRUNCATE items")
        assert everything(connection) == []
    run(connection, "TRUNCATE items")
    run(connection, "DROP INDEX items_embedding")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="column does not have dimensions") as raised:
        run(connection, f"CREATE {INDEX}")
    assert "vector(n)" in str(raised.value.diag.message_hint)


def test_a_table_that_each_commit_empties_keeps_the_dimensions_of_its_rows(connect: Connect) -> None:
    connection = connect()
    run(connection, "CREATE TEMP TABLE items (id int, embedding vector) ON COMMIT DELETE ROWS")
    with connection.transaction():
        fill(connection, vectors(300, seed=1))
        run(connection, f"CREATE {INDEX}")
        assert len(by_index(connection, QUERIES[0])) == 10
    for change in ["SELECT 1", "TRUNCATE items", "REINDEX TABLE items", "BEGIN; TRUNCATE items; ROLLBACK"]:
        run(connection, change)
        assert everything(connection) == []
        with connection.transaction():
            fill(connection, vectors(200, seed=2))
            assert len(by_index(connection, QUERIES[0])) == 10
        with pytest.raises(psycopg.errors.DataException, match="different vector dimensions 24 and 3"):
            run(connection, "INSERT INTO items VALUES (1, '[1,2,3]')")
