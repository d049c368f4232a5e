"""The vector Insert Benchmark on real servers: rows come and go, and answers are right.

The state after each step is checked. Skipped if the server is not installed: nothing is fetched.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from devserver import DevServerError, innodb, install, mariadb
from pagehop_lab import data
from pagehop_lab.analysis.case import Case
from pagehop_lab.data import sets
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.steps import State
from pagehop_lab.plan.servers import ServerSpec
from pagehop_lab.run.servers import Product
from pagehop_lab.suites.catalog import OF_SERVERS
from pagehop_lab.suites.vector_inserts import measure as vector_inserts
from pagehop_lab.suites.vector_inserts import run
from pagehop_lab.suites.vector_inserts.servers import MariaDbVectors
from pagehop_lab.suites.vector_inserts.vector_rows import _length, _values
from runs import read_servers

ROWS = 600
# The list of candidates is long enough to find all of these few rows.
PLAN = """
suite = "vector-inserts"
[load]
rows = 1000
seconds = 0.3
dataset = "generated-16"
[[server]]
product = "mariadb"
options = { ef_search = 100 }
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[data.Dataset]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(sets.VARIABLE, str(tmp_path_factory.mktemp("data")))
        yield data.prepare("generated-16", None, 2 * ROWS, 20, None, 1, lambda _: None)


@pytest.fixture(params=["mariadb", pytest.param("pgvector", marks=pytest.mark.long)])
def tables(request: pytest.FixtureRequest) -> Iterator[Any]:
    if importlib.util.find_spec("pymysql") is None or importlib.util.find_spec("psycopg") is None:
        pytest.skip("no PyMySQL or psycopg")
    if request.param == "mariadb" and not mariadb.FOLDER.is_dir():
        pytest.skip(f"no MariaDB in {mariadb.FOLDER}")
    if request.param == "pgvector":
        try:
            install()
        except DevServerError as error:
            pytest.skip(f"no PostgreSQL: {error}")
    plan = read_servers(PLAN.replace("mariadb", request.param), "test")
    product: Product = OF_SERVERS[plan.suite].servers(plan)[request.param]
    assert product.version(plan.servers[0])
    instance = product.new(plan.servers[0], plan.configuration)
    try:
        instance.start()
        yield instance
    finally:
        instance.remove()


def test_a_window_of_vectors_moves_and_the_nearest_are_found(tables: Any, dataset: data.Dataset) -> None:
    said = vector_inserts.load(tables, dataset, ROWS, 60)
    assert said["index_bytes"] > ROWS * 16
    state = State(0, said["rows"])
    raw = vector_inserts.write(tables, dataset, state, 5, 0.3)
    assert raw["count"] > 0
    assert tables.window() == (state.low, state.high)
    # Before VACUUM, all of pgvector's few candidates may be dead: on a fast machine most rows are.
    tables.settle()
    raw = vector_inserts.query(tables, dataset, state, 50, 0.6)
    assert raw["recall"] > 0.95
    assert raw["rows_gone_count"] == 0
    # MariaDB may return fewer rows than requested while others delete, most often on a fast
    # machine.
    assert raw["rows_short_count"] == 0 or isinstance(tables, MariaDbVectors)
    assert raw["rows_again_count"] == max(0, state.high - 2 * ROWS)
    assert tables.window() == (state.low, state.high)
    assert raw["index_bytes"] > 0
    # Another client has moved the window, which the bench does not know.
    bench = run.VectorInserts(read_servers(PLAN, "test"))
    bench._states[id(tables)] = State(0, state.high - 7)
    bench.__dict__["_dataset"] = dataset
    with pytest.raises(MeasureError, match=r"client failed (in the middle|at the end): .*[Dd]uplicate"):
        bench.measure(tables, Case("l.i2", "writes", "write", 5, writes=True), 0.0)
    assert (bench._states[id(tables)].low, bench._states[id(tables)].high) == tables.window()
    assert bench.measure(tables, Case("l.i2", "writes", "write", 5, writes=True), 0.0)["count"] > 0


def test_the_index_is_used_or_that_is_said(dataset: data.Dataset) -> None:
    if importlib.util.find_spec("pymysql") is None or not mariadb.FOLDER.is_dir():
        pytest.skip(f"no MariaDB in {mariadb.FOLDER}")
    with innodb.Instance(mariadb.of_version("11.8")) as ours:
        product = OF_SERVERS["vector-inserts"].servers(read_servers(PLAN, "test"))["mariadb"]
        server = ServerSpec("mariadb", "by-url", url=ours.url())
        assert product.version(server).startswith("11.8")
        tables: Any = product.new(server, read_servers(PLAN, "test").configuration)
        tables.start()
        said = vector_inserts.load(tables, dataset, ROWS, 60)
        assert tables.plan(dataset.queries[0])[1]
        raw = vector_inserts.query(tables, dataset, State(0, said["rows"]), 0, 0.2)
        # The server runs already, so its cost is not known, but its answers are measured.
        assert raw["server_cpu_us_per_query"] is None
        assert raw["recall"] > 0.9
        ours.execute("ALTER TABLE items DROP INDEX items_embedding")
        assert not tables.plan(dataset.queries[0])[1]
        tables.remove()
        assert ours.execute("SHOW TABLES") == []
        wrong = ServerSpec("pgvector", "by-url", url=ours.url())
        with pytest.raises(DevServerError, match="not a URL of the product that the plan names"):
            OF_SERVERS["vector-inserts"].servers(read_servers(PLAN, "test"))["pgvector"].version(wrong)


def test_rows_are_bytes_as_mysqls_protocol_wants_them() -> None:
    vectors = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    said = _values(5, vectors)
    assert said == b"".join(
        (5 + row).to_bytes(8, "little") + b"\x08" + vectors[row].astype("<f4").tobytes() for row in range(2)
    )
    assert [_length(count) for count in (250, 251, 1 << 16)] == [b"\xfa", b"\xfc\xfb\0", b"\xfd\0\0\x01"]
