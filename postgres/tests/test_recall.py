"""Recall as a setting: calibrated by the build or on request, reached by new queries, measured by
audits.
"""

from __future__ import annotations

import math
import random

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
    recall,
    run,
    value,
    vectors,
)

CALIBRATED = "SELECT count(*) FROM pagehop_calibration('items_embedding')"
NEAREST = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"


def built(connection: psycopg.Connection, rows: int) -> None:
    """Creates a table with an index, which no autovacuum calibrates during a test."""
    run(connection, "CREATE TABLE items (id int PRIMARY KEY, embedding vector(24), note text)")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(rows, seed=1))
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")


def test_what_is_asked_for_is_found(connect: Connect) -> None:
    connection = connect()
    built(connection, 5000)
    assert number(connection, CALIBRATED) == 21, "seven recalls at 1, 10 and 100 neighbors"
    default = value(connection, "SELECT default_recall FROM pagehop_info('items_embedding')")
    assert default == pytest.approx(0.98)
    hops: list[float] = []
    for wanted in [0.9, 0.95, 0.99]:
        run(connection, f"SET pagehop.recall = {wanted}")
        found = recall(connection, vectors(150, seed=77))
        assert abs(found - wanted) < 0.25 * (1 - wanted) + 0.015, (wanted, found)
        cost = value(connection, "SELECT hops FROM pagehop_recall('items_embedding')")
        assert isinstance(cost, float)
        hops.append(cost)
    assert hops == sorted(hops)
    assert hops[0] < hops[2]


def test_threads_and_one_thread_calibrate_alike(connect: Connect) -> None:
    connection = connect()
    found = []
    # Without workers, one thread calibrates; with 40 MB, too, because a copy of the index does not
    # fit beside 8,000 queries.
    for workers, memory in [(0, "64MB"), (2, "64MB"), (2, "40MB")]:
        run(connection, "DROP TABLE IF EXISTS items")
        run(connection, f"SET max_parallel_maintenance_workers = {workers}")
        run(connection, f"SET maintenance_work_mem = '{memory}'")
        built(connection, 5000)
        found.append(connection.execute("SELECT * FROM pagehop_calibration('items_embedding')").fetchall())
    assert len(found[0]) == 21
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_who_asks_for_nothing_gets_a_recall(connect: Connect) -> None:
    connection = connect()
    built(connection, 5000)

    def hops() -> int:
        run(connection, "SET enable_seqscan = off")
        asked = "SELECT id FROM items ORDER BY embedding <-> '{}' LIMIT 10"
        total = 0
        for query in QUERIES:
            run(connection, asked.format(query))
            total += number(connection, "SELECT hops FROM pagehop_last_scan()")
        return total

    unasked = hops()
    run(connection, "SET pagehop.recall = 0.98")
    assert hops() == unasked
    run(connection, "RESET pagehop.recall; SET pagehop.slack = 0.2")
    assert hops() != unasked
    # An index without a calibration uses a fixed slack.
    run(connection, "RESET pagehop.slack; TRUNCATE items")
    fill(connection, vectors(900, seed=1))
    assert number(connection, CALIBRATED) == 0
    assert value(connection, "SELECT default_recall FROM pagehop_info('items_embedding')") is None
    unasked = hops()
    run(connection, "SET pagehop.slack = 0.2")
    assert hops() == unasked


def test_an_index_that_grows_is_calibrated_as_it_does(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(999, seed=1))
    assert number(connection, CALIBRATED) == 0
    run(connection, "SET pagehop.recall = 0.95; SET enable_seqscan = off")
    assert len(ids(connection, NEAREST)) == 10, "the scan returns all ten rows"
    fill(connection, vectors(1, seed=2), first=999)
    messages = list[str]()
    connection.add_notice_handler(lambda notice: messages.append(notice.message_primary or ""))
    assert len(ids(connection, NEAREST)) == len(ids(connection, NEAREST)) == 10
    [message] = messages
    assert "never calibrated" in message
    run(connection, "VACUUM items")
    assert number(connection, CALIBRATED) == 21
    made = run(connection, "SELECT * FROM pagehop_calibrate('items_embedding')")
    assert made == run(connection, "SELECT * FROM pagehop_calibration('items_embedding')")
    assert recall(connection) > 0.9
    fill(connection, vectors(7000, seed=3), first=1000)
    nodes = "SELECT calibrated_nodes FROM pagehop_info('items_embedding')"
    assert number(connection, nodes) == 1000, "too many rows to train the index while other sessions wait"
    run(connection, "VACUUM items")
    assert number(connection, nodes) == 8000, "VACUUM calibrates an index that it trains"
    assert recall(connection) > 0.9


def test_vacuum_calibrates_where_much_has_changed(connect: Connect) -> None:
    connection = connect()
    built(connection, 2000)
    info = "SELECT calibrated_nodes, changes_since_calibration, calibrated_by_queries "
    info += "FROM pagehop_info('items_embedding')"
    fill(connection, vectors(300, seed=2), first=2000)
    run(connection, "VACUUM items")
    assert run(connection, info) == [(2000, 300, False)], "too few changes for a calibration"
    fill(connection, vectors(300, seed=3), first=2300)
    run(connection, "VACUUM items")
    assert run(connection, info) == [(2600, 0, False)]
    asked = f"ARRAY[{','.join(repr(vector) for vector in vectors(60, seed=4))}]::vector[]"
    run(connection, f"SELECT * FROM pagehop_calibrate('items_embedding', {asked})")
    run(connection, "DELETE FROM items WHERE id < 1000")
    run(connection, "VACUUM items")
    assert run(connection, info) == [(2600, 1000, True)], "VACUUM does not replace a calibration by queries"


def test_an_audit_is_shown_by_info(connect: Connect) -> None:
    connection = connect()
    built(connection, 1500)
    info = "SELECT audited_k, audited_recall, audited_half_interval, audited_target, changes_since_audit "
    info += "FROM pagehop_info('items_embedding')"
    assert run(connection, info) == [(None, None, None, None, None)]
    with connection.transaction():
        run(connection, "SET TRANSACTION READ ONLY; SELECT * FROM pagehop_recall('items_embedding')")
    assert run(connection, info) == [(None, None, None, None, None)], "read-only audits are not stored"
    run(connection, "SET pagehop.recall = 0.9")
    [(found, width)] = run(connection, "SELECT recall, half_interval FROM pagehop_recall('items_embedding', 20, 100)")
    fill(connection, vectors(2, seed=2), first=1500)
    [(k, *shown, target, changes)] = run(connection, info)
    assert (k, shown, changes) == (20, [found, width], 2)
    assert isinstance(target, float)
    assert abs(target - 0.9) < 1e-6


def test_info_says_which_recall_is_likely(connect: Connect) -> None:
    connection = connect()
    built(connection, 1500)
    likely = "SELECT likely_recall FROM pagehop_info('items_embedding')"
    assert value(connection, likely) == pytest.approx(0.98), "that of the calibration"
    found = value(connection, "SELECT recall FROM pagehop_recall('items_embedding')")
    assert value(connection, likely) == found
    run(connection, "SET pagehop.recall = 0.8")
    run(connection, "SELECT * FROM pagehop_recall('items_embedding')")
    assert value(connection, likely) == pytest.approx(0.98), "an audit for another recall does not change it"
    fill(connection, vectors(300, seed=2), first=1500)
    assert value(connection, likely) == pytest.approx(1 - 0.02 * (1 + math.log2(1.2))), "it has a fifth more rows"
    fill(connection, vectors(1200, seed=3), first=1800)
    assert value(connection, likely) == pytest.approx(1 - 0.02 * 2)
    run(connection, "RESET pagehop.recall")
    found = value(connection, "SELECT recall FROM pagehop_recall('items_embedding')")
    assert isinstance(found, float)
    assert found > 0.96
    assert value(connection, likely) == found


def test_info_says_which_recall_is_likely_before_anything_was_measured(connect: Connect) -> None:
    """The likely recall is at most the measured one."""
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    likely = "SELECT likely_recall FROM pagehop_info('items_embedding')"
    assert value(connection, likely) is None, "there are no rows"
    for first in range(0, 4000, 100):
        fill(connection, vectors(100, seed=first), first=first)
    assert number(connection, CALIBRATED) == 0
    for recall_of_index, least, most in [("RESET (recall)", 0.949, 0.951), ("SET (recall = 0.98)", 0.972, 0.974)]:
        run(connection, f"ALTER INDEX items_embedding {recall_of_index}")
        said = value(connection, likely)
        assert isinstance(said, float)
        assert least < said < most
        with connection.transaction():
            # A read-only transaction stores no audit.
            run(connection, "SET TRANSACTION READ ONLY")
            found = value(connection, "SELECT recall FROM pagehop_recall('items_embedding')")
        assert isinstance(found, float)
        assert found >= said
    run(connection, "VACUUM items")
    assert value(connection, likely) == pytest.approx(0.98)


def test_a_small_index_is_searched_to_its_end(connect: Connect) -> None:
    connection = connect()
    built(connection, 900)
    assert number(connection, CALIBRATED) == 0
    run(connection, "SET pagehop.recall = 0.8")
    assert recall(connection) == 1.0
    said: list[str] = []
    connection.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    assert run(connection, "SELECT * FROM pagehop_calibrate('items_embedding')") == []
    assert said == ['index "items_embedding" has fewer than 1000 rows: with pagehop.recall it is searched to its end']


def test_certainty_takes_a_look_at_every_row(connect: Connect) -> None:
    connection = connect()
    built(connection, 1200)
    run(connection, "SET enable_seqscan = off; SET enable_sort = off")
    assert "Index Scan" in explain(connection, NEAREST)
    run(connection, "SET pagehop.recall = 1")
    assert "Seq Scan" in explain(connection, NEAREST)
    run(connection, "SET pagehop.recall = 0.9")
    run(connection, f"PREPARE nearest AS {NEAREST}; SET plan_cache_mode = force_generic_plan; EXECUTE nearest")
    run(connection, "SET pagehop.recall = 1")
    # The cached plan is planned again.
    assert "Seq Scan" in explain(connection, "EXECUTE nearest")
    assert ids(connection, "EXECUTE nearest") == by_scan(connection, QUERIES[0])


def around_zero(source: random.Random, radius: float) -> str:
    """A random point at a distance of `radius` from zero, in pgvector's format."""
    point = [source.gauss(0, 1) for _ in range(DIM)]
    return "[" + ",".join(f"{x * radius / math.hypot(*point):.7f}" for x in point) + "]"


def along_a_line(at: float) -> str:
    return "[" + ",".join(f"{at:.7f}" for _ in range(DIM)) + "]"


def test_a_recall_out_of_reach_is_one_warning(connect: Connect) -> None:
    connection = connect()
    # The rows lie roughly on a sphere, and the queries near its center: only a search that visits
    # all rows finds the ten nearest. The longest search that a calibration tries visits 3,200 rows.
    source = random.Random(3)
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}))")
    fill(connection, [around_zero(source, source.gauss(1, 0.001)) for _ in range(5000)])
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    centers = [around_zero(source, 0.0001) for _ in range(60)]
    run(connection, f"SELECT * FROM pagehop_calibrate('items_embedding', ARRAY{centers}::vector[])")
    best = value(connection, "SELECT max(best) FROM pagehop_calibration('items_embedding') WHERE k = 10")
    assert isinstance(best, float)
    assert 0.3 < best < 0.9
    said: list[str] = []
    connection.add_notice_handler(lambda notice: said.append(f"{notice.severity}: {notice.message_primary}"))
    run(connection, "SET enable_seqscan = off")
    nearest = f"SELECT id FROM items ORDER BY embedding <-> '{centers[0]}' LIMIT 10"
    warned = []
    for wanted in ["0.2", "0.98", "0.97"]:
        run(connection, f"SET pagehop.recall = {wanted}")
        for _ in range(2):
            assert len(run(connection, nearest)) == 10
        if wanted != "0.2":
            what = f"WARNING: pagehop.recall = {wanted} is above the highest recall that the calibration of"
            warned.append(f'{what} index "items_embedding" reached for 10 rows, which is {best:.4f}')
        assert said == warned
    # A search_list or a slack takes precedence over the recall, also one of them alone.
    run(connection, "SET pagehop.recall = 0.96")
    for setting in ["slack = 0.3", "search_list = 50"]:
        run(connection, f"SET pagehop.{setting}")
        assert len(run(connection, nearest)) == 10
    run(connection, "RESET pagehop.slack")
    assert len(run(connection, nearest)) == 10
    assert said == warned


def hops(connection: psycopg.Connection) -> int:
    """Hops of a search for the first query."""
    ids(connection, NEAREST)
    return number(connection, "SELECT hops FROM pagehop_last_scan()")


def test_an_index_has_a_recall_of_its_own(connect: Connect) -> None:
    connection = connect()
    built(connection, 5000)
    run(connection, "SET enable_seqscan = off; SET enable_sort = off")
    hops_of = {}
    for wanted in [0.9, 0.98, 0.999]:
        run(connection, f"SET pagehop.recall = {wanted}")
        hops_of[wanted] = hops(connection)
    run(connection, "RESET pagehop.recall")
    assert hops_of[0.9] < hops_of[0.98] < hops_of[0.999]
    assert hops(connection) == hops_of[0.98]
    run(connection, "ALTER INDEX items_embedding SET (recall = 0.999)")
    assert hops(connection) == hops_of[0.999]
    default = "SELECT default_recall FROM pagehop_info('items_embedding')"
    assert value(connection, default) == pytest.approx(0.999)
    # An audit measures this recall.
    run(connection, "SELECT * FROM pagehop_recall('items_embedding')")
    target = value(connection, "SELECT audited_target FROM pagehop_info('items_embedding')")
    assert target == pytest.approx(0.999)
    # Settings of the session take precedence: a recall, and a list.
    run(connection, "SET pagehop.recall = 0.9")
    assert hops(connection) == hops_of[0.9]
    run(connection, "RESET pagehop.recall; SET pagehop.search_list = 10; SET pagehop.slack = 0")
    assert hops(connection) < hops_of[0.9]
    run(connection, "RESET pagehop.search_list; RESET pagehop.slack; REINDEX INDEX items_embedding")
    assert value(connection, default) == pytest.approx(0.999)
    run(connection, "ALTER INDEX items_embedding RESET (recall)")
    assert value(connection, default) == pytest.approx(0.98)
    assert hops(connection) < hops_of[0.999]


def test_vacuum_calibrates_again_where_searches_miss_their_recall(connect: Connect, cluster: Cluster) -> None:
    connection = connect()
    # Rows in tight groups are easy to find. Later rows lie on a sphere, at similar distances from
    # each other.
    source = random.Random(5)
    run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}))")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, [along_a_line(at / 2000) for at in range(2000)])
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    info = "SELECT calibrated_nodes, changes_since_calibration, audited_recall, audited_target, changes_since_audit "
    info += "FROM pagehop_info('items_embedding')"
    fill(connection, [around_zero(source, 1) for _ in range(150)], first=2000)
    run(connection, "VACUUM items")
    assert run(connection, info) == [(2000, 150, None, None, None)], "too little has changed"
    fill(connection, [around_zero(source, 1) for _ in range(245)], first=2150)
    run(connection, "VACUUM items")
    [(nodes, changes, found, target, since)] = run(connection, info)
    assert (nodes, changes, since) == (2395, 0, 0)
    assert target == pytest.approx(0.98)
    assert isinstance(found, float)
    assert found > 0.97
    log = cluster.log_text()
    assert 'searches of index "items_embedding" found 0.9' in log
    assert f"where 0.98 was asked: it was calibrated again, and they find {found:.4f}" in log
    # The rows have not changed since then.
    run(connection, "VACUUM items")
    assert run(connection, info) == [(nodes, changes, found, target, since)]


def test_a_setting_that_is_no_recall_is_refused(connect: Connect) -> None:
    connection = connect()
    create(connection)
    for wrong in ["-0.1", "1.1", "'NaN'", "'much'"]:
        with pytest.raises((errors.InvalidParameterValue, errors.InternalError)):
            run(connection, f"SET pagehop.recall = {wrong}")


def test_an_audit_measures_what_the_session_has_set(connect: Connect) -> None:
    connection = connect()
    built(connection, 3000)
    columns = "recall, half_interval, samples FROM pagehop_recall('items_embedding'"
    run(connection, "SET pagehop.slack = 0")
    [(low, interval, queries)] = run(connection, f"SELECT {columns})")
    assert queries == 400
    run(connection, "SET pagehop.slack = 1; SET pagehop.search_list = 400")
    [(high, _, fewer)] = run(connection, f"SELECT {columns}, 20, 50)")
    assert fewer == 50
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert isinstance(interval, float)
    assert 0.5 < low < high - interval
    assert high > 0.99
    for wrong in ["k => 0", "k => -1", "samples => 0", "samples => 1000001", "k => 1000000"]:
        with pytest.raises(errors.InvalidParameterValue):
            run(connection, f"SELECT * FROM pagehop_recall('items_embedding', {wrong})")


@pytest.mark.parametrize("kind", ["vector", "halfvec"])
def test_real_queries_are_measured_with_and_calibrated_by(connect: Connect, kind: str) -> None:
    connection = connect()
    create(connection, f"{kind}_l2_ops", kind)
    run(connection, "DROP INDEX items_embedding")
    fill(connection, vectors(3000, seed=1))
    run(connection, f"CREATE INDEX items_embedding ON items USING pagehop (embedding {kind}_l2_ops)")
    run(connection, f"CREATE TABLE asked (query {kind}(24))")
    with connection.cursor().copy("COPY asked FROM STDIN") as copy:
        for row in [*vectors(120, seed=5), None]:
            copy.write_row([row])
    asked = "(SELECT array_agg(query) FROM asked)"
    run(connection, "SET pagehop.slack = 0.02; SET pagehop.search_list = 100")
    audit = f"SELECT recall, samples, far FROM pagehop_recall('items_embedding', 10, {asked})"
    [(found, queries, far)] = run(connection, audit)
    assert queries == 120, "NULL is not a query"
    assert isinstance(found, float)
    assert isinstance(far, float)
    assert far < 0.1
    by_hand = recall(connection, vectors(120, seed=5))
    assert abs(found - by_hand) < 0.01, (found, by_hand)
    run(connection, "RESET pagehop.slack; RESET pagehop.search_list")
    made = run(connection, f"SELECT * FROM pagehop_calibrate('items_embedding', {asked})")
    assert made == run(connection, "SELECT * FROM pagehop_calibration('items_embedding')")
    run(connection, "SET pagehop.recall = 0.95")
    [(found, *_)] = run(connection, audit)
    assert isinstance(found, float)
    assert abs(found - 0.95) < 0.01, "the index was calibrated by the same queries"
    for none in [f"'{{}}'::{kind}[]", f"'{{NULL}}'::{kind}[]"]:
        for asking in [f"recall('items_embedding', 10, {none})", f"calibrate('items_embedding', {none})"]:
            with pytest.raises(errors.InvalidParameterValue, match="no query can be used"):
                run(connection, f"SELECT * FROM pagehop_{asking}")
    with pytest.raises(errors.DataException, match="different vector dimensions 24 and 2"):
        run(connection, f"SELECT * FROM pagehop_recall('items_embedding', 10, ARRAY['[1,2]'::{kind}])")
    with pytest.raises(errors.InvalidParameterValue, match="calibration takes 50"):
        run(connection, f"SELECT * FROM pagehop_calibrate('items_embedding', ARRAY[{asked}[1]])")


def test_a_recall_that_is_missed_and_many_changes_are_warnings(connect: Connect) -> None:
    connection = connect()
    built(connection, 2000)
    told: list[str] = []
    hints: list[str | None] = []
    connection.add_notice_handler(lambda notice: told.append(f"{notice.severity}: {notice.message_primary}"))
    connection.add_notice_handler(lambda notice: hints.append(notice.message_hint))
    run(connection, "SET pagehop.recall = 0.5")
    info = "SELECT calibrated_nodes, changes_since_calibration FROM pagehop_info('items_embedding')"
    assert run(connection, info) == [(2000, 0)]
    run(connection, "SELECT * FROM pagehop_recall('items_embedding')")
    assert told == []
    fill(connection, vectors(600, seed=9), first=5000)
    assert run(connection, info) == [(2000, 600)]
    run(connection, "SELECT * FROM pagehop_recall('items_embedding')")
    assert len(told) == 1
    assert told[0].startswith('WARNING: 600 rows were added to index "items_embedding"')
    advice = "SELECT pagehop_calibrate('public.items_embedding') measures again what each recall takes."
    assert hints == [advice]
    run(connection, "SELECT * FROM pagehop_calibrate('items_embedding'); SET pagehop.recall = 0.9")
    assert run(connection, info) == [(2600, 0)]
    # These queries are far from all rows, in all directions.
    strange = "SELECT array_agg(ARRAY(SELECT 8 * sin(i * d) FROM generate_series(1, 24) d)::vector) "
    strange += "FROM generate_series(1, 200) i"
    [(found, far)] = run(connection, f"SELECT recall, far FROM pagehop_recall('items_embedding', 10, ({strange}))")
    assert far == 1.0
    assert isinstance(found, float)
    if found < 0.88:
        assert len(told) == 2
        assert "with pagehop.recall = 0.9 find 0." in told[1]
        assert hints[1] == f"{advice} Pass queries like these as its second argument to calibrate by them."


def test_measuring_takes_rights(connect: Connect) -> None:
    connection = connect()
    built(connection, 1200)
    with pytest.raises(errors.ReadOnlySqlTransaction), connection.transaction():
        run(connection, "SET TRANSACTION READ ONLY; SELECT * FROM pagehop_calibrate('items_embedding')")
    role = f"reader_{value(connection, 'SELECT pg_backend_pid()')}"
    run(connection, f"CREATE ROLE {role}; GRANT SELECT ON items TO {role}; SET ROLE {role}")
    try:
        run(connection, "SELECT * FROM pagehop_recall('items_embedding', samples => 5)")
        with pytest.raises(errors.InsufficientPrivilege):
            run(connection, "SELECT * FROM pagehop_calibrate('items_embedding')")
    finally:
        run(connection, f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")
    with pytest.raises(errors.WrongObjectType):
        run(connection, "SELECT * FROM pagehop_calibrate('items_pkey')")


@pytest.mark.parametrize("arguments", ["-1", "10, -1"])
def test_a_negative_count_is_refused(connect: Connect, arguments: str) -> None:
    connection = connect()
    create(connection)
    with pytest.raises(errors.InvalidParameterValue, match="k and samples must be 0 or more, not -1"):
        run(connection, f"SELECT * FROM pagehop_recall('items_embedding', {arguments})")
