"""A real server in a run: pgvector in PostgreSQL, started, asked and ended by the lab; skipped where there is none."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from devserver import DevServerError, install
from devserver.cluster import Cluster
from pagehop_lab.suites.results import Results
from runs import fake_engines, run

PLAN = """
[load]
seconds = 0.1
warmup_s = 0.05
repeats = 1
{load}
[[dataset]]
name = "generated-16"
rows = {rows}
queries = 50
[[engine]]
name = "pgvector"
search = {{ ef_search = [10, 40] }}
{more}
"""


@pytest.fixture(autouse=True)
def engines(tmp_path: Path) -> Iterator[None]:
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("no psycopg")
    try:
        install()
    except DevServerError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    with fake_engines(tmp_path / "data"):
        yield


def measured(tmp_path: Path, rows: int, load: str = "", more: str = "") -> Results:
    return run(PLAN.format(rows=rows, load=load, more=more), tmp_path / "run")[0]


def test_a_server_is_measured_with_what_it_costs(tmp_path: Path) -> None:
    results = measured(tmp_path, 4000, load="sessions = [1, 2]")
    assert results.sound, [point.wrong for point in results.points]
    assert len(results.points) == 4
    for point in results.points:
        raw = point.raw
        assert point.recall > 0.8
        assert raw["index_used"]
        assert "Index Scan using pagehop_lab" in raw["plan"]
        assert raw["engine_cpu_us_per_query"] > raw["client_cpu_us_per_query"] > 0
        assert raw["recall"]["by_threshold"] >= raw["recall"]["by_id"]
        assert raw["memory_bytes"] > 1 << 20
    (build,) = results.builds
    assert build.raw["index_bytes"] > 4000 * 16 * 4
    assert [phase["phase"] for phase in build.raw["phases"]] == ["start", "load", "index"]
    assert {one["sessions"] for one in results.ceilings} == {1, 2}


def test_a_planner_that_leaves_the_index_alone_makes_the_figures_invalid(tmp_path: Path) -> None:
    """Twenty rows are read faster than an index over them."""
    results = measured(tmp_path, 20)
    assert [point.wrong for point in results.points] == [("plan: the index was not used, every row was compared",)] * 2


def test_a_distance_may_be_asked_for(tmp_path: Path) -> None:
    """A search that is to find only rows within a distance, and finds too few of them where that is too near."""
    plan = PLAN.replace("ef_search = [10, 40]", "ef_search = 40, within = [0.001, 9.0]").replace(
        "generated-16", "uniform-6"
    )
    results = run(plan.format(rows=4000, load="", more=""), tmp_path / "run")[0]
    near, far = results.points
    assert [reason.partition(":")[0] for reason in near.wrong] == ["rows"]
    assert "Filter" in far.raw["plan"]
    assert far.valid
    assert far.recall > 0.9


def test_a_server_that_runs_already_is_left_as_it_was(tmp_path: Path) -> None:
    with Cluster(install()) as cluster:
        results = measured(tmp_path, 4000, load="rate = 200.0", more=f'url = "{cluster.url()}"')
        assert results.sound, [point.wrong for point in results.points]
        assert cluster.psql("SELECT count(*) FROM pg_class WHERE relname LIKE 'pagehop_lab%'") == "0"
        password = cluster.password
    for point in results.points:
        assert point.raw["rate"] == 200
        assert 190 < point.qps < 220
        assert point.raw["engine_cpu_us_per_query"] is None
    for path in (tmp_path / "run").rglob("*.*"):
        if path.suffix in (".json", ".toml", ".csv", ".html"):
            assert password not in path.read_text()
    identity = json.loads(next((tmp_path / "run").glob("points/*.json")).read_text())["identity"]
    assert identity["server"].startswith("postgresql://postgres@127.0.0.1:")
