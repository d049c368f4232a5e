"""Tables, columns and rows of every kind that an index can have."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from devserver import Cluster
from tests.items import (
    QUERIES,
    RELAXED,
    Connect,
    assert_ascending,
    by_index,
    by_scan,
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


@pytest.mark.parametrize("expression", ["embedding::vector(24)", "embedding::halfvec(24)"])
@pytest.mark.parametrize("before", [True, False])
def test_an_expression_gives_a_column_its_dimensions(connect: Connect, expression: str, before: bool) -> None:
    connection = connect()
    kind = expression.partition("::")[2].partition("(")[0]
    run(connection, "CREATE TABLE items (id int PRIMARY KEY, embedding vector)")
    if before:
        fill(connection, vectors(800, seed=1))
    run(connection, f"CREATE INDEX items_embedding ON items USING pagehop (({expression}) {kind}_l2_ops)")
    if not before:
        fill(connection, vectors(800, seed=1))
    assert recall(connection, column=f"({expression})") > 0.95


def test_vectors_of_two_models_share_a_column(connect: Connect) -> None:
    connection = connect()
    run(connection, "CREATE TABLE items (id int PRIMARY KEY, embedding vector)")
    for dim in [24, 16]:
        run(
            connection,
            f"""CREATE INDEX items_{dim} ON items USING pagehop ((embedding::vector({dim})) vector_cosine_ops)
            WHERE vector_dims(embedding) = {dim}""",
        )
    fill(connection, vectors(500, seed=1))
    fill(connection, vectors(500, seed=2, dim=16), first=1000)
    for dim, seed in [(24, 99), (16, 98)]:
        column, where = f"(embedding::vector({dim}))", f"vector_dims(embedding) = {dim}"
        queries = vectors(10, seed, dim)
        assert recall(connection, queries, "<=>", index=f"items_{dim}", column=column, where=where) > 0.95


def test_a_function_of_the_row_is_indexed(connect: Connect) -> None:
    connection = connect()
    run(connection, "CREATE TABLE items (id int PRIMARY KEY, embedding vector(24))")
    column = "(subvector(embedding, 1, 8)::vector(8))"
    run(connection, f"CREATE INDEX items_embedding ON items USING pagehop ({column} vector_l2_ops)")
    fill(connection, vectors(500, seed=1))
    assert recall(connection, vectors(10, seed=99, dim=8), column=column) > 0.95


def test_a_partial_index_has_the_rows_of_its_condition(connect: Connect) -> None:
    connection = connect()
    run(
        connection,
        "CREATE TABLE items (id int PRIMARY KEY, embedding vector(24), kind int GENERATED ALWAYS AS (id % 3) STORED)",
    )
    fill(connection, vectors(600, seed=1))
    run(
        connection,
        "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops) WHERE kind = 1",
    )
    fill(connection, vectors(600, seed=2), first=600)
    assert recall(connection, where="kind = 1") > 0.95
    assert everything(connection, where="kind = 1") == list(range(1, 1200, 3))
    with only_by_index(connection):
        plan = explain(connection, f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10")
        assert "items_embedding" not in plan, plan


def test_rows_without_a_vector_are_not_in_the_index(connect: Connect) -> None:
    connection = connect()
    create(connection)
    fill(connection, [row if at % 2 else None for at, row in enumerate(vectors(800, seed=1))])
    assert everything(connection) == list(range(1, 800, 2))
    run(connection, "REINDEX INDEX items_embedding")
    assert everything(connection) == list(range(1, 800, 2))
    run(connection, "UPDATE items SET embedding = NULL WHERE id < 100")
    run(connection, f"UPDATE items SET embedding = '{QUERIES[0]}' WHERE id = 0")
    assert everything(connection) == [0, *range(101, 800, 2)]
    run(connection, "VACUUM items")
    assert everything(connection) == [0, *range(101, 800, 2)]


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 8, 9])
def test_a_table_of_few_rows_gives_them_all(connect: Connect, rows: int) -> None:
    connection = connect()
    run(connection, "CREATE TABLE items (id int PRIMARY KEY, embedding vector(24))")
    fill(connection, vectors(rows, seed=1))
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    assert sorted(by_index(connection, QUERIES[0])) == list(range(rows))
    fill(connection, vectors(3, seed=2), first=rows)
    assert sorted(by_index(connection, QUERIES[0], 20)) == list(range(rows + 3))


@pytest.mark.parametrize("dim", [1, 2, 3, 1500, 2000])
def test_any_number_of_dimensions_will_do(connect: Connect, dim: int) -> None:
    connection = connect()
    create(connection, dim=dim)
    fill(connection, vectors(300, seed=1, dim=dim))
    assert recall(connection, vectors(5, seed=99, dim=dim)) > 0.95
    run(connection, "REINDEX INDEX items_embedding")
    assert recall(connection, vectors(5, seed=99, dim=dim)) > 0.95


def test_halfvec_has_up_to_4000_dimensions(connect: Connect) -> None:
    connection = connect()
    create(connection, "halfvec_cosine_ops", "halfvec", dim=4000)
    fill(connection, vectors(120, seed=1, dim=4000))
    run(connection, "DELETE FROM items WHERE id % 3 = 0")
    run(connection, "VACUUM items")
    assert len(everything_of(connection, vectors(1, seed=99, dim=4000)[0], "<=>")) == 80


def everything_of(connection: psycopg.Connection, query: str, operator: str) -> list[int]:
    with connection.transaction():
        run(connection, RELAXED)
        return by_index(connection, query, 10_000, operator)


@pytest.mark.parametrize("storage", ["external", "extended", "main"])
def test_toasted_vectors_are_read(connect: Connect, storage: str) -> None:
    connection = connect()
    create(connection, dim=1200)
    run(connection, f"ALTER TABLE items ALTER embedding SET STORAGE {storage}")
    fill(connection, vectors(300, seed=1, dim=1200))
    toasted = "SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE relname = 'items'"
    assert (number(connection, toasted) > 300 * 1200) == (storage != "main")
    assert recall(connection, vectors(5, seed=99, dim=1200)) > 0.95
    run(connection, "REINDEX INDEX items_embedding")
    assert recall(connection, vectors(5, seed=99, dim=1200)) > 0.95


@pytest.mark.parametrize("operator", ["vector_l2_ops <->", "vector_ip_ops <#>", "vector_cosine_ops <=>"])
def test_duplicates_are_all_found(connect: Connect, operator: str) -> None:
    operators, operator = operator.split()
    connection = connect()
    create(connection, operators)
    rows = vectors(40, seed=1)
    fill(connection, [rows[at % 40] for at in range(1200)])
    for build in [False, True]:
        if build:
            run(connection, "REINDEX INDEX items_embedding")
        assert everything(connection, operator) == list(range(1200))
        found = 0
        for query in rows[:10]:
            of_one_vector = {at % 40 for at in by_scan(connection, query, 30, operator)}
            assert len(of_one_vector) == 1
            found += sum(at % 40 in of_one_vector for at in by_index(connection, query, 30, operator))
        assert found >= 0.95 * 300


def test_a_thousand_rows_of_one_vector_are_all_found(connect: Connect) -> None:
    connection = connect()
    create(connection)
    fill(connection, [QUERIES[0]] * 1000)
    assert everything(connection) == list(range(1000))
    run(connection, "DELETE FROM items WHERE id % 2 = 0")
    run(connection, "VACUUM items")
    assert everything(connection) == list(range(1, 1000, 2))
    run(connection, "REINDEX INDEX items_embedding")
    assert everything(connection) == list(range(1, 1000, 2))


def test_two_indexes_on_a_column_serve_their_operators(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "CREATE INDEX items_cosine ON items USING pagehop (embedding vector_cosine_ops)")
    fill(connection, vectors(500, seed=1))
    assert recall(connection) > 0.95
    assert recall(connection, operator="<=>", index="items_cosine") > 0.95


def test_an_index_on_a_temporary_table_is_the_sessions_own(connect: Connect) -> None:
    connection = connect()
    run(connection, "CREATE TEMPORARY TABLE items (id int PRIMARY KEY, embedding vector(24))")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    fill(connection, vectors(600, seed=1))
    run(connection, "DELETE FROM items WHERE id < 100")
    run(connection, "VACUUM items")
    assert recall(connection) > 0.95
    run(connection, "REINDEX INDEX items_embedding")
    assert recall(connection) > 0.95
    assert everything(connection) == list(range(100, 600))


def test_rows_of_a_temporary_table_go_on_commit(connect: Connect) -> None:
    connection = connect()
    with connection.transaction():
        run(connection, "CREATE TEMPORARY TABLE items (id int, embedding vector(24)) ON COMMIT DELETE ROWS")
        run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
        fill(connection, vectors(100, seed=1))
        assert everything(connection) == list(range(100))
    assert everything(connection) == []
    with connection.transaction():
        fill(connection, vectors(100, seed=2), first=500)
        assert everything(connection) == list(range(500, 600))


def test_an_unlogged_table_is_empty_after_a_crash(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        run(connection, "CREATE UNLOGGED TABLE items (id int PRIMARY KEY, embedding vector(24))")
        run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
        fill(connection, vectors(300, seed=1))
        assert recall(connection) > 0.95
    cluster.restart("fast")
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        assert everything(connection) == list(range(300))
    cluster.kill()
    cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        assert everything(connection) == []
        fill(connection, vectors(300, seed=2), first=1000)
        assert recall(connection) > 0.95
        run(connection, "ALTER TABLE items SET LOGGED")
        assert everything(connection) == list(range(1000, 1300))
    cluster.kill()
    cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        assert everything(connection) == list(range(1000, 1300))
        assert recall(connection) > 0.95


@pytest.fixture
def partitioned(connect: Connect) -> psycopg.Connection:
    """A table of three partitions with an index on the parent table."""
    connection = connect()
    run(connection, "CREATE TABLE items (id int, embedding vector(24), note text) PARTITION BY HASH (id)")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    for at in range(3):
        run(connection, f"CREATE TABLE items_{at} PARTITION OF items FOR VALUES WITH (MODULUS 3, REMAINDER {at})")
    fill(connection, vectors(1500, seed=1))
    return connection


def test_a_partitioned_table_merges_the_order_of_its_parts(partitioned: psycopg.Connection) -> None:
    found = 0
    for query in QUERIES:
        distance = f"embedding <-> '{query}'"
        ordered = f"SELECT id, {distance} FROM items ORDER BY {distance} LIMIT 10"
        truth = {
            row[0] for row in run(partitioned, f"SELECT id, {distance} FROM items ORDER BY {distance}, id LIMIT 10")
        }
        with only_by_index(partitioned):
            plan = explain(partitioned, ordered)
            assert "Merge Append" in plan, plan
            assert plan.count("Index Scan using items_") == 3, plan
            rows = run(partitioned, ordered)
        assert_ascending(row[1] for row in rows)
        found += len({row[0] for row in rows} & truth)
    assert found >= 0.95 * 10 * len(QUERIES)


def test_a_partition_comes_with_its_index_and_goes(partitioned: psycopg.Connection) -> None:
    run(partitioned, "ALTER TABLE items DETACH PARTITION items_1")
    fill(partitioned, [QUERIES[0]], first=77_777, table="items_1")
    with only_by_index(partitioned):
        nearest = f"SELECT id FROM items_1 ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 1"
        assert "Index Scan using items_1_embedding_idx" in explain(partitioned, nearest)
        assert value(partitioned, nearest) == 77_777
    run(partitioned, "DELETE FROM items_1 WHERE id = 77777")
    run(partitioned, "ALTER TABLE items ATTACH PARTITION items_1 FOR VALUES WITH (MODULUS 3, REMAINDER 1)")
    indexes = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'items_embedding'::regclass"
    assert number(partitioned, indexes) == 3


def test_a_materialized_view_is_indexed(connect: Connect) -> None:
    connection = connect()
    run(connection, "CREATE TABLE source (id int PRIMARY KEY, embedding vector(24))")
    fill(connection, vectors(300, seed=1), table="source")
    run(
        connection,
        "CREATE MATERIALIZED VIEW items AS SELECT id, l2_normalize(embedding)::vector(24) AS embedding FROM source",
    )
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_ip_ops)")
    run(connection, "CREATE UNIQUE INDEX ON items (id)")
    assert recall(connection, operator="<#>") > 0.95
    fill(connection, vectors(300, seed=2), first=300, table="source")
    run(connection, "REFRESH MATERIALIZED VIEW items")
    assert everything(connection, "<#>") == list(range(600))
    run(connection, "DELETE FROM source WHERE id < 100")
    run(connection, "REFRESH MATERIALIZED VIEW CONCURRENTLY items")
    assert everything(connection, "<#>") == list(range(100, 600))


def test_rows_that_an_index_has_no_place_for_are_left_out(connect: Connect) -> None:
    zero = "[" + ",".join(["0"] * 24) + "]"
    connection = connect()
    create(connection, "vector_cosine_ops")
    fill(connection, [zero, *vectors(100, seed=1), zero])
    assert everything(connection, "<=>") == list(range(1, 101))
    run(connection, "REINDEX INDEX items_embedding")
    assert everything(connection, "<=>") == list(range(1, 101))
    run(connection, "UPDATE items SET embedding = '" + QUERIES[0] + "' WHERE id = 0")
    assert everything(connection, "<=>") == list(range(101))
    run(connection, "DELETE FROM items WHERE id = 101")
    run(connection, "VACUUM items")
    assert everything(connection, "<=>") == list(range(101))


def test_a_hot_update_leaves_the_index_alone(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (fillfactor = 50, autovacuum_enabled = off)")
    fill(connection, vectors(300, seed=1))
    before = number(connection, "SELECT pg_relation_size('items_embedding')")
    for version in range(5):
        run(connection, f"UPDATE items SET note = 'version {version}'")
        assert everything(connection) == list(range(300))
    run(connection, "VACUUM items")
    assert everything(connection) == list(range(300))
    # New versions that do not fit on the page of their node wait in the pending list, which has one
    # page.
    assert number(connection, "SELECT pg_relation_size('items_embedding')") <= before + 8192
