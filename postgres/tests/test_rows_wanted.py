"""The length of a scan: it depends on the number of rows that the statement needs, and on dead
rows.
"""

from __future__ import annotations

import psycopg

from tests.items import QUERIES, Connect, by_scan, ids, number, only_by_index, recall, run, value, vectors
from tests.test_recall import built


def hops_of(connection: psycopg.Connection, statement: str, queries: list[str] = QUERIES) -> int:
    """Hops of all scans of a statement, run once for each query."""
    total = 0
    for query in queries:
        run(connection, statement.format(query=query))
        total += number(connection, "SELECT hops FROM pagehop_last_scan()")
    return total


def test_as_many_as_the_limit_says_are_searched_for_together(connect: Connect) -> None:
    connection = connect()
    built(connection, 5000)
    run(connection, "SET enable_seqscan = off; SET enable_sort = off; SET pagehop.recall = 0.95")
    nearest = "SELECT id FROM items ORDER BY embedding <-> '{query}' "
    ten = hops_of(connection, nearest + "LIMIT 10")
    hundred = hops_of(connection, nearest + "LIMIT 100")
    assert hops_of(connection, nearest + "LIMIT 1") < ten < hundred
    # The scan knows the count for any position of the LIMIT and any form of its value.
    assert hops_of(connection, nearest + "LIMIT (SELECT 100)") == hundred
    assert hops_of(connection, f"SELECT max(id) FROM ({nearest} LIMIT 100) AS found") == hundred
    assert hops_of(connection, f"SELECT (SELECT max(id) FROM ({nearest} LIMIT 100) AS found)") == hundred
    assert hops_of(connection, f"SELECT id FROM ({nearest} OFFSET 0) AS found LIMIT 100") == hundred
    run(connection, "PREPARE found (vector, int) AS SELECT id FROM items ORDER BY embedding <-> $1 LIMIT $2")
    assert hops_of(connection, "EXECUTE found('{query}', 100)") == hundred
    run(
        connection,
        "CREATE FUNCTION found(asked vector) RETURNS SETOF int LANGUAGE plpgsql AS $$ BEGIN "
        "RETURN QUERY SELECT id FROM items ORDER BY embedding <-> asked LIMIT 100; END $$",
    )
    assert hops_of(connection, "SELECT count(*) FROM found('{query}')") == hundred
    # For a cursor, the first FETCH gives the count, which is at least ten.
    cursor = f"BEGIN; DECLARE near CURSOR FOR {nearest}; "
    assert hops_of(connection, cursor + "FETCH 100 FROM near; COMMIT") == hundred
    assert hops_of(connection, cursor + "FETCH 1 FROM near; FETCH 9 FROM near; COMMIT") == ten
    # The scan does not know how many of its rows the joins need, so it begins with ten.
    run(connection, "SET enable_hashjoin = off; SET enable_mergejoin = off")
    joined = "SELECT items.id FROM items, generate_series(1, 2) ORDER BY embedding <-> '{query}' LIMIT 20"
    assert hops_of(connection, joined) < hundred
    share = value(connection, "SELECT recall FROM pagehop_recall('items_embedding', 100, 200)")
    found = []
    for query in QUERIES:
        with only_by_index(connection):
            rows = set(ids(connection, nearest.format(query=query) + "LIMIT 100"))
        found.append(len(rows & set(by_scan(connection, query, limit=100))) / 100)
    assert isinstance(share, float)
    assert abs(sum(found) / len(found) - share) < 0.03


def test_a_loop_over_many_rows_teaches_nothing_of_dead_rows(connect: Connect) -> None:
    connection = connect()
    built(connection, 5000)
    for row in vectors(1000, seed=5):
        run(connection, f"DELETE FROM items WHERE id = (SELECT id FROM items ORDER BY embedding <-> '{row}' LIMIT 1)")
    nearest = "SELECT id FROM items ORDER BY embedding <-> '{query}' LIMIT 10"
    # From these scans, the session learns the share of dead rows.
    hops_of(connection, nearest, vectors(100, seed=78))
    before = hops_of(connection, nearest)
    run(
        connection,
        "CREATE FUNCTION loops(asked vector) RETURNS int LANGUAGE plpgsql AS $$ "
        "DECLARE one record; seen int := 0; BEGIN "
        "FOR one IN SELECT id FROM items ORDER BY embedding <-> asked LOOP "
        "seen := seen + 1; EXIT WHEN seen = 500; END LOOP; RETURN seen; END $$",
    )
    for query in vectors(60, seed=79):
        assert number(connection, f"SELECT loops('{query}')") == 500
    assert hops_of(connection, nearest) < 1.1 * before


def test_dead_versions_cost_little_recall(connect: Connect) -> None:
    connection = connect()
    built(connection, 5000)
    run(connection, "SET pagehop.recall = 0.9")
    asked = vectors(200, seed=77)
    before = recall(connection, asked)
    for first, row in enumerate(vectors(1500, seed=5)):
        run(connection, f"UPDATE items SET embedding = '{row}' WHERE id = {first * 3}")
    # From its scans, a session learns the share of dead rows. Without this, recall would be 0.04
    # lower and take more hops.
    recall(connection, vectors(100, seed=78))
    assert recall(connection, asked) > before - 0.015
    nearest = "SELECT id FROM items ORDER BY embedding <-> '{query}' LIMIT 10"
    hops = hops_of(connection, nearest, asked)
    run(connection, "VACUUM items")
    assert recall(connection, asked) > before - 0.015
    # The session learns that the dead rows are gone.
    recall(connection, vectors(100, seed=78))
    assert hops_of(connection, nearest, asked) < 0.85 * hops


def test_rows_that_others_have_locked_are_searched_past(connect: Connect) -> None:
    """SKIP LOCKED leaves them out like a condition that they do not meet."""
    connection, other = connect(), connect()
    built(connection, 5000)
    run(connection, "SET pagehop.recall = 0.95")
    free = "id % 4 = 0"
    nearest = "SELECT id FROM items {where} ORDER BY embedding <-> '{query}' LIMIT 100 {lock}"
    found, hops = {"condition": 0, "lock": 0}, {"condition": 0, "lock": 0}
    with other.transaction():
        run(other, f"SELECT id FROM items WHERE NOT {free} FOR UPDATE")
        for query in QUERIES:
            truth = set(by_scan(connection, query, 100, where=free))
            for way, where, lock in [("condition", f"WHERE {free}", ""), ("lock", "", "FOR UPDATE SKIP LOCKED")]:
                with only_by_index(connection):
                    statement = nearest.format(where=where, query=query, lock=lock)
                    found[way] += len(truth & set(ids(connection, statement)))
                    hops[way] += number(connection, "SELECT hops FROM pagehop_last_scan()")
    assert found["lock"] > found["condition"] - 0.01 * 100 * len(QUERIES), (found, hops)


def test_a_limit_may_be_as_large_as_the_type_allows(connect: Connect) -> None:
    """As programs write that want all rows. The wanted k does not wrap."""
    connection = connect()
    built(connection, 5000)
    run(connection, "UPDATE items SET note = id % 3")
    run(connection, "VACUUM items")
    nearest = f"SELECT id FROM items WHERE {{}} ORDER BY embedding <-> '{QUERIES[0]}' LIMIT {{}} OFFSET {{}}"
    with only_by_index(connection):
        run(connection, "SET LOCAL pagehop.scan_order = relaxed_order")
        for where, rows in [("true", 5000), ("note = '1'", 1667)]:
            for offset in [0, 7]:
                few = ids(connection, nearest.format(where, 5000, offset))
                hops = number(connection, "SELECT hops FROM pagehop_last_scan()")
                for limit in [2**63 - 1, 2**62, 2**32]:
                    many = ids(connection, nearest.format(where, limit, offset))
                    assert (many, len(many)) == (few, rows - offset), (where, limit, offset)
                    assert number(connection, "SELECT hops FROM pagehop_last_scan()") == hops
