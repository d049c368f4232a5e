"""Actions of a user with few rights, or with an extreme setting, that must not harm the server or
other users.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import (
    DIM,
    QUERIES,
    Connect,
    by_scan,
    create,
    explain,
    fill,
    ids,
    number,
    only_by_index,
    run,
    value,
    vectors,
)
from tests.test_maintenance import wait

# With 140,000 rows, insertions do not train the index again.
LONGEST_OF = int(os.environ.get("PAGEHOP_PG_ROWS", "2000"))
RECALL = "SELECT samples FROM pagehop_recall('items_embedding', {}, {})"
# The most samples that a measurement takes.
SAMPLES_MAX = 1_000_000


@contextmanager
def role(connection: psycopg.Connection, name: str, rights: str = "SELECT") -> Iterator[None]:
    """Runs the block as a role that has only `rights` on the table."""
    run(connection, f"CREATE ROLE {name}; GRANT {rights} ON items TO {name}; SET ROLE {name}")
    try:
        yield
    finally:
        run(connection, f"RESET ROLE; DROP OWNED BY {name}; DROP ROLE {name}")


def built(connection: psycopg.Connection, rows: int, operators: str = "vector_l2_ops") -> None:
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), note text)")
    fill(connection, vectors(rows, seed=1))
    run(connection, f"CREATE INDEX items_embedding ON items USING pagehop (embedding {operators})")


# ---- sizes that come from a user ----


def test_more_samples_than_rows_are_as_many_as_rows(connect: Connect, database: str) -> None:
    """A list of any length was once allocated, and the system killed the server."""
    connection = connect()
    built(connection, 1200)
    with role(connection, f"reader_{database}"):
        run(connection, "SET statement_timeout = '300s'")
        assert 12 <= number(connection, RECALL.format(10, SAMPLES_MAX)) <= 1200
        for samples in [SAMPLES_MAX + 1, 100_000_000, 2_147_483_647]:
            with pytest.raises(errors.InvalidParameterValue, match="between 1 and 1000000"):
                run(connection, RECALL.format(10, samples))


@pytest.mark.parametrize("k", [1, 1200, 100_000])
def test_a_measurement_stays_within_memory(connect: Connect, k: int) -> None:
    connection = connect()
    built(connection, 1200)
    most = number(connection, RECALL.format(k, 1200))
    run(connection, "SET maintenance_work_mem = '1MB'")
    assert 12 <= number(connection, RECALL.format(k, SAMPLES_MAX)) <= most
    query = vectors(1, seed=5)[0]
    # The true neighbors take 16 bytes for each of k rows of each of 100 queries.
    asked = f"SELECT pagehop_recall('items_embedding', {k}, array_fill('{query}'::vector, ARRAY[100]))"
    if k == 1:
        run(connection, asked)
        return
    with pytest.raises(errors.ProgramLimitExceeded, match="maintenance_work_mem"):
        run(connection, asked)


def test_a_measurement_can_be_canceled(connect: Connect) -> None:
    connection = connect()
    built(connection, 3000)
    run(connection, "SET statement_timeout = 5")
    with pytest.raises(errors.QueryCanceled):
        run(connection, RECALL.format(1000, SAMPLES_MAX))


# ---- rights ----


def test_rows_that_a_policy_hides_are_not_measured(connect: Connect, database: str) -> None:
    connection = connect()
    built(connection, 1200)
    run(connection, "ALTER TABLE items ENABLE ROW LEVEL SECURITY")
    with role(connection, f"reader_{database}", "SELECT, MAINTAIN"):
        for asked in ["pagehop_info('items_embedding')", "pagehop_calibration('items_embedding')"]:
            with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
                run(connection, f"SELECT {asked}")
        for asked in [
            "pagehop_recall('items_embedding')",
            f"pagehop_recall('items_embedding', 1, ARRAY['{QUERIES[0]}'::vector])",
        ]:
            with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
                run(connection, f"SELECT {asked}")
    # Row-level security does not apply to the owner.
    assert number(connection, RECALL.format(10, 400)) > 0
    run(connection, "ALTER TABLE items FORCE ROW LEVEL SECURITY")
    # It never applies to a superuser, even if it is forced.
    assert number(connection, RECALL.format(10, 400)) > 0


def test_a_role_that_may_not_read_a_table_is_told_nothing_of_its_index(connect: Connect, database: str) -> None:
    connection = connect()
    built(connection, 1200)
    name = f"writer_{database}"
    asked = [f"ARRAY['{QUERIES[0]}'::{kind}]" for kind in ["vector", "halfvec"]]
    calls = ["info('items_embedding')", "calibration('items_embedding')", "recall('items_embedding')"]
    calls += [f"recall('items_embedding', 1, {queries})" for queries in asked]
    maintaining = ["check('items_embedding')", "calibrate('items_embedding')"]
    maintaining += [f"calibrate('items_embedding', {queries})" for queries in asked]
    with role(connection, name, "INSERT, UPDATE, DELETE"):
        for call in calls:
            with pytest.raises(errors.InsufficientPrivilege, match="permission denied for table items"):
                run(connection, f"SELECT pagehop_{call}")
        for call in maintaining:
            with pytest.raises(errors.InsufficientPrivilege, match="permission denied for function pagehop_"):
                run(connection, f"SELECT pagehop_{call}")
        assert value(connection, "SELECT rows FROM pagehop_last_scan()") is None
        # The right to call a function does not include the right to read the table.
        run(connection, f"RESET ROLE; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {name}; SET ROLE {name}")
        for call in maintaining:
            with pytest.raises(errors.InsufficientPrivilege, match="permission denied for table items"):
                run(connection, f"SELECT pagehop_{call}")


def test_maintenance_is_granted(connect: Connect, database: str) -> None:
    connection = connect()
    built(connection, 1200)
    name = f"keeper_{database}"
    with role(connection, name, "SELECT, MAINTAIN"):
        for function in ["pagehop_check", "pagehop_calibrate"]:
            with pytest.raises(errors.InsufficientPrivilege, match=f"permission denied for function {function}"):
                run(connection, f"SELECT {function}('items_embedding')")
        run(connection, f"RESET ROLE; GRANT pg_maintain TO {name}; SET ROLE {name}")
        for function in ["pagehop_check", "pagehop_calibrate"]:
            run(connection, f"SELECT {function}('items_embedding')")


def test_functions_have_a_search_path_of_their_own(connect: Connect) -> None:
    unset = """
        SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
        JOIN pg_extension e ON e.oid = d.refobjid WHERE e.extname = 'pagehop' AND p.proargnames IS NOT NULL
        AND NOT coalesce(p.proconfig, '{}') && ARRAY['search_path=pg_catalog, pg_temp']
    """
    assert run(connect(), unset) == []


# ---- answers ----


def test_a_plan_made_before_recall_1_answers_exactly(connect: Connect) -> None:
    connection = connect()
    built(connection, 3000)
    run(connection, "SET plan_cache_mode = force_generic_plan; ANALYZE items")
    nearest = "SELECT id FROM items ORDER BY embedding <-> $1 LIMIT 10"
    run(connection, f"PREPARE nearest(vector) AS {nearest}")
    with only_by_index(connection):
        for query in QUERIES[:3]:
            run(connection, f"EXECUTE nearest('{query}')")
        assert "Index Scan using items_embedding" in explain(connection, f"EXECUTE nearest('{QUERIES[0]}')")
    run(connection, "SET pagehop.recall = 1")
    for query in QUERIES:
        assert ids(connection, f"EXECUTE nearest('{query}')") == by_scan(connection, query)
    run(connection, "RESET pagehop.recall; SET enable_seqscan = off")
    assert "Index Scan using items_embedding" in explain(connection, f"EXECUTE nearest('{QUERIES[0]}')")


def test_a_cursor_opened_before_recall_1_answers(connect: Connect) -> None:
    connection = connect()
    built(connection, 3000)
    ordered = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}'"
    with only_by_index(connection):
        run(connection, f"DECLARE near CURSOR FOR {ordered}")
        run(connection, "SET LOCAL pagehop.recall = 1")
        found = ids(connection, "FETCH 10 FROM near")
    assert found == by_scan(connection, QUERIES[0])


# ---- inner products ----


def test_a_row_longer_than_all_is_a_row_like_others(connect: Connect) -> None:
    """The row is found at once, and neither an insertion nor VACUUM trains the index for it."""
    connection = connect()
    built(connection, LONGEST_OF, "vector_ip_ops")
    longest = "SELECT {} FROM items ORDER BY embedding <#> embedding LIMIT 1"
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    trained = "SELECT trained_rows FROM pagehop_info('items_embedding')"
    before = number(connection, trained)
    for at, factor in enumerate([1.0001, 1.2, 1.7, 3]):
        scaled = f"(SELECT array_agg(x * {factor})::vector FROM unnest(embedding::real[]) x)"
        run(connection, f"INSERT INTO items (id, embedding) {longest.format(f'{1_000_000 + at}, {scaled}')}")
    query = str(value(connection, longest.format("embedding")))
    truth = by_scan(connection, query, operator="<#>")
    assert truth[:4] == [1_000_003, 1_000_002, 1_000_001, 1_000_000]
    for _ in range(2):
        with only_by_index(connection):
            found = ids(connection, f"SELECT id FROM items ORDER BY embedding <#> '{query}' LIMIT 10")
        assert found[:4] == truth[:4]
        assert number(connection, trained) == before
        # VACUUM calibrates the index again, because these rows are longer than those of its
        # calibration.
        run(connection, "VACUUM items")


# ---- other transactions ----


def test_a_retired_graph_is_freed_though_another_database_has_an_old_transaction(
    cluster: Cluster, connect: Connect
) -> None:
    connection = connect()
    with psycopg.connect(cluster.dsn("postgres")) as other:
        other.execute("SELECT txid_current()")
        create(connection)
        run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
        for first in range(0, 1000, 100):
            fill(connection, vectors(100, seed=first), first=first)
        info = "SELECT free_slots FROM pagehop_info('items_embedding')"
        # The training at 800 rows left the graph of 700 rows behind. An insertion's snapshot is as
        # old as the other transaction, so only vacuum, which has none, can free the graph.
        run(connection, "VACUUM (INDEX_CLEANUP ON) items")
        assert number(connection, info) > 300
        other.rollback()


def counts(connection: psycopg.Connection, sql: str) -> tuple[int, int]:
    """The two columns of the only row, which must be whole numbers."""
    [(one, other)] = run(connection, sql)
    assert isinstance(one, int)
    assert isinstance(other, int)
    return one, other


def measured_beside_a_training(vacuum: psycopg.Connection, writer: psycopg.Connection, delay_ms: int) -> bool:
    """Whether an insertion trained the index while a vacuum calibrated it. The stored calibration
    must then be that of the new model.
    """
    run(writer, "DROP TABLE IF EXISTS items")
    create(writer)
    run(writer, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(writer, vectors(250, seed=1))
    fill(writer, vectors(850, seed=3), first=250)
    trained = "SELECT trained_rows FROM pagehop_info('items_embedding')"
    calibrated = "SELECT calibrated_nodes, changes_since_calibration FROM pagehop_info('items_embedding')"
    assert run(writer, calibrated) == [(None, None)], "the calibration is left to the vacuum"
    before = number(writer, trained)
    # The vacuum reads few pages before it measures, and hundreds between two sleeps while it
    # measures.
    run(vacuum, f"SET vacuum_cost_delay = {delay_ms}; SET vacuum_cost_limit = 200")
    thread = threading.Thread(target=lambda: run(vacuum, "VACUUM (INDEX_CLEANUP ON) items"))
    thread.start()
    measures = (
        "SELECT count(*) FROM pg_stat_progress_vacuum JOIN pg_stat_activity a USING (pid)"
        f" WHERE phase = 'cleaning up indexes' AND a.pid = {vacuum.info.backend_pid} AND wait_event = 'VacuumDelay'"
    )
    wait(lambda: number(writer, measures) > 0 or not thread.is_alive())
    # A statement with more rows than the index trains it at once, if both have at most 4,096
    # together.
    fill(writer, vectors(2900, seed=2), first=5000)
    assert number(writer, trained) > before
    fill(writer, vectors(5, seed=4), first=10_000)
    stored = counts(writer, calibrated)
    thread.join()
    after = counts(writer, calibrated)
    # Each of the last five rows is either calibrated or counted as a change since the calibration.
    assert sum(stored) == sum(after) == 4005, (stored, after)
    assert after[0] >= stored[0] >= 4000, (stored, after)
    return after != stored


def test_a_vacuum_does_not_store_what_it_measured_before_a_training(connect: Connect) -> None:
    """The vacuum's calibration would replace that of the new model, and count changes from another
    number.
    """
    vacuum, writer = connect(), connect()
    # The longer the vacuum sleeps, the surer it still measures when the rows are added.
    assert any(measured_beside_a_training(vacuum, writer, delay_ms) for delay_ms in [20, 60, 100])
