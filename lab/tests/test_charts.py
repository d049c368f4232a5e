"""Charts: latency by percentile, requests and KiB of a query, ratios as shades."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pagehop_lab.analysis.points import Options, Point
from pagehop_lab.analysis.settings import settings_of
from pagehop_lab.report import heat
from pagehop_lab.report.page import table_html
from pagehop_lab.suites.cold import tables as cold
from pagehop_lab.suites.concurrency import tables as concurrency
from pagehop_lab.suites.latencies import percentiles
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Table, with_marks

RESULTS = cast(Results, SimpleNamespace(k=10, title=str))


def point(search: Options, sessions: int = 1, qps: float = 100.0, repeat: int = 0, **raw: Any) -> Point:
    found: Any = {"count": 100, "latency_us": {"p50": 1000.0, "p95": 2000.0, "p99": 4000.0}, **raw}
    file = f"points/{sessions}-{repeat}.json"
    return Point("set", "engine", (), search, 0.9, qps, sessions, repeat=repeat, file=file, raw=found)


@pytest.mark.parametrize(
    ("ratio", "shade"),
    [(1.0, ""), (1.01, ""), (0.99, ""), (1.02, "up1"), (0.98, "down1"), (1.05, "up2"), (0.95, "down2"), (1.1, "up3"),
     (1.3, "up4"), (0.92, "down2"), (0.91, "down3"), (0.8, "down4"), (0.68, "down4"), (0.67, "down5"), (1.5, "up5"),
     (2.0, "up5"), (0.5, "down5"), (0.0, "down5")],
)  # fmt: skip
def test_a_ratio_is_shaded_by_how_far_it_is_from_1(ratio: float, shade: str) -> None:
    assert heat.shade(ratio) == shade


def test_every_limit_in_the_key_has_the_shade_that_it_is_shown_in() -> None:
    shown = heat.key(Table("t", "t", ("a",), [], is_heat=True))
    limits = re.findall(r"<span class=(\w+)>[≤≥] ([\d.]+)<", shown)
    assert len(limits) == 10
    assert [heat.shade(float(limit)) for _, limit in limits] == [name for name, _ in limits]


def test_only_a_table_of_ratios_is_shaded_and_an_unsure_ratio_is_not() -> None:
    # The last ratio is far from 1, but has one repeat.
    rows = [[
        Cell("test", "test"), Cell("1.30", 1.3, is_apart=True), Cell("0.70?", None, invalid=True), Cell("0.50", 0.5),
    ]]  # fmt: skip
    shown = table_html(Table("t", "t", ("test", "a", "b", "c"), rows, is_heat=True), is_open=True)
    assert shown.count("<td") == 4
    assert shown.count('<td class="number up4">1.30</td>') == 1
    assert "<td" in shown.partition("0.70?")[0]
    assert "down" not in shown.partition("<tbody>")[2]
    assert "class=shades" in shown
    plain = table_html(Table("t", "t", ("test", "a", "b", "c"), rows), is_open=True)
    assert "up4" not in plain
    assert "shades" not in plain


def test_percentiles_are_at_their_share_with_the_middle_of_the_repeats() -> None:
    repeats = [({"p50": 3.0, "p99": 9.0}, "c"), ({"p50": 1.0, "p99": 5.0}, "a"), ({"p50": 2.0, "p99": 7.0}, "b")]
    drawn = percentiles("n", "t", {"one": repeats, "none": [], "unknown": [({}, "d")]})
    (series,) = drawn.series
    assert [(mark.x, mark.y, mark.low, mark.high, mark.file) for mark in series.marks] == [
        (0.5, 2.0, 1.0, 3.0, "b"), (0.99, 7.0, 5.0, 9.0, "b"),
    ]  # fmt: skip
    assert drawn.x_nears_one
    assert with_marks([drawn, percentiles("n", "t", {})]) == [drawn]


def test_what_a_session_gets_is_qps_over_sessions() -> None:
    settings = settings_of([point((), n, 100.0 * n**0.5, repeat) for n in (1, 4, 16) for repeat in (0, 1)])
    (series,) = concurrency.chart_each(RESULTS, settings, "set").series
    assert series.line == [(1, 100.0), (4, 50.0), (16, 25.0)]
    latencies = concurrency.latencies(RESULTS, settings, "set")
    assert [one.name for one in latencies.series] == ["engine, one session", "engine, 16 sessions"]
    assert [mark.y for mark in latencies.series[0].marks] == [1.0, 2.0, 4.0]


def test_reads_of_a_query_are_by_depth_where_that_differs_else_by_recall() -> None:
    def read(search: Options, reads: int) -> Point:
        return point(search, bytes_read_per_query=reads * 4096, count=10, phases=[{"disk": {"reads": 10 * reads}}])

    depth = "effective_io_concurrency"
    deep = settings_of([read(((depth, deep),), 40 - deep) for deep in (0, 16)] + [read((("ef", 1),), 7)])
    requests, kib = cold.reads(RESULTS, deep, "set")
    assert (requests.x_title, requests.x_nears_one) == (depth, False)
    assert [(series.name, series.line) for series in requests.series] == [("engine, cold", [(0, 40), (16, 24)])]
    assert kib.series[0].line == [(0, 160), (16, 96)]
    requests, _ = cold.reads(RESULTS, settings_of([read((("ef", 1),), 7), read((("ef", 2),), 9)]), "set")
    assert (requests.x_title, requests.x_nears_one) == ("recall@10", True)
    assert requests.series[0].line == [(0.9, 7), (0.9, 9)]
