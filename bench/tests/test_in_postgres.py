"""The measurements in PostgreSQL: what is computed from what the load generator, the server and the log say."""

from __future__ import annotations

import argparse
import dataclasses
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagehop_bench.engines.pgvector import copy_rows
from pagehop_bench.postgres import build, cold, command, mariadb, qps, sets
from pagehop_bench.postgres.changed import read_totals
from pagehop_bench.postgres.figures import Around, Swept, around, best, passes, ratios
from pagehop_bench.postgres.loadgen import Asked
from pagehop_bench.postgres.scale import Scale, smoke
from pagehop_bench.postgres.tables import EF_SEARCH, HALFVEC, PAGEHOP, SEARCH_LIST, SIDES, SLACK, VECTOR, Family
from pagehop_bench.report import Report, Row

SAID: dict[str, Any] = {
    "count": 200, "elapsed_s": 0.02, "qps": 10_000.0, "recall": 0.9, "rows_short_count": 3,
    "latency_us_mean": 100.0, "latency_us_p50": 90.0, "service_us_p50": 80.0,
    "client_cpu_us_per_query": 10.0, "server_cpu_us_per_query": 70.0, "server_total_cpu_us_per_query": 72.0,
    "other_busy_cores": 0.1, "load_average": 0.5,
    "blocks": {"read_per_query": 2.0, "hit_per_query": 30.0},
    "plan": {"text": "Limit", "index_scan": True, "indexes": ["i"]},
    "plans": {"generic_count": 195, "custom_count": 5},
}  # fmt: skip


def asked(qps: float, recall: float, cpu: float = 50.0) -> Asked:
    return dataclasses.replace(Asked.of(SAID), qps=qps, recall=recall, server_cpu_us=cpu)


def swept(side: str = PAGEHOP.name, *, faster: float = 1.0) -> Swept:
    """Two repeats; the second is twice as fast."""
    points = {0.02: (400.0, 0.90), 0.05: (200.0, 0.96), 0.1: (100.0, 0.99)}
    runs = {value: [asked(faster * qps * n, recall) for n in (1, 2)] for value, (qps, recall) in points.items()}
    return Swept(side, SLACK, runs)


def test_what_the_generator_says_is_read() -> None:
    found = Asked.of(SAID)
    assert (found.latency_us, found.custom_plans, found.rows_short) == ({"mean": 100.0, "p50": 90.0}, 5, 3)
    assert (found.read_blocks, found.hit_blocks) == (2.0, 30.0)
    # 100 us a query on the clock, 80 us of CPU.
    assert found.waited == pytest.approx(1.25)
    assert found.as_json()["waited"] == found.waited
    assert "plan" not in found.as_json()
    # A run without blocks and plans has none.
    assert Asked.of(SAID | {"blocks": None, "plans": None}).read_blocks == 0


def test_a_wanted_recall_lies_between_neighbors() -> None:
    recalls = {10.0: 0.90, 20.0: 0.96, 40.0: 0.955, 80.0: 0.99}
    assert around(0.95, recalls) == Around(0.95, 10, 20)
    assert around(0.96, recalls) == Around(0.96, 10, 20)
    assert around(0.98, recalls) == Around(0.98, 40, 80)
    assert around(0.5, recalls) == Around(0.5, 10, 10)
    assert around(0.995, recalls) is None


def test_figures_are_interpolated_in_each_repeat() -> None:
    one = swept()
    assert one.at(0.93, lambda run: run.qps) == pytest.approx([200 * 2**0.5, 400 * 2**0.5])
    assert one.at(0.96, lambda run: run.qps) == pytest.approx([200, 400])
    assert one.at(0.5, lambda run: run.qps) == [400, 800]
    assert one.at(0.995, lambda run: run.qps) is None


def test_both_ends_of_a_bracket_are_told() -> None:
    assert swept().bracket(0.95) == "slack 0.02: 0.9000, 600 to slack 0.05: 0.9600, 300"
    assert swept().bracket(0.5) == "the least value, slack 0.02: 0.9000, 600"
    assert swept().bracket(0.995) == "slack 0.1 reaches 0.9900 only"


def test_the_best_sweep_is_the_fastest_that_reaches() -> None:
    slow, fast = swept("a"), swept("b", faster=3)
    found = best([slow, fast], 0.96, lambda run: run.qps)
    assert found is not None
    assert found[0].side == "b"
    assert found[1] == pytest.approx([600, 1200])
    assert best([slow, fast], 0.999, lambda run: run.qps) is None
    assert best([], 0.9, lambda run: run.qps) is None


def test_ratios_are_taken_repeat_by_repeat() -> None:
    spread = ratios([10.0, 40.0, 90.0], [10.0, 20.0, 30.0])
    assert (spread.low, spread.median, spread.high) == (1, 2, 3)


def test_runs_are_whole_passes_of_about_the_wanted_length() -> None:
    assert passes(3, 1000, 100) == 1
    assert passes(3, 1000, 1000) == 3
    assert passes(3, 1000, 1050) == 3
    assert passes(0.1, 1000, 50_000) == 5


def test_ours_is_compared_with_the_better_of_theirs() -> None:
    all_three = [swept(faster=4), swept(VECTOR.name), swept(HALFVEC.name, faster=2)]
    base = {side.name: [asked(1, 1, cpu=10.0)] * 2 for side in SIDES}
    row = qps.compared("QPS", 0.96, base, all_three)
    assert row.figure == pytest.approx(2)
    assert "1,200 by pagehop.slack against 600 of pgvector halfvec" in row.detail
    assert "by server CPU above base 1.00" in row.detail
    missed = qps.compared("QPS", 0.999, base, all_three)
    assert (missed.figure, missed.detail) == (None, "not reached by pagehop and pgvector")


def test_other_storage_is_compared_around_its_recall() -> None:
    chosen = qps._around_stored([swept(), swept(VECTOR.name)])
    assert chosen == [(side, SLACK, value) for side in (PAGEHOP, VECTOR) for value in (0.05, 0.1)]


def test_builds_are_compared_with_the_least_of_theirs() -> None:
    seconds = {PAGEHOP: [2.0, 4.0], VECTOR: [8.0, 8.0], HALFVEC: [4.0, 4.0]}
    runs = [
        {"side": side.name, "workers": 1, "repeat": repeat, "wall_s": wall}
        for side, walls in seconds.items()
        for repeat, wall in enumerate(walls)
    ]
    row = build._compared("build", runs, 1, "wall_s")
    assert row.figure == pytest.approx(0.75)
    assert row.detail.startswith("over pgvector halfvec: pagehop 3.0, pgvector vector 8.0")


def test_cold_starts_are_compared_by_their_medians() -> None:
    def rows(runs: dict[str, list[dict[str, Any]]]) -> list[Row]:
        report = Report()
        cold._compare(report, "cold", Scale(), runs, "read_blocks")
        return report.rows

    reads = {PAGEHOP.name: [30.0, 10.0, 20.0], VECTOR.name: [100.0] * 3, HALFVEC.name: [80.0] * 3}
    runs = {side: [{"read_blocks": figure} for figure in figures] for side, figures in reads.items()}
    assert rows(runs)[0].figure == pytest.approx(0.25)
    assert rows(runs | {PAGEHOP.name: []})[0].figure is None


def test_the_log_is_counted_with_and_without_pages() -> None:
    heap = "Heap        100 ( 50.00)         5000 ( 50.00)         90000 ( 50.00)        95000 ( 50.00)"
    total = "Total       200                 10000 [5.26%]         180000 [94.74%]       190000 [100%]"
    said = f"WAL statistics between 0/1 and 0/2:\n{heap}\n            ----\n{total}\n"
    assert read_totals(said) == {"wal_records": 200, "wal_record_bytes": 10_000, "wal_image_bytes": 180_000}
    with pytest.raises(RuntimeError, match="did not say"):
        read_totals("nothing")


def test_rows_of_a_halfvec_are_what_copy_reads() -> None:
    written = copy_rows(np.array([7]), np.array([[1, 2, 6.5]], dtype=np.float32), ">f2")
    assert struct.unpack(">hiqihh3e", written) == (2, 8, 7, 10, 3, 0, 1, 2, 6.5)


def test_settings_are_what_the_server_reads() -> None:
    assert SLACK.settings(0.02) == {"pagehop.slack": "0.02"}
    assert EF_SEARCH.settings(400) == {"hnsw.ef_search": "400"}
    assert all(list(family.values) == sorted(family.values) for family in (SLACK, SEARCH_LIST, EF_SEARCH))
    assert len({side.index for side in SIDES}) == len(SIDES)


def test_sets_are_known_by_name() -> None:
    assert all(map(sets.known, ["fashion-mnist", "generated-768", "generated-1536"]))
    assert not any(map(sets.known, ["generated-", "generated-768-1m", "mnist"]))


def test_the_command_line_overrules_the_scale(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    given = parser.parse_args(["--set", "generated-768", "--rows", "9", "--build-repeats", "3", "--seconds", "0.5"])
    scale = command.scale_of(given, Scale())
    assert (scale.sets, scale.rows, scale.build_repeats, scale.seconds) == (("generated-768",), 9, 3, 0.5)
    assert scale.queries == Scale().queries
    assert command.scale_of(parser.parse_args([]), smoke(tmp_path)) == smoke(tmp_path)
    with pytest.raises(SystemExit):
        parser.parse_args(["--set", "generated"])


def test_fewer_generated_rows_are_the_first_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "DATA", tmp_path)
    many, few = (
        sets.load("generated-8", dataclasses.replace(smoke(tmp_path / "x"), rows=rows, queries=5)) for rows in (300, 40)
    )
    np.testing.assert_array_equal(many.base[:40], few.base)
    np.testing.assert_array_equal(many.queries, few.queries)
    assert few.truth.ids.max() < 40
    files = sets.export(few, smoke(tmp_path / "x"), 10)
    assert np.load(files.truth).shape == (5, 10)


def test_sides_are_timed_in_alternating_order(tmp_path: Path) -> None:
    order: list[tuple[str, float, int]] = []

    def asking(side: qps.Searched, _: Family, value: float, count: int) -> Asked:
        order.append((side.name, value, count))
        return asked(1_000.0, 0.9)

    def base_of(side: qps.Searched) -> Asked:
        order.append((side.name, 0, 0))
        return asked(1_000.0, 1.0)

    maria = mariadb.MARIADB[0]
    settings: list[tuple[mariadb.AnySide, Family, float]] = [
        (PAGEHOP, SLACK, 0.1),
        (maria, mariadb.EF_SEARCH, 10),
        (maria, mariadb.EF_SEARCH, 20),
    ]
    scale = dataclasses.replace(smoke(tmp_path), queries=100, seconds=0.3, repeats=2)
    bases, found = qps.timed(Report(), scale, settings, asking, base_of)
    ours, least, more = ((side.name, value) for side, _, value in settings)
    # A run of all queries brings what is needed into memory and says how many passes take 0.3 s.
    assert order[:3] == [(*ours, 100), (*least, 100), (*more, 100)]
    names = [(name, value) for name, value, _ in order[3:]]
    first = [(ours[0], 0), (least[0], 0), ours, least, more]
    # What was disturbed is tried again, and all of these were.
    thrice = [one for one in first for _ in range(3)]
    again = [one for one in [(least[0], 0), (ours[0], 0), more, least, ours] for _ in range(3)]
    assert names == thrice + again
    assert {count for _, value, count in order[3:] if value} == {300}
    assert [(one.side, list(one.runs)) for one in found] == [(ours[0], [0.1]), (least[0], [10, 20])]
    assert {name: len(runs) for name, runs in bases.items()} == {ours[0]: 2, least[0]: 2}


def test_the_sides_take_turns() -> None:
    settings = mariadb._in_turns([PAGEHOP, *mariadb.MARIADB])
    assert [side.name for side, _, _ in settings[:8]] == 2 * ["pagehop", "pagehop", "mariadb M=8", "mariadb M=16"]
    families = [SLACK, SEARCH_LIST, mariadb.EF_SEARCH, mariadb.EF_SEARCH]
    assert len(settings) == len(set(settings)) == sum(len(family.values) for family in families)


def test_statements_for_mariadb_are_its_own() -> None:
    assert {side.m for side in mariadb.MARIADB} == {8, 16}
    side = mariadb.MARIADB[0]
    assert "FROM items_m8 ORDER BY VEC_DISTANCE_EUCLIDEAN(embedding, ?)" in side.search
    assert side.index.startswith(side.table)
    assert mariadb.EF_SEARCH.settings(20) == {"mhnsw_ef_search": "20"}
    assert mariadb.EF_SEARCH.shown(20) == "mhnsw_ef_search 20"
    assert EF_SEARCH.shown(20) == "ef_search 20"
