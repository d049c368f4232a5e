"""The cases in which the planner takes the index, and those in which it should not."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from devserver import Cluster
from tests.items import QUERIES, Connect, explain, fill, only_by_index, run, vectors

DISTANCE = f"embedding <-> '{QUERIES[0]}'"
NEAREST = f"SELECT id FROM items ORDER BY {DISTANCE} LIMIT 10"
OURS = "Index Scan using items_embedding"


def filled(connection: psycopg.Connection, rows: int) -> psycopg.Connection:
    run(connection, "CREATE TABLE items (id int PRIMARY KEY, embedding vector(24), kind int)")
    fill(connection, vectors(rows, seed=1))
    run(connection, "UPDATE items SET kind = id % 1000")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    run(connection, "CREATE INDEX items_kind ON items (kind)")
    run(connection, "VACUUM ANALYZE items")
    return connection


@pytest.fixture(scope="module")
def connection(cluster: Cluster) -> Iterator[psycopg.Connection]:
    """Connects to a database with an analyzed table of 3,000 rows, which does not change."""
    cluster.psql("CREATE DATABASE planner")
    with psycopg.connect(cluster.dsn("planner"), autocommit=True) as connection:
        yield filled(connection, 3000)
    cluster.psql("DROP DATABASE planner WITH (FORCE)")


@pytest.mark.parametrize(
    "ordered",
    [
        NEAREST,
        f"SELECT id FROM items ORDER BY '{QUERIES[0]}' <-> embedding LIMIT 10",
        f"SELECT id, {DISTANCE} AS d FROM items ORDER BY d LIMIT 10",
        f"SELECT id FROM items WHERE kind > 500 ORDER BY {DISTANCE} LIMIT 10",
        "SELECT id FROM items ORDER BY embedding <-> (SELECT embedding FROM items WHERE id = 7) LIMIT 10",
        f"SELECT * FROM (SELECT id FROM items ORDER BY {DISTANCE} LIMIT 10) near JOIN items USING (id)",
        f"WITH near AS MATERIALIZED ({NEAREST}) SELECT count(*) FROM near",
        f"SELECT min({DISTANCE}) FROM items",
    ],
)
def test_the_nearest_few_come_from_the_index(connection: psycopg.Connection, ordered: str) -> None:
    plan = explain(connection, ordered)
    assert OURS in plan, plan
    assert "Sort" not in plan, plan


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id FROM items LIMIT 10",
        "SELECT count(*) FROM items",
        "SELECT embedding FROM items",
        f"SELECT id FROM items WHERE {DISTANCE} < 1",
        "SELECT id FROM items WHERE embedding IS NULL",
        f"SELECT id FROM items WHERE embedding = '{QUERIES[0]}'",
        "SELECT id FROM items ORDER BY embedding LIMIT 10",
        "SELECT id FROM items ORDER BY embedding <-> embedding LIMIT 10",
        f"SELECT id FROM items ORDER BY {DISTANCE} DESC LIMIT 10",
        f"SELECT id FROM items ORDER BY {DISTANCE} NULLS FIRST LIMIT 10",
        f"SELECT id FROM items ORDER BY -({DISTANCE}) LIMIT 10",
        f"SELECT id FROM items ORDER BY embedding <=> '{QUERIES[0]}' LIMIT 10",
        f"SELECT id FROM items ORDER BY embedding <#> '{QUERIES[0]}' LIMIT 10",
        f"SELECT id FROM items ORDER BY embedding <+> '{QUERIES[0]}' LIMIT 10",
        f"SELECT id FROM items ORDER BY embedding::halfvec(24) <-> '{QUERIES[0]}' LIMIT 10",
        f"SELECT id FROM items ORDER BY id, {DISTANCE} LIMIT 10",
        f"SELECT id FROM items ORDER BY {DISTANCE}, embedding <-> '{QUERIES[1]}' LIMIT 10",
        f"SELECT DISTINCT embedding FROM items WHERE {DISTANCE} < 3",
    ],
)
def test_what_the_index_does_not_answer_is_not_asked_of_it(connection: psycopg.Connection, statement: str) -> None:
    assert "items_embedding" not in explain(connection, statement)
    with only_by_index(connection):
        assert "items_embedding" not in explain(connection, statement)
        run(connection, statement)


def test_a_few_rows_are_read_and_sorted(connect: Connect) -> None:
    connection = filled(connect(), 20)
    plan = explain(connection, NEAREST)
    assert "Sort" in plan, plan


def test_a_condition_that_few_rows_meet_comes_first(connection: psycopg.Connection) -> None:
    for few in ["id = 77", "id IN (1, 2, 3)", "kind = 5"]:
        plan = explain(connection, f"SELECT id FROM items WHERE {few} ORDER BY {DISTANCE} LIMIT 10")
        assert OURS not in plan, plan
        assert "Sort" in plan, plan


def test_all_rows_in_order_are_sorted(connection: psycopg.Connection) -> None:
    plan = explain(connection, f"SELECT id FROM items ORDER BY {DISTANCE}")
    assert OURS not in plan, plan


def test_a_scan_for_more_rows_costs_more(connection: psycopg.Connection) -> None:
    def cost(limit: int) -> float:
        with only_by_index(connection):
            plan = explain(connection, f"SELECT id FROM items ORDER BY {DISTANCE} LIMIT {limit}", "COSTS on")
        assert OURS in plan, plan
        return float(plan.partition("cost=")[2].partition("..")[2].split()[0])

    costs = [cost(limit) for limit in [1, 10, 100, 1000, 3000]]
    assert costs == sorted(costs)
    assert costs[0] > 0
    assert costs[-1] < 1e9


def test_a_longer_list_costs_more(connection: psycopg.Connection) -> None:
    with only_by_index(connection):
        before = explain(connection, NEAREST, "COSTS on")
        run(connection, "SET LOCAL pagehop.search_list = 500")
        after = explain(connection, NEAREST, "COSTS on")
    assert OURS in before
    assert OURS in after
    startup = [float(plan[plan.index(OURS) :].partition("cost=")[2].partition("..")[0]) for plan in [before, after]]
    assert startup[0] < startup[1]


def test_indexscans_can_be_turned_off(connection: psycopg.Connection) -> None:
    with connection.transaction():
        run(connection, "SET LOCAL enable_indexscan = off")
        assert "items_embedding" not in explain(connection, NEAREST)


def test_a_table_that_was_never_analyzed_is_searched(connect: Connect) -> None:
    connection = connect()
    run(connection, "CREATE TABLE items (id int PRIMARY KEY, embedding vector(24))")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    fill(connection, vectors(3000, seed=1))
    assert OURS in explain(connection, NEAREST)


def test_an_index_with_a_condition_is_taken_where_the_condition_holds(connect: Connect) -> None:
    connection = filled(connect(), 3000)
    run(
        connection,
        "CREATE INDEX items_upper ON items USING pagehop (embedding vector_l2_ops) WHERE kind > 500",
    )
    plan = explain(connection, f"SELECT id FROM items WHERE kind > 500 ORDER BY {DISTANCE} LIMIT 10")
    assert "Index Scan using items_upper" in plan, plan
    run(connection, "DROP INDEX items_embedding")
    assert "items_upper" not in explain(connection, NEAREST)


def test_an_expression_is_matched_with_its_cast(connect: Connect) -> None:
    connection = connect()
    run(connection, "CREATE TABLE items (id int PRIMARY KEY, embedding vector)")
    fill(connection, vectors(3000, seed=1))
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop ((embedding::vector(24)) vector_l2_ops)")
    run(connection, "ANALYZE items")
    cast = f"SELECT id FROM items ORDER BY embedding::vector(24) <-> '{QUERIES[0]}' LIMIT 10"
    assert OURS in explain(connection, cast)
    assert "items_embedding" not in explain(connection, NEAREST)
