"""Filter columns of arrays (sets of tags), compared with plans that read and sort the table."""

from __future__ import annotations

import random
from collections.abc import Callable

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import DIM, QUERIES, Connect, assert_ascending, explain, ids, number, only_by_index, run, vectors

ROWS = 1200
TAGS = 80
"""Number of different tags. The first ones are the most frequent."""
KINDS = {"numbers": "int[]", "bigs": "bigint[]", "labels": "text[]"}


def array(source: random.Random, kind: str) -> str:
    """A random array as SQL: sometimes NULL, empty, with NULL elements, of two dimensions or with
    hundreds of elements.
    """
    part = source.random()
    if part < 0.06:
        return "NULL"
    count = 0 if part < 0.14 else 200 if part > 0.985 else source.randrange(1, 6)
    elements = [element(int(source.random() ** 2 * TAGS), kind) for _ in range(count)]
    if 0.9 < part <= 0.985:
        elements.append("NULL")
    if 0.85 < part <= 0.9:
        return f"ARRAY[[{', '.join(elements)}], [{', '.join(elements)}]]::{kind}"
    return f"ARRAY[{', '.join(elements)}]::{kind}"


def element(tag: int, kind: str) -> str:
    # The empty text is a tag like any other.
    return f"'{'' if tag == 3 else f'tag {tag}'}'" if kind == "text[]" else str(tag - 5)


def create(connection: psycopg.Connection, rows: int = ROWS) -> None:
    """Creates a table and an index. Some rows are older than the index, others newer."""
    source = random.Random(5)
    declared = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
    run(
        connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), price int, note int, {declared})"
    )
    values = [
        f"({at}, '{vector}', {source.randrange(100)}, 0, {', '.join(array(source, kind) for kind in KINDS.values())})"
        for at, vector in enumerate(vectors(rows, seed=1))
    ]
    first = rows * 3 // 4
    run(connection, f"INSERT INTO items VALUES {', '.join(values[:first])}")
    run(
        connection,
        "CREATE INDEX items_embedding ON items USING pagehop "
        f"(embedding vector_l2_ops, numbers, price, {', '.join(list(KINDS)[1:])})",
    )
    run(connection, f"INSERT INTO items VALUES {', '.join(values[first:])}")
    run(connection, "ANALYZE items")


def compare(connection: psycopg.Connection, where: str, limit: int = 10) -> None:
    """Compares the index with the table: it finds nearly all of the nearest rows, and a scan to its
    end returns every row.
    """
    distance = f"embedding <-> '{QUERIES[1]}'"
    truth = exactly(connection, where, QUERIES[1])
    ordered = f"SELECT id, {distance} FROM items WHERE {where} ORDER BY {distance}"
    with only_by_index(connection):
        plan = explain(connection, f"{ordered} LIMIT {limit}")
        assert "Index Scan using items_embedding" in plan, plan
        assert "Index Cond" in plan, plan
        assert "Filter" not in plan, plan
        rows = run(connection, f"{ordered} LIMIT {limit}")
        assert_ascending(row[1] for row in rows)
        found = {row[0] for row in rows}
        assert len(rows) == min(limit, len(truth)), where
        assert len(found & set(truth[:limit])) >= 0.7 * len(rows), where
        run(connection, "SET LOCAL pagehop.scan_order = relaxed_order")
        assert sorted(ids(connection, ordered)) == sorted(truth), where


def exactly(connection: psycopg.Connection, where: str, query: str) -> list[int]:
    with connection.transaction():
        run(connection, "SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off")
        return ids(connection, f"SELECT id FROM items WHERE {where} ORDER BY embedding <-> '{query}', id")


def conditions(name: str, kind: str) -> list[str]:
    def of(*tags: int) -> str:
        return f"ARRAY[{', '.join(element(tag, kind) for tag in tags)}]::{kind}"

    return [
        f"{name} && {of(0)}",
        f"{name} && {of(3, 60, 79)}",
        f"{name} && {of(1000)}",
        f"{name} && '{{}}'::{kind}",
        f"{name} && '{{NULL}}'::{kind}",
        f"{name} && ARRAY[{element(7, kind)}, NULL]::{kind}",
        f"{name} && ARRAY[[{element(7, kind)}], [{element(9, kind)}]]::{kind}",
        f"{name} && {of(*range(5000))}",
        f"{name} @> {of(3)}",
        f"{name} @> {of(0, 1)}",
        f"{name} @> {of(0, 1, 2, 3, 4)}",
        f"{name} @> {of(0, 0, 0)}",
        f"{name} @> '{{}}'::{kind}",
        f"{name} @> ARRAY[{element(0, kind)}, NULL]::{kind}",
        f"{name} && NULL",
        f"{name} @> NULL::{kind}",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
        f"{name} @> {of(1)} AND price < 50",
        f"{name} && {of(1, 2)} AND numbers @> '{{-5}}'",
    ]


@pytest.mark.parametrize("name", list(KINDS))
def test_conditions_on_arrays(connect: Connect, name: str) -> None:
    connection = connect()
    create(connection)
    for where in conditions(name, KINDS[name]):
        # PostgreSQL itself knows that such a condition is never true.
        if where.endswith(("&& NULL", f"@> NULL::{KINDS[name]}")):
            assert exactly(connection, where, QUERIES[1]) == []
        else:
            compare(connection, where)
    run(connection, "SELECT pagehop_check('items_embedding')")


def test_an_array_that_is_known_at_run_time(connect: Connect) -> None:
    connection = connect()
    create(connection)
    nearest = f"SELECT id FROM items i WHERE i.labels && t.labels ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 3"
    asked = [["tag 1"], None, [], ["no such tag"], ["tag 70", "tag 2"]]
    statement = f"SELECT array(SELECT id FROM ({nearest}) n) FROM (VALUES (%s::text[])) t (labels)"
    for labels in asked:
        with only_by_index(connection):
            found = connection.execute(statement.encode(), (labels,)).fetchall()
        with connection.transaction():
            run(connection, "SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off")
            assert found == connection.execute(statement.encode(), (labels,)).fetchall(), labels


def test_tags_that_change_and_go(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "UPDATE items SET numbers = array(SELECT unnest(numbers)) || 1000 WHERE id % 5 = 0")
    run(connection, "UPDATE items SET labels = ARRAY['new', 'tag 0'] WHERE id % 7 = 0")
    run(connection, "UPDATE items SET labels = NULL, numbers = '{}' WHERE id % 11 = 0")
    # This does not change the index: the new versions wait in the pending list.
    run(connection, "UPDATE items SET note = 1 WHERE id % 3 = 0")
    run(connection, "DELETE FROM items WHERE id % 13 = 0")
    wheres = [
        "numbers && '{1000}'",
        "numbers @> '{1000, -5}'",
        "labels @> ARRAY['new']",
        "labels IS NULL",
        "labels && ARRAY['new', 'tag 30'] AND numbers @> '{1000}'",
    ]
    for vacuum in ["SELECT 1", "VACUUM items", "VACUUM (INDEX_CLEANUP on) items", "REINDEX INDEX items_embedding"]:
        run(connection, vacuum)
        run(connection, "SELECT pagehop_check('items_embedding')")
        for where in wheres:
            compare(connection, where)
    run(connection, "DELETE FROM items WHERE numbers && '{1000}'")
    run(connection, "VACUUM items")
    run(connection, "SELECT pagehop_check('items_embedding')")
    compare(connection, "numbers && '{1000}'")
    compare(connection, "labels @> ARRAY['new']")


def test_an_update_of_another_column_takes_no_node(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "CREATE INDEX ON items (note)")
    nodes = number(connection, "SELECT nodes FROM pagehop_info('items_embedding')")
    run(connection, "UPDATE items SET note = 7")
    assert number(connection, "SELECT nodes FROM pagehop_info('items_embedding')") == nodes
    compare(connection, "labels && ARRAY['tag 1']")
    run(connection, "UPDATE items SET labels = array(SELECT unnest(labels)) || 'more'::text WHERE id < 100")
    assert number(connection, "SELECT nodes FROM pagehop_info('items_embedding')") > nodes
    compare(connection, "labels && ARRAY['more']")
    run(connection, "VACUUM items")
    run(connection, "SELECT pagehop_check('items_embedding')")


def test_an_index_that_grows_from_nothing(connect: Connect) -> None:
    connection = connect()
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), tags int[])")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, tags)")
    compare(connection, "tags && '{3}'")
    for at, vector in enumerate(vectors(700, seed=1)):
        run(connection, f"INSERT INTO items VALUES ({at}, '{vector}', ARRAY[{at % 9}, {at % 20}, {at}])")
        if at in {0, 5, 60, 699}:
            run(connection, "SELECT pagehop_check('items_embedding')")
            compare(connection, "tags && '{3}'")
            compare(connection, "tags @> '{3, 12}'")


def test_costs_follow_the_statistics_of_elements(connect: Connect) -> None:
    connection = connect()
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), tags int[], others int[])")
    rows = ", ".join(
        f"({at}, '{v}', ARRAY[{at % 2}, {10 + at % 100}], ARRAY[{at % 2}, {10 + at % 100}])"
        for at, v in enumerate(vectors(5000, seed=1))
    )
    run(connection, f"INSERT INTO items VALUES {rows}")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, tags)")
    run(connection, "ANALYZE items")

    def cost(where: str) -> float:
        ordered = f"SELECT id FROM items WHERE {where} ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"
        with only_by_index(connection):
            plan = explain(connection, ordered, "COSTS on")
        assert "Index Scan using items_embedding" in plan, plan
        return float(plan.partition("cost=")[2].partition("..")[2].split()[0])

    assert cost("tags && '{10}'") < cost("others && '{10}'")
    assert cost("tags @> '{10, 0}'") < cost("others @> '{10, 0}'")
    # A condition that half of the rows meet reads more of the index than one that a tenth meets.
    ordered = f"ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"
    plan = explain(connection, f"SELECT id FROM items WHERE tags && '{{10}}' {ordered}", "COSTS on")
    assert " rows=10 " in plan, plan


def test_what_the_index_does_not_answer_is_a_filter(connect: Connect) -> None:
    connection = connect()
    create(connection)
    for where in ["5 = ANY (numbers)", "numbers <@ '{1, 2, 3}'", "NOT labels && ARRAY['tag 1']", "numbers = '{1}'"]:
        ordered = f"SELECT id FROM items WHERE {where} ORDER BY embedding <-> '{QUERIES[1]}'"
        with only_by_index(connection):
            plan = explain(connection, ordered)
            assert "Index Scan using items_embedding" in plan, plan
            assert "Index Cond" not in plan, plan
            run(connection, "SET LOCAL pagehop.scan_order = relaxed_order")
            assert sorted(ids(connection, ordered)) == sorted(exactly(connection, where, QUERIES[1])), where


def test_too_many_elements_are_an_error(connect: Connect) -> None:
    connection = connect()
    create(connection, rows=300)
    some = "SELECT array_agg(n) FROM generate_series(1, {}) n"
    vector = f"'{QUERIES[0]}'"
    run(connection, f"INSERT INTO items (id, embedding, numbers) VALUES (5000, {vector}, ({some.format(512)}))")
    compare(connection, "numbers @> '{500, 512}'")
    for statement in [
        f"INSERT INTO items (id, embedding, numbers) VALUES (5001, {vector}, ({some.format(513)}))",
        "UPDATE items SET labels = ARRAY['one more'] WHERE id = 5000",
    ]:
        with pytest.raises(errors.ProgramLimitExceeded, match="more than 512 different elements") as raised:
            run(connection, statement)
        assert "up to 512" in str(raised.value.diag.message_hint)
    # Repeated elements are one tag.
    run(
        connection,
        f"INSERT INTO items (id, embedding, numbers) SELECT 5002, {vector}, array_agg(n % 9) "
        "FROM generate_series(1, 5000) n",
    )
    compare(connection, "numbers @> '{8}'")
    run(connection, "DROP INDEX items_embedding; UPDATE items SET labels = ARRAY['one more'] WHERE id = 5000")
    with pytest.raises(errors.ProgramLimitExceeded, match="more than 512 different elements"):
        run(connection, "CREATE INDEX ON items USING pagehop (embedding vector_l2_ops, numbers, labels)")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, numbers)")
    # A text of any length can be a tag.
    run(connection, "DROP INDEX items_embedding; DELETE FROM items WHERE id >= 5000")
    run(connection, "UPDATE items SET labels = ARRAY[repeat('x', 1000000), 'y'] WHERE id = 7")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, labels)")
    compare(connection, "labels @> ARRAY[repeat('x', 1000000)]")
    compare(connection, "labels @> ARRAY[repeat('x', 999999)]")


def test_other_arrays_have_no_class(connect: Connect) -> None:
    connection = connect()
    run(connection, f"CREATE TABLE items (id int, embedding vector({DIM}), reals float8[], words varchar[])")
    with pytest.raises(errors.UndefinedObject, match="no default operator class"):
        run(connection, "CREATE INDEX ON items USING pagehop (embedding vector_l2_ops, reals)")
    run(connection, "CREATE INDEX ON items USING pagehop (embedding vector_l2_ops, (words::text[]))")


def test_an_index_of_tags_survives_a_crash(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(autovacuum=False)
    connection = psycopg.connect(cluster.dsn("postgres"), autocommit=True)
    create(connection)
    run(
        connection,
        "UPDATE items SET numbers = array(SELECT unnest(numbers)) || 1000 WHERE id % 5 = 0; "
        "DELETE FROM items WHERE id % 13 = 0",
    )
    run(connection, "CHECKPOINT")
    run(connection, "UPDATE items SET numbers = array(SELECT unnest(numbers)) || 1001 WHERE id % 7 = 0")
    run(connection, "BEGIN; UPDATE items SET numbers = array(SELECT unnest(numbers)) || 1002 WHERE id % 3 = 0")
    cluster.kill()
    connection.close()
    cluster.start()
    with psycopg.connect(cluster.dsn("postgres"), autocommit=True) as connection:
        wheres = ["numbers && '{1000}'", "numbers @> '{1000, 1001}'", "numbers && '{1002}'", "labels @> ARRAY['tag 1']"]
        run(connection, "SELECT pagehop_check('items_embedding')")
        for where in wheres:
            compare(connection, where)
        run(connection, "VACUUM items")
        run(connection, "SELECT pagehop_check('items_embedding')")
        for where in wheres:
            compare(connection, where)
        assert number(connection, "SELECT count(*) FROM items WHERE numbers && '{1002}'") == 0
