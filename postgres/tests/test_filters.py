"""Filter columns: searches by the index, compared with plans that read and sort the table."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import (
    DIM,
    QUERIES,
    Connect,
    assert_ascending,
    explain,
    ids,
    number,
    only_by_index,
    run,
    value,
    vectors,
)

COLUMNS = {
    "small": "int2",
    "tenant": "int4",
    "big": "int8",
    "real": "float4",
    "price": "float8",
    "flag": "bool",
    "day": "date",
    "local": "timestamp",
    "moment": "timestamptz",
    "topic": "text",
    "word": "varchar(20)",
    "key": "uuid",
}
"""An index has at most seven filter columns, so tests use parts of these."""

ROWS = 1500
ORDERED = f"ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"


def cell(source: random.Random, kind: str) -> str:
    """A random value as SQL, sometimes NULL or a limit of the type."""
    number = source.randrange(-20, 20)
    if source.random() < 0.06:
        return "NULL"
    if kind.startswith("int"):
        ends = {"int2": 2**15, "int4": 2**31, "int8": 2**63}[kind]
        return f"'{source.choice([number] * 30 + [-ends, ends - 1])}'"
    if kind.startswith("float"):
        return f"'{source.choice([number / 4] * 30 + ['NaN', 'Infinity', '-Infinity', '-0', '0.1'])}'"
    if kind == "bool":
        return source.choice(["true", "false"])
    if kind == "uuid":
        return f"md5('{number}')::uuid"
    if kind in {"text", "varchar(20)"}:
        return f"'wort {number}'"
    return source.choice([f"date '2024-05-01' + {number}"] * 30 + ["'infinity'", "'-infinity'"])


def create(connection: psycopg.Connection, columns: dict[str, str]) -> None:
    """Creates a table and an index with these columns. Some rows are older than the index, others
    newer.
    """
    source = random.Random(5)
    declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), {declared})")
    rows = [
        f"({at}, '{vector}', {', '.join(cell(source, kind) for kind in columns.values())})"
        for at, vector in enumerate(vectors(ROWS, seed=1))
    ]
    run(connection, f"INSERT INTO items VALUES {', '.join(rows[: ROWS - 300])}")
    run(
        connection,
        f"CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, {', '.join(columns)})",
    )
    run(connection, f"INSERT INTO items VALUES {', '.join(rows[ROWS - 300 :])}")
    run(connection, "ANALYZE items")


def compare(connection: psycopg.Connection, where: str, queries: int = 2, limit: int = 10) -> None:
    """Compares the index with the table: it finds nearly all of the nearest rows, and a scan to its
    end returns every row.
    """
    every = sorted(exactly(connection, where, QUERIES[0], 10**6))
    for query in QUERIES[:queries]:
        distance = f"embedding <-> '{query}'"
        ordered = f"SELECT id, {distance} FROM items WHERE {where} ORDER BY {distance} LIMIT {limit}"
        with only_by_index(connection):
            plan = explain(connection, ordered)
            assert "Index Scan using items_embedding" in plan, plan
            assert "Index Cond" in plan, plan
            assert "Filter" not in plan, plan
            rows = run(connection, ordered)
        assert_ascending(row[1] for row in rows)
        truth = exactly(connection, where, query, limit)
        found = [row[0] for row in rows]
        assert len(found) == len(truth), where
        assert len(set(found) & set(truth)) >= 0.7 * len(truth), where
        assert set(found) <= set(every), where
    ordered = f"SELECT id FROM items WHERE {where} ORDER BY embedding <-> '{QUERIES[0]}'"
    with only_by_index(connection):
        run(connection, "SET LOCAL pagehop.scan_order = relaxed_order")
        assert "Index Cond" in explain(connection, ordered)
        assert sorted(ids(connection, ordered)) == every, where


def exactly(connection: psycopg.Connection, where: str, query: str, limit: int) -> list[int]:
    with connection.transaction():
        run(connection, "SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off")
        return ids(connection, f"SELECT id FROM items WHERE {where} ORDER BY embedding <-> '{query}', id LIMIT {limit}")


def of_type(name: str, kind: str) -> list[str]:
    """Conditions on a column of a type."""
    if kind == "uuid":
        literals = ["md5('3')::uuid", "md5('99')::uuid"]
    elif kind in {"text", "varchar(20)"}:
        literals = ["'wort 3'", "'no such word'"]
    elif kind == "bool":
        literals = ["true", "false"]
    elif kind.startswith("int"):
        # Literals of other types of the same operator family.
        literals = ["3", "-7::int2", "5::int8", "3000000000", "-9223372036854775808"]
    elif kind.startswith("float"):
        literals = ["'0.25'", "'NaN'", "'Infinity'", "'-Infinity'", "0::float8", "'0.1'::float4", "'0.1'::float8"]
    else:
        literals = ["'2024-05-03'", "'infinity'", "'-infinity'"]
    signs = ["="] if kind in {"uuid", "text", "varchar(20)"} else ["<", "<=", "=", ">=", ">"]
    conditions = [f"{name} {sign} {literal}" for sign in signs for literal in literals]
    conditions += [f"{name} IS NULL", f"{name} IS NOT NULL"]
    several = ", ".join(literals[:2])
    conditions += [f"{name} IN ({several})", f"{name} = ANY (ARRAY[{several}, NULL]::{kind}[])"]
    return conditions


@pytest.mark.parametrize("part", [list(COLUMNS)[:6], list(COLUMNS)[6:]])
def test_conditions_on_every_type(connect: Connect, part: list[str]) -> None:
    connection = connect()
    create(connection, {name: COLUMNS[name] for name in part})
    for name in part:
        for where in of_type(name, COLUMNS[name]):
            compare(connection, where, queries=1)
    run(connection, "SELECT pagehop_check('items_embedding')")


def test_conditions_are_joined(connect: Connect) -> None:
    connection = connect()
    create(connection, {name: COLUMNS[name] for name in ["tenant", "price", "topic", "flag"]})
    for where in [
        "tenant = 3 AND price < 2",
        "tenant BETWEEN -5 AND 5 AND flag",
        "NOT flag AND tenant > 0",
        "price > 0 AND price < 'NaN' AND topic = 'wort 3'",
        "tenant IN (1, 2, 3) AND topic IN ('wort 1', 'wort 2')",
        "tenant > 3 AND tenant < 3",
        "embedding IS NOT NULL AND tenant = 4",
        "tenant < ANY (ARRAY[-19, -18])",
    ]:
        compare(connection, where)
    # The executor checks conditions that the index cannot.
    ordered = f"FROM items WHERE tenant = 3 AND id % 2 = 0 ORDER BY embedding <-> '{QUERIES[0]}'"
    with only_by_index(connection):
        plan = explain(connection, f"SELECT id {ordered}")
        assert "Index Cond: (tenant = 3)" in plan, plan
        assert "Filter" in plan, plan
        run(connection, "SET LOCAL pagehop.scan_order = relaxed_order")
        found = sorted(ids(connection, f"SELECT id {ordered}"))
    assert found == sorted(exactly(connection, "tenant = 3 AND id % 2 = 0", QUERIES[0], 10**6))


def test_a_condition_that_is_known_at_run_time(connect: Connect) -> None:
    connection = connect()
    create(connection, {"tenant": "int4"})
    nearest = f"SELECT id FROM items i WHERE i.tenant = t.tenant ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 3"
    tenants = "(VALUES (3), (NULL), (99), (-4)) t (tenant)"
    asked = f"SELECT t.tenant, array(SELECT id FROM ({nearest}) n) FROM {tenants}"
    with only_by_index(connection):
        assert "Index Cond: (tenant = " in explain(connection, asked)
        found = run(connection, asked)
    expected = [(tenant, exactly(connection, f"tenant = {tenant}", QUERIES[0], 3)) for tenant in [3, "NULL", 99, -4]]
    assert [row[1] for row in found] == [rows for _, rows in expected]
    run(
        connection,
        f"PREPARE q(int) AS SELECT id FROM items WHERE tenant = $1 ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 3",
    )
    for plans in ["force_generic_plan", "force_custom_plan"]:
        with only_by_index(connection):
            run(connection, f"SET LOCAL plan_cache_mode = {plans}")
            assert "Index Cond" in explain(connection, "EXECUTE q(3)")
            assert ids(connection, "EXECUTE q(3)") == expected[0][1]
            assert ids(connection, "EXECUTE q(NULL)") == []


def test_updates_deletes_and_vacuum(connect: Connect) -> None:
    connection = connect()
    create(connection, {"tenant": "int4", "topic": "text"})
    run(connection, "UPDATE items SET tenant = 100 WHERE id % 5 = 0")
    run(connection, "UPDATE items SET topic = 'new' WHERE id % 7 = 0")
    run(connection, "UPDATE items SET tenant = NULL, topic = NULL WHERE id % 11 = 0")
    run(connection, "DELETE FROM items WHERE id % 13 = 0")
    wheres = ["tenant = 100", "tenant < 5", "topic = 'new'", "tenant IS NULL", "topic = 'new' AND tenant = 100"]
    for vacuum in ["SELECT 1", "VACUUM items", "VACUUM (INDEX_CLEANUP on) items", "REINDEX INDEX items_embedding"]:
        run(connection, vacuum)
        run(connection, "SELECT pagehop_check('items_embedding')")
        for where in wheres:
            compare(connection, where)
    run(connection, "DELETE FROM items WHERE tenant = 100")
    run(connection, "VACUUM items")
    run(connection, "SELECT pagehop_check('items_embedding')")
    compare(connection, "tenant = 100")
    compare(connection, "tenant < 5")


def test_an_index_that_grows_from_nothing(connect: Connect) -> None:
    connection = connect()
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), tenant int)")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, tenant)")
    run(connection, "SELECT pagehop_check('items_embedding')")
    compare(connection, "tenant = 3")
    for at, vector in enumerate(vectors(700, seed=1)):
        run(connection, f"INSERT INTO items VALUES ({at}, '{vector}', {at % 9})")
        if at in {0, 5, 60, 699}:
            run(connection, "SELECT pagehop_check('items_embedding')")
            compare(connection, "tenant = 3")
            compare(connection, "tenant > 3")


def test_scans_see_what_their_snapshot_sees_while_others_write(connect: Connect) -> None:
    connection, other = connect(), connect()
    create(connection, {"tenant": "int4", "price": "float8"})
    stop = threading.Event()
    failures = list[Exception]()

    def write() -> None:
        try:
            for at, vector in enumerate(vectors(3000, seed=3)):
                if stop.is_set():
                    break
                run(other, f"INSERT INTO items VALUES ({10_000 + at}, '{vector}', {at % 5}, {at % 700})")
                if at % 10 == 0:
                    run(other, f"UPDATE items SET tenant = tenant + 1 WHERE id = {10_000 + at // 2}")
                if at % 500 == 0:
                    run(other, "VACUUM items")
        except psycopg.Error as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while writer.is_alive():
            for where in ["tenant = 3", "price < 30 AND tenant > 1"]:
                with connection.transaction():
                    run(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    ordered = f"SELECT id FROM items WHERE {where} ORDER BY embedding <-> '{QUERIES[0]}'"
                    every = sorted(exactly(connection, where, QUERIES[0], 10**6))
                    with only_by_index(connection):
                        run(connection, "SET LOCAL enable_indexscan = on; SET LOCAL pagehop.scan_order = relaxed_order")
                        assert "Index Cond" in explain(connection, ordered)
                        assert sorted(ids(connection, ordered)) == every
    finally:
        stop.set()
        writer.join()
    assert failures == []
    run(connection, "SELECT pagehop_check('items_embedding')")


def test_columns_keep_their_places_when_they_are_renamed(connect: Connect) -> None:
    connection = connect()
    create(connection, {"tenant": "int4", "topic": "text"})
    run(connection, "ALTER TABLE items RENAME tenant TO other; ALTER TABLE items RENAME topic TO tenant")
    compare(connection, "other = 3")
    compare(connection, "tenant = 'wort 3'")


def test_partial_indexes_and_expressions(connect: Connect) -> None:
    connection = connect()
    create(connection, {"tenant": "int4", "topic": "text"})
    run(connection, "DROP INDEX items_embedding")
    run(
        connection,
        "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, (tenant / 2), upper(topic)) "
        "WHERE tenant > 0",
    )
    run(connection, "ANALYZE items")
    compare(connection, "tenant / 2 = 3 AND tenant > 0")
    compare(connection, "upper(topic) = 'WORT 3' AND tenant > 0")


def test_conditions_that_the_index_does_not_take_are_tested_on_its_rows(connect: Connect) -> None:
    connection = connect()
    create(connection, {"tenant": "int4", "price": "float8", "topic": "text", "flag": "bool"})

    def hops(where: str) -> int:
        run(connection, f"SELECT id FROM items WHERE {where} ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10")
        return number(connection, "SELECT hops FROM pagehop_last_scan()")

    for where in [
        "tenant <> 3",
        "tenant <> 3 AND price <> 1",
        "tenant = 3 OR topic = 'wort 5'",
        "tenant = 3 OR price < -4 OR tenant IS NULL",
        "NOT (tenant = 3 OR topic = 'wort 5')",
        "NOT (tenant < 3 AND price > 0)",
        "topic <> 'wort 5'",
        "tenant NOT IN (1, 2, 3)",
        "tenant IS DISTINCT FROM 3",
        "topic LIKE 'wort 1%'",
        "flag IS NOT TRUE",
    ]:
        ordered = f"SELECT id FROM items WHERE {where} ORDER BY embedding <-> '{QUERIES[0]}'"
        with only_by_index(connection):
            plan = explain(connection, ordered)
            assert "Index Scan using items_embedding" in plan, plan
            assert "Filter: " in plan, plan
            nearest = ids(connection, f"{ordered} LIMIT 10")
            run(connection, "SET LOCAL pagehop.scan_order = relaxed_order")
            assert sorted(ids(connection, ordered)) == sorted(exactly(connection, where, QUERIES[0], 10**6)), where
        truth = exactly(connection, where, QUERIES[0], 10)
        assert len(nearest) == 10, where
        assert len(set(nearest) & set(truth)) >= 7, where
    # The index is used for its condition, although another condition is left to the executor.
    with only_by_index(connection):
        plan = explain(connection, f"SELECT id FROM items WHERE flag AND tenant <> 3 {ORDERED}")
        assert "Index Cond: (flag = true)" in plan, plan
        assert "Filter: (tenant <> 3)" in plan, plan
        # A condition that nearly all rows meet adds little to the cost of a search.
        assert hops("tenant <> 3") <= hops("true") * 1.2
        assert hops("flag AND tenant <> 3") <= hops("flag") * 1.3
    # A column with several values is one condition: `= ANY`, and on PostgreSQL 18 also OR.
    compare(connection, "tenant IN (3, 4)")
    if number(connection, "SELECT current_setting('server_version_num')::int") >= 180000:
        compare(connection, "tenant = 3 OR tenant = 4")


@pytest.mark.parametrize(
    ("columns", "where", "asked"),
    [
        ("(tenant / 2)", "tenant > 0", "tenant / 2 = 3 AND tenant > 0"),
        ("(tenant % 5), lower(topic)", "true", "tenant % 5 = 2 AND lower(topic) = 'wort 7'"),
        ("(price * 2), price", "flag", "price * 2 < 3 AND price > -2 AND flag"),
        ("(topic IS NULL)", "true", "(topic IS NULL) = true"),
        ("(ARRAY[tenant, tenant % 3])", "NOT flag", "ARRAY[tenant, tenant % 3] && '{2, 7}' AND NOT flag"),
    ],
)
def test_expressions_and_partial_indexes(connect: Connect, columns: str, where: str, asked: str) -> None:
    connection = connect()
    create(connection, {"tenant": "int4", "price": "float8", "topic": "text", "flag": "bool"})
    run(connection, "DROP INDEX items_embedding")
    made = f"CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, {columns}) WHERE {where}"
    run(connection, f"{made}; ANALYZE items")
    compare(connection, asked)
    run(connection, "UPDATE items SET tenant = tenant % 50 + 1, flag = NOT flag WHERE id % 3 = 0")
    compare(connection, asked)
    run(connection, "VACUUM items")
    run(connection, "SELECT pagehop_check('items_embedding')")
    compare(connection, asked)


def test_text_is_equal_as_its_collation_says(connect: Connect) -> None:
    connection = connect()
    try:
        run(connection, "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    except psycopg.Error:
        pytest.skip("the server has no ICU")
    create(connection, {"topic": "text COLLATE loose"} | {"tenant": "int4"})
    run(connection, "UPDATE items SET topic = 'WORT 3' WHERE id % 3 = 0 AND topic = 'wort 3'")
    compare(connection, "topic = 'Wort 3'")


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        ("tenant, embedding vector_l2_ops", errors.InvalidObjectDefinition, "first column"),
        ("tenant", errors.InvalidObjectDefinition, "first column"),
        ("embedding vector_l2_ops, note", errors.UndefinedObject, "no default operator class"),
        ("embedding vector_l2_ops, embedding vector_l2_ops", errors.FeatureNotSupported, "int2, int4, int8"),
        ("embedding vector_l2_ops, a, b, c, d, e, f, g, h", errors.TooManyColumns, "up to 7"),
        ("embedding vector_l2_ops, a DESC", errors.FeatureNotSupported, "ASC/DESC"),
    ],
)
def test_what_cannot_be_indexed(connect: Connect, columns: str, error: type[Exception], says: str) -> None:
    connection = connect()
    run(
        connection,
        f"CREATE TABLE items (id int, embedding vector({DIM}), tenant int, note json, "
        "a int, b int, c int, d int, e int, f int, g int, h int)",
    )
    with pytest.raises(error) as raised:
        run(connection, f"CREATE INDEX ON items USING pagehop ({columns})")
    assert isinstance(raised.value, psycopg.Error)
    diagnostics = raised.value.diag
    assert says in f"{diagnostics.message_primary} {diagnostics.message_hint}"


def test_what_the_index_does_not_answer_is_not_asked_of_it(connect: Connect) -> None:
    connection = connect()
    create(connection, {"tenant": "int4", "topic": "text"})
    distance = f"embedding <-> '{QUERIES[0]}'"
    run(connection, "INSERT INTO items (id, tenant) VALUES (100000, 3)")
    for statement in [
        "SELECT id FROM items WHERE tenant = 3",
        "SELECT count(*) FROM items WHERE tenant IN (3, 4) AND topic = 'wort 3'",
        f"SELECT id FROM items WHERE embedding IS NULL ORDER BY {distance} LIMIT 5",
        "SELECT i.id FROM items i JOIN items o ON o.tenant = i.tenant WHERE i.id = 5",
        "SELECT id FROM items WHERE tenant = 3 ORDER BY tenant LIMIT 5",
    ]:
        assert "items_embedding" not in explain(connection, statement), statement
        with only_by_index(connection):
            assert "items_embedding" not in explain(connection, statement), statement
            assert run(connection, statement), statement
    for other in ["topic > 'wort 3'", "topic LIKE 'wort 3%'", "tenant <> 3", "tenant = 2.5"]:
        plan = explain(connection, f"SELECT id FROM items WHERE {other} ORDER BY {distance} LIMIT 5")
        assert "Index Cond" not in plan, plan


def test_costs_follow_the_share_of_rows(connect: Connect) -> None:
    connection = connect()
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), part int, other int)")
    rows = ", ".join(f"({at}, '{v}', {at * 7 % 1000}, {at * 7 % 1000})" for at, v in enumerate(vectors(5000, seed=1)))
    run(connection, f"INSERT INTO items VALUES {rows}")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, part)")
    run(connection, "ANALYZE items")

    def cost(where: str) -> float:
        ordered = f"SELECT id FROM items WHERE {where} ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"
        with only_by_index(connection):
            plan = explain(connection, ordered, "COSTS on")
        assert "Index Scan using items_embedding" in plan, plan
        return float(plan.partition("cost=")[2].partition("..")[2].split()[0])

    for most in [100, 20, 5]:
        assert cost(f"part < {most}") < cost(f"other < {most}"), most
    assert cost("part < 900") < cost("part < 500")


def test_an_index_survives_a_crash(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(autovacuum=False)
    connection = psycopg.connect(cluster.dsn("postgres"), autocommit=True)
    create(connection, {"tenant": "int4", "topic": "text"})
    run(connection, "UPDATE items SET tenant = 100 WHERE id % 5 = 0; DELETE FROM items WHERE id % 13 = 0")
    run(connection, "CHECKPOINT")
    run(connection, "UPDATE items SET tenant = 101 WHERE id % 7 = 0")
    run(connection, "BEGIN; UPDATE items SET tenant = 102 WHERE id % 3 = 0")
    cluster.kill()
    connection.close()
    cluster.start()
    with psycopg.connect(cluster.dsn("postgres"), autocommit=True) as connection:
        run(connection, "SELECT pagehop_check('items_embedding')")
        for where in ["tenant = 100", "tenant = 101", "tenant = 102", "tenant < 5", "topic = 'wort 3'"]:
            compare(connection, where)
        run(connection, "VACUUM items")
        run(connection, "SELECT pagehop_check('items_embedding')")
        assert number(connection, "SELECT count(*) FROM items WHERE tenant = 102") == 0
        assert value(connection, "SELECT free_slots + dead_nodes > 0 FROM pagehop_info('items_embedding')")
