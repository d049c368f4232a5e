"""Scans and insertions together with other parts of the server: workers, caches, isolation,
policies, errors.
"""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest

from tests.items import (
    QUERIES,
    RELAXED,
    Connect,
    assert_ascending,
    by_index,
    create,
    everything,
    explain,
    fill,
    ids,
    number,
    only_by_index,
    recall,
    run,
    value,
    vectors,
)

TOO_LONG = "[" + ",".join(["3e38"] * 24) + "]"


def nearest(query: str, limit: int = 10) -> str:
    return f"SELECT id FROM items ORDER BY embedding <-> '{query}' LIMIT {limit}"


@pytest.fixture
def connection(connect: Connect) -> psycopg.Connection:
    """Connects to a database with 1,000 rows in an index."""
    made = connect()
    run(made, "CREATE TABLE items (id int PRIMARY KEY, embedding vector(24), note text)")
    fill(made, vectors(1000, seed=1))
    run(made, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    run(made, "ANALYZE items")
    return made


def test_a_scan_within_a_scan_of_the_same_index(connection: psycopg.Connection) -> None:
    nested = f"""SELECT a.id, b.id, b.distance
        FROM (SELECT id, embedding FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 30) a
        CROSS JOIN LATERAL (SELECT id, embedding <-> a.embedding AS distance FROM items
            ORDER BY embedding <-> a.embedding LIMIT 5) b"""
    with only_by_index(connection):
        plan = explain(connection, nested)
        assert plan.count("Index Scan using items_embedding") == 2, plan
        rows = run(connection, nested)
    assert [row[0] for row in rows[::5]] == by_index(connection, QUERIES[0], 30)
    for at in range(0, 150, 5):
        assert_ascending(row[2] for row in rows[at : at + 5])
        assert rows[at][0] == rows[at][1]


def test_a_parallel_worker_scans_the_index(connection: psycopg.Connection) -> None:
    wanted = by_index(connection, QUERIES[0])
    with only_by_index(connection):
        run(connection, "SET LOCAL debug_parallel_query = on; SET LOCAL pagehop.search_list = 77")
        plan = explain(connection, nearest(QUERIES[0]))
        assert "Gather" in plan, plan
        assert "Index Scan using items_embedding" in plan, plan
        assert ids(connection, nearest(QUERIES[0])) == wanted


def test_twenty_partitions_are_more_than_a_session_remembers(connect: Connect) -> None:
    connection = connect()
    run(connection, "CREATE TABLE items (id int, embedding vector(24)) PARTITION BY HASH (id)")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    for at in range(20):
        run(connection, f"CREATE TABLE items_{at} PARTITION OF items FOR VALUES WITH (MODULUS 20, REMAINDER {at})")
    fill(connection, vectors(1000, seed=1))
    with only_by_index(connection):
        plan = explain(connection, nearest(QUERIES[0]))
        assert plan.count("Index Scan using items_") == 20, plan
        run(connection, RELAXED)
        assert sorted(ids(connection, nearest(QUERIES[0], 2000))) == list(range(1000))


def test_a_cursor_goes_on_when_caches_are_emptied(connect: Connect, connection: psycopg.Connection) -> None:
    other = connect()
    wanted = by_index(connection, QUERIES[0], 60)
    with only_by_index(connection):
        run(connection, f"DECLARE near CURSOR FOR {nearest(QUERIES[0], 60)}")
        found = ids(connection, "FETCH 20 FROM near")
        run(other, "CREATE INDEX ON items (note)")
        run(other, "ANALYZE items")
        found += ids(connection, "FETCH 20 FROM near")
        run(other, "ALTER TABLE items SET (fillfactor = 70)")
        run(connection, "SELECT count(*) FROM pg_class")
        found += ids(connection, "FETCH 20 FROM near")
    assert found == wanted


def test_caches_that_are_always_empty_change_nothing(connection: psycopg.Connection) -> None:
    if value(connection, "SHOW debug_assertions") != "on":
        pytest.skip("needs a server with assertions")
    wanted = [by_index(connection, query, 30) for query in QUERIES[:3]]
    with connection.transaction():
        run(connection, "SET LOCAL debug_discard_caches = 1")
        assert [by_index(connection, query, 30) for query in QUERIES[:3]] == wanted
        fill(connection, vectors(10, seed=2), first=5000)
        run(connection, "REINDEX INDEX items_embedding")
        fill(connection, vectors(10, seed=3), first=6000)
        assert len(everything(connection)) == 1020


def test_a_loop_inserts_beside_what_it_finds(connection: psycopg.Connection) -> None:
    run(
        connection,
        f"""DO $$ DECLARE found record; BEGIN
            FOR found IN {nearest(QUERIES[0], 700)} LOOP
                INSERT INTO items SELECT 10000 + id, embedding FROM items WHERE id = found.id;
            END LOOP;
        END $$""",
    )
    assert number(connection, "SELECT count(*) FROM items WHERE id >= 10000") == 700
    added = set(range(1000)) | {*ids(connection, "SELECT id FROM items WHERE id >= 10000")}
    assert everything(connection) == sorted(added)


def test_an_empty_index_is_filled_from_a_scan_of_itself(connect: Connect) -> None:
    connection = connect()
    create(connection)
    fill(connection, vectors(5, seed=1))
    with only_by_index(connection):
        run(connection, f"DECLARE near CURSOR FOR {nearest(QUERIES[0], 1000)}")
        run(connection, "FETCH 2 FROM near")
        fill(connection, vectors(600, seed=2), first=100)
        assert len(ids(connection, "FETCH ALL FROM near")) == 3
    assert everything(connection) == [*range(5), *range(100, 700)]


def test_an_insertion_that_failed_leaves_no_lock(connect: Connect, connection: psycopg.Connection) -> None:
    other = connect()
    run(other, "SET lock_timeout = '60s'")
    with connection.transaction():
        with pytest.raises(psycopg.Error, match="too large"), connection.transaction():
            run(connection, f"INSERT INTO items (id, embedding) VALUES (5000, '{TOO_LONG}')")
        fill(other, [QUERIES[0]], first=6000)
        run(
            connection,
            f"""DO $$ BEGIN
                INSERT INTO items (id, embedding) VALUES (5001, '{TOO_LONG}');
            EXCEPTION WHEN OTHERS THEN
                INSERT INTO items (id, embedding) VALUES (5002, '{QUERIES[1]}');
            END $$""",
        )
        fill(other, [QUERIES[0]], first=6001)
    assert everything(connection) == [*range(1000), 5002, 6000, 6001]


def test_an_insertion_that_violates_a_key_leaves_a_sound_index(connection: psycopg.Connection) -> None:
    for at in range(30):
        with pytest.raises(psycopg.errors.UniqueViolation):
            run(connection, f"INSERT INTO items (id, embedding) VALUES ({at}, '{QUERIES[at % 25]}')")
    assert everything(connection) == list(range(1000))
    run(connection, "VACUUM items")
    assert everything(connection) == list(range(1000))


def test_upserts_of_the_same_rows_by_many_sessions(connect: Connect, connection: psycopg.Connection) -> None:
    failures = list[Exception]()

    def upsert(session: psycopg.Connection, seed: int) -> None:
        try:
            for at, row in enumerate(vectors(150, seed)):
                target = f"INSERT INTO items (id, embedding, note) VALUES ({2000 + at % 40}, '{row}', '{seed}')"
                run(session, f"{target} ON CONFLICT (id) DO UPDATE SET embedding = excluded.embedding")
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=upsert, args=(connect(), seed)) for seed in range(10, 14)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert everything(connection) == [*range(1000), *range(2000, 2040)]
    run(connection, "VACUUM items")
    assert everything(connection) == [*range(1000), *range(2000, 2040)]
    assert recall(connection) > 0.95


def test_serializable_transactions_that_miss_each_others_rows_do_not_both_commit(connect: Connect) -> None:
    one, two = connect(), connect()
    create(one)
    fill(one, vectors(300, seed=1))
    for session in [one, two]:
        run(session, "SET enable_seqscan = off; SET enable_sort = off")
        run(session, "BEGIN ISOLATION LEVEL SERIALIZABLE")
        assert len(run(session, nearest(QUERIES[0]))) == 10
    run(one, f"INSERT INTO items (id, embedding) VALUES (5001, '{QUERIES[0]}')")
    run(two, f"INSERT INTO items (id, embedding) VALUES (5002, '{QUERIES[0]}')")
    run(one, "COMMIT")
    with pytest.raises(psycopg.errors.SerializationFailure):
        run(two, "COMMIT")
    assert by_index(one, QUERIES[0], 1) == [5001]


def test_a_policy_filters_what_the_index_finds(connection: psycopg.Connection) -> None:
    run(connection, "CREATE ROLE reader; GRANT SELECT ON items TO reader")
    try:
        run(connection, "ALTER TABLE items ENABLE ROW LEVEL SECURITY")
        run(connection, "CREATE POLICY odd ON items USING (id % 2 = 1)")
        wanted = [row for row in by_index(connection, QUERIES[0], 40) if row % 2][:10]
        run(connection, "SET ROLE reader")
        assert by_index(connection, QUERIES[0]) == wanted
        run(connection, "RESET ROLE")
    finally:
        run(connection, "RESET ROLE; DROP OWNED BY reader; DROP ROLE reader")


def test_a_vacuum_that_leaves_indexes_out_leaves_them_sound(connection: psycopg.Connection) -> None:
    run(connection, "DELETE FROM items WHERE id % 2 = 0")
    run(connection, "VACUUM (INDEX_CLEANUP off) items")
    assert everything(connection) == list(range(1, 1000, 2))
    fill(connection, vectors(300, seed=2), first=2000)
    run(connection, "VACUUM (FREEZE, INDEX_CLEANUP on, PARALLEL 2) items")
    assert everything(connection) == [*range(1, 1000, 2), *range(2000, 2300)]
    assert recall(connection) > 0.95


def test_thousands_of_searches_take_no_more_memory_than_a_hundred(connection: psycopg.Connection) -> None:
    pid = connection.info.backend_pid

    def resident() -> int:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        [line] = [line for line in status if line.startswith("RssAnon")]
        return int(line.split()[1])

    def search(times: int) -> None:
        looped = f"""DO $$ DECLARE found record; BEGIN
            FOR time IN 1..{times} LOOP
                FOR found IN {nearest(QUERIES[0], 15)} LOOP END LOOP;
            END LOOP;
        END $$"""
        with only_by_index(connection):
            run(connection, looped)

    search(100)
    before = resident()
    search(3000)
    assert resident() < before + 2000
