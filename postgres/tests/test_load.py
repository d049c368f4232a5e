"""Rows of one statement wait and are added together. Apart from the time, nothing shows this."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import (
    QUERIES,
    Connect,
    by_index,
    create,
    everything,
    fill,
    ids,
    number,
    recall,
    run,
    value,
    vectors,
)
from tests.test_bad_input import damage, without_checksums
from tests.test_cancel import canceled
from tests.test_inspect import ask, check

# No insertion trains an index over GROWN_ROWS rows, so only a few rows of a statement wait for it.
YOUNG_ROWS, GROWN_ROWS = 300, 6000


@pytest.fixture(params=[YOUNG_ROWS, GROWN_ROWS])
def loaded(request: pytest.FixtureRequest, connect: Connect) -> tuple[psycopg.Connection, int]:
    """A table with an index over YOUNG_ROWS or GROWN_ROWS rows, whose ids begin at 0."""
    connection, rows = connect(), int(request.param)
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    run(connection, "DROP INDEX items_embedding")
    fill(connection, vectors(rows, seed=1))
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    return connection, rows


def test_a_load_into_an_empty_index_trains_it_once(connect: Connect) -> None:
    connection = connect()
    create(connection)
    fill(connection, vectors(5000, seed=1))
    # Other sessions wait for a training, so it uses at most 4,096 rows.
    info = ask(connection, "pagehop_info")
    assert (info["trained_rows"], info["nodes"]) == (4096, 5000)
    assert check(connection)["nodes"] == 5000
    assert everything(connection) == list(range(5000))
    # The index is calibrated for the rows that trained it.
    assert recall(connection) > 0.96
    run(connection, "SET maintenance_work_mem = '1MB'")
    run(connection, "TRUNCATE items")
    fill(connection, vectors(5000, seed=1))
    assert check(connection)["nodes"] == 5000
    assert everything(connection) == list(range(5000))


def test_a_statement_that_fails_adds_no_row_that_waits(loaded: tuple[psycopg.Connection, int]) -> None:
    connection, rows = loaded
    with pytest.raises(errors.DataException):
        fill(connection, [*vectors(40, seed=2), "[1, 2]"], first=100_000)
    with pytest.raises(errors.DivisionByZero):
        run(
            connection,
            f"INSERT INTO items SELECT 200000 + n, '{QUERIES[0]}' FROM generate_series(-30, 30) n WHERE 1 / n < 2",
        )
    assert check(connection)["nodes"] == rows
    # Rows that were rolled back stay in the index until VACUUM, but no query sees them.
    run(connection, "BEGIN")
    fill(connection, vectors(200, seed=3), first=300_000)
    assert by_index(connection, vectors(200, seed=3)[0], 1) == [300_000]
    run(connection, "ROLLBACK")
    assert everything(connection) == list(range(rows))
    fill(connection, vectors(100, seed=4), first=400_000)
    run(connection, "VACUUM items")
    assert everything(connection) == [*range(rows), *range(400_000, 400_100)]
    assert check(connection)["dead_nodes"] == 0
    assert recall(connection) > 0.97


def test_a_row_that_no_index_can_place_is_refused_in_its_line(loaded: tuple[psycopg.Connection, int]) -> None:
    """The error once came with the last row, since the rows of a statement wait."""
    connection, rows = loaded
    lines = vectors(30, seed=2)
    lines[9] = str([1e19] * 24)
    with pytest.raises(psycopg.Error, match="too large for 32-bit floats") as raised:
        fill(connection, lines, first=100_000)
    assert "line 10" in (raised.value.diag.context or ""), raised.value.diag.context
    assert check(connection)["nodes"] == rows


def test_savepoints_keep_the_rows_of_what_they_keep(loaded: tuple[psycopg.Connection, int]) -> None:
    connection, rows = loaded
    with connection.transaction():
        fill(connection, vectors(70, seed=2), first=100_000)
        with pytest.raises(errors.UniqueViolation), connection.transaction():
            fill(connection, vectors(70, seed=3), first=100_000 - 69)
        with connection.transaction():
            fill(connection, vectors(70, seed=4), first=200_000)
        with connection.transaction():
            fill(connection, vectors(70, seed=5), first=300_000)
            raise psycopg.Rollback
    assert everything(connection) == [*range(rows), *range(100_000, 100_070), *range(200_000, 200_070)]
    # The last row failed. Of the rows before it, the grown index has the first 64, and the young
    # one none.
    assert check(connection)["nodes"] == rows + 3 * 70 + (64 if rows == GROWN_ROWS else 0)
    run(connection, "VACUUM items")
    assert everything(connection) == [*range(rows), *range(100_000, 100_070), *range(200_000, 200_070)]
    check(connection)


def test_a_canceled_load_leaves_an_index(loaded: tuple[psycopg.Connection, int]) -> None:
    connection, rows = loaded
    run(connection, "CREATE TABLE fresh (id int, embedding vector)")
    fill(connection, vectors(3000, seed=2), first=100_000, table="fresh")
    insert = "INSERT INTO items SELECT id, embedding FROM fresh"
    times = 0
    for after in [1, 3, 10, 30, 60, 100, 150, 250]:
        was_canceled = canceled(connection, insert, after)
        times += was_canceled
        if not was_canceled:
            run(connection, "DELETE FROM items WHERE id >= 100000")
    assert times > 3
    assert everything(connection) == list(range(rows))
    run(connection, "VACUUM items")
    assert check(connection)["dead_nodes"] == 0
    run(connection, insert)
    assert everything(connection) == [*range(rows), *range(100_000, 103_000)]
    # What is found with the settings of other tests depends on the steps that were canceled.
    run(connection, "SET pagehop.search_list = 200")
    assert recall(connection, vectors(300, seed=3)) > 0.99


def test_statements_within_a_statement_see_its_rows(loaded: tuple[psycopg.Connection, int]) -> None:
    """Triggers and functions search during the statement. The oracle is a scan of the table at that
    moment.
    """
    connection, rows = loaded
    run(
        connection,
        """
        CREATE TABLE seen (what text, by_index int, by_scan int);
        CREATE FUNCTION look(what text, query vector) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
        DECLARE one int; other int;
        BEGIN
            SET LOCAL enable_seqscan = off; SET LOCAL pagehop.recall = 0.999;
            SELECT id INTO one FROM items ORDER BY embedding <-> query LIMIT 1;
            SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off;
            SELECT id INTO other FROM items ORDER BY embedding <-> query, id LIMIT 1;
            SET LOCAL enable_indexscan = on;
            INSERT INTO seen VALUES (what, one, other);
            RETURN one;
        END $$;
        CREATE FUNCTION after() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM look('after', NEW.embedding); RETURN NULL; END $$;
        CREATE FUNCTION before() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM look('before', NEW.embedding); RETURN NEW; END $$;
        """,
    )
    fresh = vectors(20, seed=2)
    values = ", ".join(f"({100_000 + at}, '{row}')" for at, row in enumerate(fresh))
    # Each row searches for the vector of the row before it.
    run(
        connection,
        f"INSERT INTO items SELECT id, embedding, look('select', lag(embedding, 1, embedding) OVER (ORDER BY id))"
        f" FROM (VALUES {values}) v (id, e), LATERAL (SELECT e::vector) AS w (embedding)",
    )
    run(connection, "CREATE TRIGGER after AFTER INSERT ON items FOR EACH ROW EXECUTE FUNCTION after()")
    fill(connection, vectors(20, seed=3), first=200_000)
    run(connection, "CREATE TRIGGER before BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION before()")
    fill(connection, vectors(20, seed=4), first=300_000)
    assert run(connection, "SELECT * FROM seen WHERE by_index IS DISTINCT FROM by_scan") == []
    assert number(connection, "SELECT count(*) FROM seen WHERE what = 'after' AND by_index >= 200000") == 40
    assert number(connection, "SELECT count(*) FROM seen WHERE what = 'select' AND by_index >= 100000") > 0
    assert len(everything(connection)) == rows + 60


def test_a_statement_that_survives_an_error_of_its_index_fails(new_cluster: Callable[..., Cluster]) -> None:
    cluster = without_checksums(new_cluster)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        path = str(value(connection, "SELECT pg_relation_filepath('items_embedding')"))
        size = number(connection, "SELECT pg_relation_size('items_embedding') / 8192")
        run(
            connection,
            """
            CREATE FUNCTION careless() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM count(*) FROM items;
                RETURN NEW;
            EXCEPTION WHEN OTHERS THEN
                RETURN NEW;
            END $$;
            CREATE TRIGGER careless BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION careless();
            """,
        )
    damage(cluster, path, range(size // 2, size), 24, b"\x5a" * 8168)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        with pytest.raises(errors.ObjectNotInPrerequisiteState, match='index "items_embedding" lacks rows of a state'):
            fill(connection, vectors(5, seed=2), first=100_000)
        assert number(connection, "SELECT count(*) FROM items") == 600
        run(connection, "REINDEX INDEX items_embedding")
        fill(connection, vectors(5, seed=2), first=100_000)
        assert everything(connection) == [*range(600), *range(100_000, 100_005)]


def numbers(vector: str) -> list[float]:
    """The components of a vector, from pgvector's text, rounded like the texts of `vectors`."""
    return [round(float(part), 5) for part in vector.strip("[]").split(",")]


def test_rows_that_on_conflict_takes_back_do_not_come_into_the_index(connect: Connect) -> None:
    """Sessions insert the same ids, while vacuum frees the places of the rejected rows."""
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(100, seed=1), first=100_000)
    rows = vectors(600, seed=2)
    done = threading.Event()
    sessions = [connect() for _ in range(4)]
    failed: list[BaseException] = []

    def insert(session: psycopg.Connection, turn: int) -> None:
        try:
            for first in range(0, 600, 20):
                values = ", ".join(f"({at}, '{rows[(at + turn) % 600]}')" for at in range(first, first + 20))
                run(session, f"INSERT INTO items (id, embedding) VALUES {values} ON CONFLICT DO NOTHING")
        except BaseException as error:
            failed.append(error)

    def vacuum() -> None:
        try:
            session = connect()
            while not done.is_set():
                run(session, "VACUUM items")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=insert, args=(session, turn)) for turn, session in enumerate(sessions)]
    cleaner = threading.Thread(target=vacuum)
    cleaner.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    cleaner.join()
    assert failed == []
    expected = [*range(600), *range(100_000, 100_100)]
    assert everything(connection) == expected
    # If the place of a rejected row had another row, the index would have the rejected vector.
    # Vectors are compared, not ids: each session has other vectors for the ids, so two ids may have
    # the same one.
    there = {at: numbers(str(text)) for at, text in run(connection, "SELECT id, embedding::text FROM items")}
    present = [row for row in rows[::7] if numbers(row) in there.values()]
    assert len(present) > 40
    assert [there[by_index(connection, row, 1)[0]] for row in present] == [numbers(row) for row in present]
    run(connection, "VACUUM items")
    assert everything(connection) == expected
    check(connection)


def test_partitions_wait_each_for_its_own_index(connect: Connect) -> None:
    connection = connect()
    run(
        connection,
        "CREATE TABLE parts (id int, embedding vector(24)) PARTITION BY HASH (id);"
        + "".join(
            f"CREATE TABLE part_{at} PARTITION OF parts FOR VALUES WITH (MODULUS 12, REMAINDER {at});"
            for at in range(12)
        )
        + "CREATE INDEX parts_embedding ON parts USING pagehop (embedding vector_l2_ops)",
    )
    for memory, first in [("64MB", 0), ("1MB", 10_000)]:
        run(connection, f"SET maintenance_work_mem = '{memory}'")
        fill(connection, vectors(3000, seed=1), first=first, table="parts")
    query = f"SELECT id FROM parts ORDER BY embedding <-> '{QUERIES[0]}'"
    run(connection, "SET enable_sort = off; SET enable_seqscan = off; SET pagehop.scan_order = relaxed_order")
    assert sorted(ids(connection, f"{query} LIMIT 10000")) == [*range(3000), *range(10_000, 13_000)]
    for at in range(12):
        check(connection, f"part_{at}_embedding_idx")


def test_changed_vectors_are_found_as_soon_as_their_statement_ends(loaded: tuple[psycopg.Connection, int]) -> None:
    connection, rows = loaded
    run(connection, "BEGIN")
    run(connection, f"UPDATE items SET embedding = '{QUERIES[0]}' WHERE id % 7 = 0 AND id < 200")
    moved = [at for at in range(200) if at % 7 == 0]
    assert sorted(by_index(connection, QUERIES[0], len(moved))) == moved
    fresh = f"SELECT 500000 + n, '{QUERIES[1]}'::vector FROM generate_series(1, 100) n"
    returned = ids(connection, f"INSERT INTO items (id, embedding) {fresh} RETURNING id")
    assert sorted(by_index(connection, QUERIES[1], 100)) == returned
    run(
        connection,
        "MERGE INTO items USING (SELECT 500095 + n AS id FROM generate_series(1, 10) n) AS new ON items.id = new.id"
        f" WHEN MATCHED THEN UPDATE SET embedding = '{QUERIES[2]}'"
        f" WHEN NOT MATCHED THEN INSERT (id, embedding) VALUES (new.id, '{QUERIES[2]}')",
    )
    assert sorted(by_index(connection, QUERIES[2], 10)) == list(range(500_096, 500_106))
    run(connection, "COMMIT")
    assert len(everything(connection)) == rows + 105


def test_a_prepared_transaction_has_its_rows(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(autovacuum=False, max_prepared_transactions=2)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        fill(connection, vectors(300, seed=1))
        run(connection, "BEGIN")
        fill(connection, vectors(300, seed=2), first=1000)
        run(connection, "PREPARE TRANSACTION 'rows'")
        assert everything(connection) == list(range(300))
    cluster.kill()
    cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, "COMMIT PREPARED 'rows'")
        assert everything(connection) == [*range(300), *range(1000, 1300)]
        check(connection)


def test_a_cursor_that_a_statement_opened_before_sees_the_rows_that_it_adds(
    loaded: tuple[psycopg.Connection, int],
) -> None:
    """No statement starts between the last insertion and the FETCH."""
    connection, rows = loaded
    run(
        connection,
        "CREATE FUNCTION opened() RETURNS int LANGUAGE plpgsql VOLATILE AS $$ DECLARE c refcursor := 'near'; BEGIN "
        f"OPEN c FOR SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}'; RETURN 1; END $$;"
        "CREATE FUNCTION fetched() RETURNS text LANGUAGE plpgsql VOLATILE AS $$ DECLARE c refcursor := 'near'; "
        "row record; BEGIN FETCH c INTO row; RETURN row.id; END $$",
    )
    for others in [["indexscan"], ["seqscan", "sort", "bitmapscan"]]:
        with connection.transaction(force_rollback=True):
            run(connection, ";".join(f"SET LOCAL enable_{plan} = off" for plan in others))
            # The first row opens the cursor. Its snapshot has the rows that follow.
            added = run(
                connection,
                f"INSERT INTO items SELECT {rows} + n, '{QUERIES[0]}', CASE n WHEN 0 THEN opened()::text "
                "WHEN 5 THEN fetched() END FROM generate_series(0, 5) n RETURNING note",
            )
        assert rows <= int(str(added[5][0])) < rows + 5, others
