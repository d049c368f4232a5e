"""A real server in a run: pgvector in PostgreSQL, which the lab starts, queries and ends.

Skipped without the server.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import runs
from devserver import DevServerError, install
from devserver.cluster import Cluster
from pagehop_lab.analysis.points import Point
from pagehop_lab.engines.pagehop_postgres import PagehopPostgres
from pagehop_lab.engines.pgvector_vector import PgvectorVector
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
        raw = runs.raw(point)
        assert point.recall > 0.8
        assert raw["index_used"]
        assert "Index Scan using pagehop_lab" in raw["plan"]
        assert raw["engine_cpu_us_per_query"] > raw["client_cpu_us_per_query"] > 0
        assert raw["recall"]["by_threshold"] >= raw["recall"]["by_id"]
        assert raw["memory_bytes"] > 1 << 20
    (build,) = results.builds
    assert runs.raw(build)["index_bytes"] > 4000 * 16 * 4
    assert [phase["phase"] for phase in build.raw["phases"]] == ["start", "load", "index"]
    assert {one["sessions"] for one in results.ceilings} == {1, 2}


def test_a_planner_that_leaves_the_index_alone_makes_the_figures_invalid(tmp_path: Path) -> None:
    """Twenty rows are read faster without an index over them."""
    results = measured(tmp_path, 20)
    assert [point.wrong for point in results.points] == [("plan: the index was not used, every row was compared",)] * 2


def test_a_distance_may_be_asked_for(tmp_path: Path) -> None:
    """A search within a distance that is too small finds too few rows."""
    plan = PLAN.replace("ef_search = [10, 40]", "ef_search = 40, within = [0.001, 9.0]").replace(
        "generated-16", "uniform-6"
    )
    results = run(plan.format(rows=4000, load="", more=""), tmp_path / "run")[0]
    near, far = results.points
    assert [reason.partition(":")[0] for reason in near.wrong] == ["rows"]
    assert "Filter" in far.raw["plan"]
    assert far.valid
    assert far.recall > 0.9


def test_a_filter_is_a_condition_and_has_a_truth_of_its_own(tmp_path: Path) -> None:
    results = measured(tmp_path, 4000, load="matching = [0.1, 1.0]")
    assert results.sound, [point.wrong for point in results.points]
    for point in results.points:
        assert point.recall > 0.8
        assert ("% 1000) < 100" in point.raw["plan"]) == bool(point.asked)
        assert ("hnsw.iterative_scan" in point.raw["settings"]) == bool(point.asked)


def test_what_filters_compare_may_be_in_the_index(tmp_path: Path) -> None:
    ours, theirs = PagehopPostgres(tmp_path), PgvectorVector(tmp_path)
    assert ours.using("vector_l2_ops", {}) == "pagehop (embedding vector_l2_ops)"
    assert ours.using("vector_l2_ops", {"columns": 1}) == "pagehop (embedding vector_l2_ops, (id % 1000))"
    built = {"m": 16, "ef_construction": 64}
    partial = theirs.using("vector_l2_ops", built | {"partial": 0.1})
    assert partial == theirs.using("vector_l2_ops", built) + " WHERE id % 1000 < 100"


@pytest.mark.long
def test_a_partial_index_answers_its_filter(tmp_path: Path) -> None:
    text = PLAN.format(rows=4000, load="matching = 0.1", more="")
    text = text.replace('name = "pgvector"', 'name = "pgvector"\nbuild = { partial = 0.1 }')
    results = run(text, tmp_path / "run")[0]
    assert results.sound, [point.wrong for point in results.points]
    assert all(point.recall > 0.8 for point in results.points)


def test_rows_come_in_while_others_are_searched_and_are_gone_afterwards(tmp_path: Path) -> None:
    text = PLAN.format(rows=2000, load="insert_rate = [100.0, 1e6]", more="").replace("[10, 40]", "40")
    too_many: list[Point] = []
    for seconds in (1.0, 4.0, 8.0):
        longer = text.replace("seconds = 0.1", f"seconds = {seconds}", 1)
        steady, *others = run(longer, tmp_path / f"run-{seconds}")[0].points
        too_many += others
        text = text.replace(", 1e6", "")
        # Rows are inserted ten times a second. On a busy machine, the last insertion of a short
        # step may be late.
        if steady.valid:
            break
    assert steady.asked == (("insert_rate", 100.0),)
    assert steady.valid, steady.wrong
    assert steady.raw["inserted_count"] > 10
    assert 95 <= steady.raw["inserted_per_s"] < 130
    recall = runs.raw(steady)["recall"]
    assert 0.7 < recall["by_id"] <= recall["by_threshold"]
    (much,) = too_many
    assert [reason.partition(" were")[0] for reason in much.wrong] == ["inserts: 1e+06 rows a second"]


@pytest.mark.long
def test_rows_that_come_in_are_filtered_like_others(tmp_path: Path) -> None:
    load = "insert_rate = [0.0, 100.0]\nmatching = [1.0, 0.5]"
    text = PLAN.format(rows=4000, load=load, more="").replace("[10, 40]", "40")
    results = run(text.replace("seconds = 0.1", "seconds = 0.5", 1), tmp_path / "run")[0]
    # On a busy machine, rows may be late.
    assert not [reason for point in results.points for reason in point.wrong if not reason.startswith("inserts:")]
    both = next(point for point in results.points if len(point.asked) == 2)
    assert both.asked == (("matching", 0.5), ("insert_rate", 100.0))
    assert both.raw["inserted_count"] > 10
    assert "% 1000) < 500" in both.raw["plan"]
    assert 0.7 < runs.raw(both)["recall"]["by_id"] <= runs.raw(both)["recall"]["by_threshold"]


def test_a_server_that_dies_is_said_to_and_the_rest_is_left_for_later(tmp_path: Path) -> None:
    text = PLAN.format(rows=2000, load="", more="").replace('"pgvector"', '"dying-server"')
    results, _ = run(text.replace("repeats = 1", "repeats = 2"), tmp_path / "run")
    assert [dict(point.search)["ef_search"] for point in results.points] == [10]
    reasons = sorted(results.coverage.failed.values())
    assert len(reasons) == 3
    assert reasons[0].startswith("it died during measure, by exit code 1; its log ends with: the server died: ")
    assert all("not reached, run the same command to measure it" in reason for reason in reasons[1:])


ANY = """
[[engine]]
name = "postgres:lists"
build = {{ using = ["ivfflat (embedding vector_l2_ops) WITH (lists = 20)", "ivfflat (embedding vector_cosine_ops)"] }}
search = {{ settings = ["ivfflat.probes = 2", "ivfflat.probes = 20; ivfflat.max_probes = 20"] }}
{url}
"""


@pytest.mark.long
def test_any_index_of_any_server_is_measured_as_a_plan_writes_it(tmp_path: Path) -> None:
    with Cluster(install()) as cluster:
        cluster.psql("CREATE EXTENSION vector")
        url = f'url = "{cluster.url()}"'
        results = measured(tmp_path, 4000, more=ANY.format(url=url))
    assert results.title("postgres:lists") == "lists"
    facts = next(facts for facts in results.engines if facts.name == "postgres:lists")
    assert re.fullmatch(r"vector [\d.]+ in PostgreSQL [\d.]+", facts.version or "")
    points = [point for point in results.points if point.engine == "postgres:lists"]
    few, many = (point for point in points if "l2" in str(dict(point.build)["using"]))
    assert few.valid
    assert many.valid
    assert few.recall < many.recall == 1
    assert many.raw["settings"]["ivfflat.max_probes"] == "20"
    others = [point.wrong for point in points if "cosine" in str(dict(point.build)["using"])]
    assert others == [("plan: the index was not used, every row was compared",)] * 2


def test_caches_are_cold_scarce_and_hot(tmp_path: Path) -> None:
    """Empties the kernel's caches and limits memory, which needs root.

    Without root, every point reports this.
    """
    load = 'cold_queries = 30\ncaches = ["cold", "limited", "hot"]\nmemory_mib = 64\n'
    text = PLAN.format(rows=8000, load=load, more="").replace("generated-16", "generated-384")
    text = text.replace(
        "search = { ef_search = [10, 40] }", "build = { m = 8, ef_construction = 32 }\nsearch = { ef_search = 40 }"
    )
    results = run('suite = "cold"\n' + text, tmp_path / "run")[0]
    if not results.points:
        assert all("be root" in reason for reason in results.coverage.failed.values())
        pytest.skip("caches cannot be emptied here")
    states = {dict(point.asked).get("cache", "cold"): point for point in results.points}
    assert states["cold"].valid
    assert states["hot"].valid, states["hot"].wrong
    assert states["cold"].raw["bytes_read_per_query"] > states["hot"].raw["bytes_read_per_query"]
    assert states["hot"].raw["queries_asked"] == 1
    if "limited" in states:
        assert runs.raw(states["limited"])["memory_limit"]["peak_bytes"] <= 64 << 20
        assert states["limited"].valid, states["limited"].wrong


@pytest.mark.long
def test_few_shared_buffers_and_vectors_in_toast(tmp_path: Path) -> None:
    text = PLAN.format(rows=3000, load="", more="").replace("generated-16", "generated-784")
    few = 'build = {{ shared_buffers_mib = 2, storage = "{}" }}\nsearch'
    text = text.replace("search", few.format("external"), 1)
    (build,) = (results := run(text, tmp_path / "external")[0]).builds
    assert results.sound, [point.wrong for point in results.points]
    assert build.raw["about"]["shared_buffers"] == "2MB"
    assert all(runs.raw(point)["blocks_read_per_query"] > 5 for point in results.points)
    assert runs.raw(build)["table_bytes"] > 3000 * 784 * 4, "the bytes of TOAST are included"
    unknown = run(text.replace("external", "elsewhere"), tmp_path / "unknown")[0]
    assert all("there are plain, external" in reason for reason in unknown.coverage.failed.values())
    assert unknown.coverage.failed


def test_a_server_that_runs_already_is_left_as_it_was(tmp_path: Path) -> None:
    with Cluster(install()) as cluster:
        results = measured(tmp_path, 4000, load="rate = 200.0", more=f'url = "{cluster.url()}"')
        assert results.coverage.complete
        assert not results.coverage.failed
        # On a busy machine, an answer may be late.
        wrong = [reason for point in results.points for reason in point.wrong if not reason.startswith("rate:")]
        assert wrong == []
        assert cluster.psql("SELECT count(*) FROM pg_class WHERE relname LIKE 'pagehop_lab%'") == "0"
        password = cluster.password
    for point in results.points:
        assert point.raw["rate"] == 200
        # In a tenth of a second, one late answer is a large share.
        assert 0 < point.qps < 220
        assert point.raw["engine_cpu_us_per_query"] is None
    for path in (tmp_path / "run").rglob("*.*"):
        if path.suffix in (".json", ".toml", ".csv", ".html"):
            assert password not in path.read_text()
    identity = json.loads(next((tmp_path / "run").glob("points/*.json")).read_text())["identity"]
    assert identity["server"].startswith("postgresql://postgres@127.0.0.1:")
