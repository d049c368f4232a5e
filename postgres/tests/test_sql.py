"""Statements of users: filters, joins, cursors, prepared statements, functions, subtransactions."""

from __future__ import annotations

import re

import psycopg
import pytest

from tests.items import (
    KINDS,
    QUERIES,
    RELAXED,
    Connect,
    assert_ascending,
    by_index,
    by_scan,
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

ROWS = 2000
# Finds nearly all of dozens of rows. The default recall is that of the nearest ten.
THOROUGHLY = "SET pagehop.slack = 0.2"
NEAREST = f"SELECT id, embedding <-> '{QUERIES[0]}' FROM items ORDER BY embedding <-> '{QUERIES[0]}'"


@pytest.fixture
def connection(connect: Connect) -> psycopg.Connection:
    """Connects to a database whose table was filled before its index was built."""
    made = connect()
    run(made, "CREATE TABLE items (id int PRIMARY KEY, embedding vector(24), note text)")
    fill(made, vectors(ROWS, seed=1))
    run(made, "UPDATE items SET note = CASE WHEN id % 100 = 0 THEN 'rare' WHEN id % 2 = 0 THEN 'even' ELSE 'odd' END")
    run(made, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    run(made, "VACUUM ANALYZE items")
    return made


@pytest.mark.parametrize(("operators", "kind", "operator"), KINDS)
def test_an_index_of_every_kind_finds_the_nearest(connect: Connect, operators: str, kind: str, operator: str) -> None:
    connection = connect()
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding {kind}(24))")
    fill(connection, vectors(ROWS, seed=1))
    run(connection, f"CREATE INDEX items_embedding ON items USING pagehop (embedding {operators})")
    assert recall(connection, operator=operator) > 0.95
    assert everything(connection, operator) == list(range(ROWS))


def test_the_planner_takes_the_index_by_itself(connection: psycopg.Connection) -> None:
    assert "Index Scan using items_embedding on items" in explain(connection, NEAREST + " LIMIT 10")


def test_explain_analyze_counts_a_search_and_its_buffers(connection: psycopg.Connection) -> None:
    plan = explain(connection, NEAREST + " LIMIT 10", "ANALYZE, BUFFERS")
    scan = plan[plan.index("Index Scan using items_embedding") :]
    assert re.search(r"actual (time=\S+ )?rows=10(\.00)? loops=1", scan), plan
    assert re.search(r"Buffers: shared hit=\d+", scan), plan
    if connection.info.server_version >= 180_000:
        assert "Index Searches: 1" in scan, plan


def test_a_session_reads_the_model_once_for_each_file(connect: Connect) -> None:
    connection, other = connect(), connect()
    for session in [connection, other]:
        run(session, "SELECT setseed(0.5)")
    made = "SELECT id, (SELECT array_agg(random()) FROM generate_series(1, 256) WHERE id > 0)::vector(256) AS embedding"
    run(connection, f"CREATE TABLE items AS {made} FROM generate_series(1, 2000) AS id")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    run(other, "SET enable_seqscan = off; SET enable_sort = off; SET pagehop.search_list = 10")
    query = value(connection, "SELECT embedding FROM items LIMIT 1")
    nearest = f"SELECT id FROM items ORDER BY embedding <-> '{query}' LIMIT 10"

    def hits() -> int:
        plan = explain(other, nearest, "ANALYZE, BUFFERS, COSTS off, TIMING off")
        found = re.search(r"Index Scan.*?Buffers: shared hit=(\d+)", plan, re.DOTALL)
        assert found is not None, plan
        return int(found[1])

    first, usual = hits(), hits()
    assert first > usual + 3
    for statement in ["ANALYZE items", "VACUUM (ANALYZE) items"]:
        run(connection, statement)
        assert hits() <= usual + 1, statement
    run(connection, "REINDEX INDEX items_embedding")
    assert hits() > usual + 3
    run(connection, f"TRUNCATE items; INSERT INTO items {made} FROM generate_series(3001, 3005) AS id")
    assert sorted(ids(other, nearest)) == [3001, 3002, 3003, 3004, 3005]
    # An index that replaces another one in the transaction that created the table.
    with other.transaction():
        run(other, "CREATE TABLE fresh (LIKE items)")
        run(other, "CREATE INDEX fresh_embedding ON fresh USING pagehop (embedding vector_l2_ops)")
        for first in [1, 5001]:
            run(other, f"TRUNCATE fresh; INSERT INTO fresh {made} FROM generate_series({first}, {first + 599}) AS id")
            assert min(ids(other, nearest.replace("items", "fresh"))) >= first


def test_explain_settings_shows_ours(connection: psycopg.Connection) -> None:
    run(connection, "SET pagehop.search_list = 40")
    assert "Settings: pagehop.search_list = '40'" in explain(connection, NEAREST + " LIMIT 10", "SETTINGS")


def test_a_search_is_counted_in_the_statistics(connection: psycopg.Connection) -> None:
    run(connection, NEAREST + " LIMIT 10")
    run(connection, "SELECT pg_stat_force_next_flush()")
    statistics = "SELECT idx_scan, idx_tup_read, idx_tup_fetch FROM pg_stat_user_indexes"
    [(scans, read, fetched)] = run(connection, f"{statistics} WHERE indexrelname = 'items_embedding'")
    assert scans == 1
    assert isinstance(read, int)
    assert read >= 10
    assert isinstance(fetched, int)
    assert fetched >= 10


@pytest.mark.parametrize("limit", [1, 10, 11, 100, 1000])
def test_rows_come_in_order_however_many_are_wanted(connection: psycopg.Connection, limit: int) -> None:
    run(connection, THOROUGHLY)
    found = wanted = 0
    for query in QUERIES[:10]:
        truth = by_scan(connection, query, limit)
        found += len(set(by_index(connection, query, limit)) & set(truth))
        wanted += limit
    assert found / wanted > 0.95


def test_an_offset_goes_on_where_the_limit_ended(connection: psycopg.Connection) -> None:
    with only_by_index(connection):
        pages = [run(connection, f"{NEAREST} OFFSET {at} LIMIT 10") for at in range(0, 50, 10)]
        found = [row for page in pages for row in page]
        # A scan without a LIMIT begins with ten rows, too.
        with connection.transaction():
            run(connection, f"DECLARE nearest NO SCROLL CURSOR FOR {NEAREST}")
            assert found == run(connection, "FETCH 50 FROM nearest")


@pytest.mark.parametrize("where", ["note = 'even'", "note = 'rare'", "id = 1234", "note = 'nothing'"])
def test_a_filter_leaves_the_nearest_of_what_matches(connection: psycopg.Connection, where: str) -> None:
    matching = number(connection, f"SELECT count(*) FROM items WHERE {where}")
    for query in QUERIES[:10]:
        with connection.transaction():
            run(connection, RELAXED)
            rows = by_index(connection, query, where=where)
        assert len(rows) == min(10, matching)
        assert len(set(rows) & set(by_scan(connection, query, where=where))) >= 0.9 * len(rows)


def test_a_filter_in_strict_order_loses_next_to_nothing(connection: psycopg.Connection) -> None:
    found = wanted = 0
    for query in QUERIES:
        truth = by_scan(connection, query, where="note = 'rare'")
        found += len(set(by_index(connection, query, where="note = 'rare'")) & set(truth))
        wanted += len(truth)
    assert found / wanted > 0.95


def test_a_condition_on_the_distance_is_a_filter(connection: psycopg.Connection) -> None:
    run(connection, THOROUGHLY)
    ordered = by_scan(connection, QUERIES[0], 30)
    far = value(connection, f"SELECT embedding <-> '{QUERIES[0]}' FROM items WHERE id = {ordered[-1]}")
    assert by_index(connection, QUERIES[0], 30, where=f"embedding <-> '{QUERIES[0]}' <= {far}") == ordered


def test_a_lateral_join_searches_once_for_each_outer_row(connection: psycopg.Connection) -> None:
    run(connection, "CREATE TABLE queries (query int, embedding vector(24))")
    with connection.cursor().copy("COPY queries FROM STDIN") as copy:
        for at, query in enumerate(QUERIES):
            copy.write_row((at, query))
    joined = """SELECT query, id, distance FROM queries q CROSS JOIN LATERAL (
        SELECT id, embedding <-> q.embedding AS distance FROM items ORDER BY embedding <-> q.embedding LIMIT 10) near"""
    with connection.transaction():
        run(connection, "SET LOCAL enable_sort = off")
        plan = explain(connection, joined, "ANALYZE, COSTS off")
        assert re.search(rf"Index Scan using items_embedding .*loops={len(QUERIES)}\)", plan), plan
        rows = run(connection, joined)
    for at, query in enumerate(QUERIES):
        mine = [row for row in rows if row[0] == at]
        assert [row[1] for row in mine] == by_index(connection, query)
        assert_ascending(row[2] for row in mine)


def test_a_lateral_join_takes_null_and_zero_queries_on_the_way(connection: psycopg.Connection) -> None:
    zero = "[" + ",".join(["0"] * 24) + "]"
    run(connection, "CREATE TABLE queries (query int, embedding vector(24))")
    wanted = [QUERIES[0], None, QUERIES[1], zero, QUERIES[2]]
    fill_queries = [(at, query) for at, query in enumerate(wanted)]
    with connection.cursor().copy("COPY queries FROM STDIN") as copy:
        for row in fill_queries:
            copy.write_row(row)
    joined = """SELECT query, count(distance), count(*) FROM queries q CROSS JOIN LATERAL (
        SELECT id, embedding <-> q.embedding AS distance FROM items ORDER BY embedding <-> q.embedding LIMIT 7) near
        GROUP BY query ORDER BY query"""
    with only_by_index(connection):
        assert "items_embedding" in explain(connection, joined)
        assert run(connection, joined) == [(0, 7, 7), (1, 0, 7), (2, 7, 7), (3, 7, 7), (4, 7, 7)]


def test_each_row_finds_itself(connection: psycopg.Connection) -> None:
    joined = """SELECT count(*) FROM items i CROSS JOIN LATERAL (
        SELECT id FROM items ORDER BY embedding <-> i.embedding LIMIT 1) near
        WHERE near.id = i.id AND i.id < 300"""
    with connection.transaction():
        run(connection, "SET LOCAL enable_sort = off")
        assert "items_embedding" in explain(connection, joined)
        assert number(connection, joined) >= 299


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
def test_a_prepared_statement_is_executed_with_any_query(connection: psycopg.Connection, mode: str) -> None:
    run(connection, f"SET plan_cache_mode = {mode}")
    run(connection, "PREPARE near (vector, int) AS SELECT id FROM items ORDER BY embedding <-> $1 LIMIT $2")
    with only_by_index(connection):
        plan = explain(connection, f"EXECUTE near ('{QUERIES[0]}', 10)")
        assert "Index Scan using items_embedding" in plan, plan
        assert ("$1" in plan) == (mode == "force_generic_plan"), plan
        answers = [[row[0] for row in run(connection, f"EXECUTE near ('{query}', 10)")] for query in QUERIES]
    assert answers == [by_index(connection, query) for query in QUERIES]


def test_a_prepared_statement_outlives_a_reindex(connection: psycopg.Connection) -> None:
    run(connection, "SET plan_cache_mode = force_generic_plan; SET enable_sort = off")
    run(connection, "PREPARE near (vector) AS SELECT id FROM items ORDER BY embedding <-> $1 LIMIT 10")
    before = run(connection, f"EXECUTE near ('{QUERIES[0]}')")
    run(connection, "REINDEX INDEX items_embedding")
    assert run(connection, f"EXECUTE near ('{QUERIES[0]}')") == before
    fill(connection, [QUERIES[0]], first=9999)
    assert run(connection, f"EXECUTE near ('{QUERIES[0]}')")[0] == (9999,)


def test_the_client_sends_parameters(connection: psycopg.Connection) -> None:
    ordered = "SELECT id FROM items ORDER BY embedding <-> %s::vector LIMIT 10"
    for query in QUERIES[:7]:
        with only_by_index(connection):
            rows = connection.execute(ordered, [query], prepare=True).fetchall()
        assert [row[0] for row in rows] == by_index(connection, query)


def test_a_null_query_gives_rows_in_any_order(connection: psycopg.Connection) -> None:
    ordered = "SELECT id FROM items ORDER BY embedding <-> NULL::vector LIMIT 20"
    with only_by_index(connection):
        run(connection, "PREPARE near (vector) AS SELECT id FROM items ORDER BY embedding <-> $1 LIMIT 20")
        run(connection, "SET LOCAL plan_cache_mode = force_generic_plan")
        assert "Index Scan using items_embedding" in explain(connection, "EXECUTE near (NULL)")
        for rows in [run(connection, ordered), run(connection, "EXECUTE near (NULL)")]:
            assert len({row[0] for row in rows}) == 20


def test_a_descending_order_is_sorted(connection: psycopg.Connection) -> None:
    farthest = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' DESC LIMIT 3"
    plan = explain(connection, farthest)
    assert "items_embedding" not in plan, plan
    assert "Sort" in plan, plan


def test_further_keys_are_sorted_within_equal_distances(connection: psycopg.Connection) -> None:
    fill(connection, [QUERIES[0]] * 5, first=9000)
    ordered = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}', id DESC LIMIT 5"
    with connection.transaction():
        run(connection, "SET LOCAL enable_seqscan = off")
        plan = explain(connection, ordered)
        assert "Incremental Sort" in plan, plan
        assert "Index Scan using items_embedding" in plan, plan
        assert run(connection, ordered) == [(9004,), (9003,), (9002,), (9001,), (9000,)]


def test_cursors_go_forward_side_by_side(connection: psycopg.Connection) -> None:
    # If a setting was chosen, all scans begin with ten rows, for any LIMIT.
    run(connection, THOROUGHLY)
    with only_by_index(connection):
        for name, query in [("one", QUERIES[0]), ("two", QUERIES[1])]:
            run(connection, f"DECLARE {name} CURSOR FOR SELECT id FROM items ORDER BY embedding <-> '{query}'")
        one, two = list[object](), list[object]()
        for count in [1, 9, 1, 30, 100]:
            one += [row[0] for row in run(connection, f"FETCH {count} FROM one")]
            two += [row[0] for row in run(connection, f"FETCH {count} FROM two")]
    assert one == by_index(connection, QUERIES[0], 141)
    assert two == by_index(connection, QUERIES[1], 141)


def test_a_scrolling_cursor_goes_back(connection: psycopg.Connection) -> None:
    with only_by_index(connection):
        run(connection, f"DECLARE near SCROLL CURSOR FOR {NEAREST}")
        forth = run(connection, "FETCH 20 FROM near")
        run(connection, "FETCH 1 FROM near")
        assert run(connection, "FETCH BACKWARD 20 FROM near") == forth[::-1]


def test_a_cursor_with_hold_outlives_its_transaction(connection: psycopg.Connection) -> None:
    with only_by_index(connection):
        run(connection, f"DECLARE near CURSOR WITH HOLD FOR {NEAREST} LIMIT 50")
        first = run(connection, "FETCH 5 FROM near")
    rest = run(connection, "FETCH ALL FROM near")
    assert [row[0] for row in first + rest] == by_index(connection, QUERIES[0], 50)


def test_a_function_searches_in_a_loop(connection: psycopg.Connection) -> None:
    run(
        connection,
        """CREATE FUNCTION chain(start int, steps int) RETURNS SETOF int LANGUAGE plpgsql AS $$
        DECLARE
            here vector; seen int[] := ARRAY[start]; found record;
        BEGIN
            FOR step IN 1..steps LOOP
                SELECT embedding INTO here FROM items WHERE id = seen[step];
                FOR found IN SELECT id FROM items ORDER BY embedding <-> here LOOP
                    EXIT WHEN NOT found.id = ANY (seen);
                END LOOP;
                seen := seen || found.id;
                RETURN NEXT found.id;
            END LOOP;
        END $$""",
    )
    with only_by_index(connection):
        chain = run(connection, "SELECT * FROM chain(0, 50)")
    assert len(set(chain)) == 50


def test_a_function_searches_after_an_error_it_caught(connection: psycopg.Connection) -> None:
    run(
        connection,
        """CREATE FUNCTION careful(queries vector[]) RETURNS SETOF int LANGUAGE plpgsql AS $$
        DECLARE
            query vector; found record; rest float8;
        BEGIN
            FOREACH query IN ARRAY queries LOOP
                BEGIN
                    FOR found IN SELECT id FROM items ORDER BY embedding <-> query LOOP
                        rest := 1 / (found.id % 2);
                    END LOOP;
                EXCEPTION WHEN division_by_zero THEN
                    RETURN NEXT found.id;
                END;
            END LOOP;
        END $$""",
    )
    array = "ARRAY[" + ",".join(f"'{query}'" for query in QUERIES) + "]::vector[]"
    with only_by_index(connection):
        found = [row[0] for row in run(connection, f"SELECT * FROM careful({array})")]
    assert found == [next(row for row in by_index(connection, query, 100) if row % 2 == 0) for query in QUERIES]


def test_a_subtransaction_that_is_undone_leaves_no_rows(connection: psycopg.Connection) -> None:
    with connection.transaction():
        fill(connection, [QUERIES[0]], first=9000)
        run(connection, "SAVEPOINT here")
        fill(connection, [QUERIES[0]] * 5, first=9001)
        assert set(by_index(connection, QUERIES[0], 6)) == set(range(9000, 9006))
        run(connection, "ROLLBACK TO here")
        assert [row for row in by_index(connection, QUERIES[0]) if row >= 9000] == [9000]
        fill(connection, [QUERIES[1]], first=9999)
    assert [row for row in by_index(connection, QUERIES[0]) if row >= 9000] == [9000]
    assert by_index(connection, QUERIES[1], 1) == [9999]


def test_a_cursor_ends_with_the_subtransaction_that_opened_it(connection: psycopg.Connection) -> None:
    with only_by_index(connection):
        run(connection, "SAVEPOINT here")
        run(connection, f"DECLARE near CURSOR FOR {NEAREST}")
        run(connection, "FETCH 15 FROM near")
        run(connection, "ROLLBACK TO here")
        with pytest.raises(psycopg.errors.InvalidCursorName), connection.transaction():
            run(connection, "FETCH 1 FROM near")
        assert len(run(connection, NEAREST + " LIMIT 15")) == 15


def test_a_cursor_goes_on_after_a_subtransaction_that_was_undone(connection: psycopg.Connection) -> None:
    run(connection, THOROUGHLY)
    with only_by_index(connection):
        run(connection, f"DECLARE near CURSOR FOR {NEAREST}")
        rows = run(connection, "FETCH 15 FROM near")
        run(connection, "SAVEPOINT here")
        fill(connection, [QUERIES[0]], first=9000)
        rows += run(connection, "FETCH 15 FROM near")
        run(connection, "ROLLBACK TO here")
        rows += run(connection, "FETCH 15 FROM near")
    assert [row[0] for row in rows] == by_index(connection, QUERIES[0], 45)


def test_the_nearest_rows_are_locked_by_their_ids(connect: Connect, connection: psycopg.Connection) -> None:
    near = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"
    with connection.transaction():
        run(connection, "SET LOCAL enable_seqscan = off")
        locked = run(connection, f"SELECT id FROM items WHERE id IN ({near}) FOR UPDATE")
        assert {row[0] for row in locked} == set(by_index(connection, QUERIES[0]))
        other = connect()
        free = run(other, f"SELECT id FROM items WHERE id IN ({near}) FOR UPDATE SKIP LOCKED")
        assert free == []


def test_rows_in_relaxed_order_are_locked_where_they_are(connect: Connect, connection: psycopg.Connection) -> None:
    with connection.transaction():
        run(connection, RELAXED)
        locked = run(connection, NEAREST + " LIMIT 50 FOR UPDATE")
        assert len(locked) == 50
        assert locked[0][0] == by_index(connection, QUERIES[0], 1)[0]
        places = run(connection, f"SELECT ctid::text FROM ({NEAREST.replace('id,', 'ctid, id,')} LIMIT 50) near")
        real = {row[0] for row in run(connection, "SELECT ctid::text FROM items")}
        assert {row[0] for row in places} <= real
        other = connect()
        run(other, "SET pagehop.scan_order = relaxed_order")
        free = run(other, NEAREST + " LIMIT 50 FOR UPDATE SKIP LOCKED")
        assert len(free) == 50
        assert not {row[0] for row in free} & {row[0] for row in locked}


def test_the_nearest_rows_are_deleted_and_returned(connection: psycopg.Connection) -> None:
    nearest = by_index(connection, QUERIES[0])
    near = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"
    with connection.transaction():
        run(connection, "SET LOCAL enable_seqscan = off")
        gone = run(connection, f"DELETE FROM items WHERE id IN ({near}) RETURNING id")
    assert {row[0] for row in gone} == set(nearest)
    assert not set(by_index(connection, QUERIES[0], 50)) & set(nearest)


def test_a_union_of_searches_keeps_each_in_order(connection: psycopg.Connection) -> None:
    def near(query: str) -> str:
        return f"(SELECT id, embedding <-> '{query}' AS d FROM items ORDER BY embedding <-> '{query}' LIMIT 10)"

    with only_by_index(connection):
        together = f"SELECT id FROM ({near(QUERIES[0])} UNION ALL {near(QUERIES[1])}) together"
        plan = explain(connection, together)
        assert plan.count("Index Scan using items_embedding") == 2, plan
        rows = [row[0] for row in run(connection, together)]
    assert rows == by_index(connection, QUERIES[0]) + by_index(connection, QUERIES[1])


def test_settings_hold_from_the_next_search_on(connection: psycopg.Connection) -> None:
    def buffers() -> int:
        plan = explain(connection, NEAREST + " LIMIT 10", "ANALYZE, BUFFERS, COSTS off, TIMING off")
        found = re.search(r"Index Scan.*?Buffers: shared hit=(\d+)", plan, re.DOTALL)
        assert found, plan
        return int(found[1])

    with only_by_index(connection):
        buffers()
        narrow, default, wide = None, buffers(), None
        run(connection, "SET LOCAL pagehop.search_list = 10")
        narrow = buffers()
        run(connection, "SET LOCAL pagehop.search_list = 400")
        wide = buffers()
        run(connection, "SET LOCAL pagehop.slack = 0; SET LOCAL pagehop.search_list = 0")
        hasty = buffers()
    assert hasty < default < wide
    assert narrow < wide
