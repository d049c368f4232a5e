"""Writers of a vector index on a real server: every step inserts its rows, from the same table.

Skipped if the server is not installed: nothing is fetched.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from devserver import DevServerError, install
from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.data import sets
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.suites.catalog import OF_SERVERS
from pagehop_lab.suites.vector_writers import measure, run
from pagehop_lab.suites.vector_writers.clients import TABLE
from pagehop_lab.suites.vector_writers.measure import WARM_ROWS
from pagehop_lab.suites.vector_writers.records import WritersRecord
from pagehop_lab.suites.vector_writers.servers import WriterServer
from runs import read_servers

PLAN = """
suite = "vector-writers"
[load]
dataset = "generated-16"
dataset_rows = 50000
rows = 1000
clients = 2
seconds = 0.3
queries = 50
copy_rows = 300
log_rows = 400
log_seconds = 0.5
vacuum_seconds = 20
search_rate = 200
search_seconds = 1.5
recall_rows = 500
recall_lists = [40, 100]
[[server]]
product = "PRODUCT"
"""


@pytest.fixture(scope="module", params=[pytest.param("pgvector", marks=pytest.mark.long), "pgvector-halfvec"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A plan, its bench, and a server with the loaded table."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("no psycopg")
    try:
        install()
    except DevServerError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    plan = read_servers(PLAN.replace("PRODUCT", request.param), "test")
    instance: Any = OF_SERVERS[plan.suite].servers(plan)[request.param].new(plan.servers[0], plan.configuration)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(sets.VARIABLE, str(tmp_path_factory.mktemp("data")))
        bench = run.VectorWriters(plan)
        try:
            instance.start()
            assert bench.load(instance)["rows"] == 1000
            yield plan, bench, instance
        finally:
            instance.remove()


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """A list to which the end of each step adds the number of rows in the table, and the greatest
    id.
    """
    found: list[tuple[int, int]] = []
    end = WriterServer.end_step

    def counting(server: WriterServer) -> None:
        with server.connection() as connection:
            found.append(connection.execute(f"SELECT count(*), max(id) FROM {TABLE}").fetchone())
        end(server)

    monkeypatch.setattr(WriterServer, "end_step", counting)
    return found


def step(made: Any, name: str) -> WritersRecord:
    plan, bench, instance = made
    (case,) = [one for one in plan.cases if one.name == name]
    raw: WritersRecord = bench.measure(instance, case, 0.0)
    assert (raw["server_cpu_us_per_query"] or 0) > 0
    return raw


def test_writers_commit_each_row_and_every_step_begins_with_the_same_table(
    made: Any, counts: list[tuple[int, int]]
) -> None:
    for name, writers in (("write-one", 1), ("write-many", 2)):
        raw = step(made, name)
        # Some rows were committed before all clients began, and some after the last look.
        assert counts[-1][0] - 1000 == raw["log_rows"] >= raw["count"] + writers * WARM_ROWS
        assert raw["rows_per_s"] == pytest.approx(raw["count"] / raw["elapsed_s"])
        assert raw["commit_ms"]["p50"] > 0
        assert raw["log_bytes"] > 16 * 2
    raw = step(made, "copy")
    assert counts[-1] == (1300, 1299)
    assert raw["count"] == 300


def test_the_log_of_a_number_of_rows_is_split(made: Any, counts: list[tuple[int, int]]) -> None:
    raw = step(made, "log-rows")
    assert counts[-1] == (1400, 1399)
    assert raw["log_rows"] == 400
    assert raw["log_record_bytes"] > 16 * 2
    assert raw["log_image_bytes"] > 0, "after a checkpoint, the first change of a page logs its image"
    assert raw["log_record_bytes"] + raw["log_image_bytes"] <= raw["log_bytes"] * 1.01
    raw = step(made, "log-interval")
    assert raw["elapsed_s"] >= 0.5
    assert raw["log_record_bytes"] > 0


def test_autovacuum_comes_to_the_dead_rows(made: Any) -> None:
    raw = step(made, "vacuum")
    assert raw["vacuum_s"] > 0
    assert raw["vacuum_share"] > 0
    assert made[2].ours.execute("SHOW autovacuum") == [("off",)]
    assert raw["count"] > 0


def test_searches_go_on_beside_writers(made: Any) -> None:
    raw = step(made, "search")
    assert raw["index_used"]
    assert raw["write_target"] == pytest.approx(raw["rows_full_per_s"] / 2)
    for name in ("idle", "beside"):
        due, sent, done = raw["arrays"][name].T
        np.testing.assert_allclose(np.diff(due), 1 / 200, atol=1e-6)
        assert (due <= sent).all()
        assert (sent <= done).all()


def test_recall_is_that_of_the_same_rows_after_writers_and_of_one_build(
    made: Any, counts: list[tuple[int, int]]
) -> None:
    raw = step(made, "recall")
    assert counts[-1] == (1500, 1499)
    assert min([*raw["recall_after"], *raw["recall_built"]]) > 0.9
    gains = np.subtract(raw["recall_after"], raw["recall_built"])
    assert raw["recall_gain"] == pytest.approx(gains.min())


def test_rows_that_come_to_an_end_are_said(made: Any) -> None:
    plan, bench, instance = made
    supply, load = bench._supply, bench._load
    instance.begin_step()
    supply.__dict__["count"] = 1100
    with pytest.raises(MeasureError, match=r"generated-16 has 1,100 rows .*after \d+ s: name a larger set"):
        measure.write(measure.Asked(instance, supply, load), 2, 30.0)
    with pytest.raises(MeasureError, match=r"recall takes 1,500 rows that are different, and generated-16 has 1,100"):
        bench.measure(instance, plan.cases[-1], 0.0)
    # The rows of a step at full speed are estimated from the previous step.
    bench._rates[id(instance)] = 10_000.0
    with pytest.raises(MeasureError, match=r"log-interval takes 3,500 rows that are different"):
        bench.measure(instance, plan.cases[4], 0.0)
    del supply.__dict__["count"]
    bench._rates.clear()


def test_a_step_is_judged_as_others_are(made: Any) -> None:
    raw = step(made, "copy")
    assert all("client" in reason for reason in judge_load(raw).wrong)
