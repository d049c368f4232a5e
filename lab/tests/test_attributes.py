"""The cost of the Nth attribute: what is written and asked, on servers that are here already, and how it is shown."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devserver import DevServerError
from fake_servers import FakeBench, FakeInstance, FakeProduct, run
from labservers import innodb, mariadb, postgres
from labservers.releases import FOLDER
from pagehop_lab.analysis.attributes import CASES, LONG_NAME, names
from pagehop_lab.analysis.oltp import Case
from pagehop_lab.measure import attributes, profile
from pagehop_lab.measure.attributes import Documents
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.wires import MysqlWire, Where
from pagehop_lab.plan import PlanError
from pagehop_lab.plan.servers import needed_bytes, read_servers

PLAN = 'suite = "attributes"\n[[server]]\nproduct = "postgres"\nversion = "18"\n'


def test_y_is_where_the_layout_says_in_order_and_by_length() -> None:
    assert names(2, "last") == ["x1", "x2", "y"]
    assert names(2, "first") == ["y", "x1", "x2"]
    assert names(2, "longest") == ["x1", "x2", LONG_NAME]
    # JSONB and MySQL's JSON order by length first: y comes before all, the long one after all.
    by_length = sorted(names(1000, "longest"), key=lambda name: (len(name), name))
    assert by_length[-1] == LONG_NAME
    assert sorted(names(1000, "last"), key=lambda name: (len(name), name))[0] == "y"
    assert len(CASES) == 8 * 3


def test_statements_are_those_of_the_product_and_model() -> None:
    here, there = Where("host=here"), Where("/socket", is_mysql=True)
    made = Documents(here, "jsonb", 2, "first", 2, 1)
    assert made.create() == "CREATE TABLE documents (id integer NOT NULL PRIMARY KEY, doc jsonb NOT NULL)"
    assert made.select() == "SELECT id, doc->>'y' FROM documents WHERE id = $1 AND (doc->>'y')::integer = $1"
    (text,) = made.inserts()
    rows = json.loads(
        "[" + text.decode().partition("VALUES ")[2].replace("(", "[").replace(")", "]").replace("'", "") + "]"
    )
    assert [(key, doc["y"], list(doc)) for key, doc in rows] == [(key, key, ["y", "x1", "x2"]) for key in range(2)]
    other = Documents(there, "json", 2, "longest", 2, 1)
    assert f"JSON_EXTRACT(doc, '$.{LONG_NAME}') = $1" in other.select()
    columns = Documents(there, "columns", 2, "last", 2, 1)
    assert columns.create().endswith("PRIMARY KEY, x1 integer NOT NULL, x2 integer NOT NULL, y integer NOT NULL)")
    assert columns.select() == "SELECT id, y FROM documents WHERE id = $1 AND y = $1"


def test_what_perf_says_is_read() -> None:
    said = "    39.10%  postgres           [.] pglz_decompress\n     4.40%  [kernel.kallsyms]  [k] unlock_it\n\n# end\n"
    assert profile.read(said) == [(39.1, "postgres", "pglz_decompress"), (4.4, "[kernel.kallsyms]", "unlock_it")]


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Instance]:
    if importlib.util.find_spec("psycopg") is None or not (FOLDER / "postgres-18").is_dir():
        pytest.skip(f"no PostgreSQL 18 in {FOLDER}")
    instance = postgres.Instance(postgres.install("18"), {"shared_buffers": "32MB"})
    try:
        instance.start()
        yield instance
    finally:
        instance.remove()


@pytest.mark.parametrize(("model", "layout"), [("jsonb", "first"), ("json", "longest"), ("columns", "last")])
def test_every_document_is_found_by_its_key_and_y(server: postgres.Instance, model: str, layout: str) -> None:
    raw = attributes.measure(server, model, 400, layout, 1000, 0.2, 1)
    assert raw["count"] > 0
    assert raw["rows_short_count"] == 0
    assert raw["index_used"]
    # Three kilobytes are too long for a row, four bytes in each of 400 columns are not.
    assert (raw["toast_bytes_per_row"] > 0) == (model != "columns")
    assert raw["bytes_per_row"] > 400 * 4
    assert server.execute("SELECT count(*) FROM pg_class WHERE relname = 'documents'")[0][0] == 0


def test_a_server_that_is_gone_is_said(server: postgres.Instance) -> None:
    gone = Documents(Where("host=/nowhere"), "json", 2, "last", 2, 1)
    with pytest.raises(MeasureError, match="could not be loaded: connection"):
        attributes._fill(gone.where, gone)
    with pytest.raises(DevServerError, match="serial"):
        attributes.measure(server, "nosuch serial", 2, "last", 2, 0.1, 1)
    assert server.running


def test_documents_of_mariadb() -> None:
    if importlib.util.find_spec("pymysql") is None or not mariadb.FOLDER.is_dir():
        pytest.skip(f"no MariaDB in {mariadb.FOLDER}")
    with innodb.Instance(mariadb.of_version("11.8")) as instance:
        raw = attributes.measure(instance, "json", 10, "last", 100, 0.2, 1)
        assert raw["rows_short_count"] == 0
        assert raw["index_used"]
        wire = MysqlWire(str(instance.socket))
        rows = wire.numbers("n", "SELECT '100%' UNION ALL SELECT $1", 1)
        assert rows.ask((7,)) == 2
        with pytest.raises(RuntimeError, match="nowhere"):
            wire.numbers("n", "SELECT $1 FROM nowhere", 1).ask((1,))
        # An answer that comes in more than one piece.
        long = wire.numbers("n", "SELECT REPEAT('x', 300000) FROM (SELECT $1 UNION ALL SELECT 2) AS two", 1)
        assert long.ask((1,)) == 2


def test_a_plan_of_documents_names_how_they_are_kept() -> None:
    plan = read_servers(PLAN + 'model = "json"\n' + PLAN.partition("\n")[2], "test")
    assert [server.name for server in plan.servers] == ["postgres 18 model=json", "postgres 18 model=jsonb"]
    assert len(plan.cases) == 24
    assert 2e8 < needed_bytes(plan) < 2e9
    with pytest.raises(PlanError, match=r"model = 'jsonb'"):
        read_servers(PLAN.replace("postgres", "mariadb").replace("18", "11.8") + 'model = "jsonb"', "test")
    with pytest.raises(PlanError, match="rounds: there is no such key"):
        read_servers(PLAN.replace("[[", "[load]\nrounds = 8\n[[", 1), "test")


def test_attributes_are_shown_by_their_number_and_an_empty_answer_is_invalid(tmp_path: Path) -> None:
    def on(_: FakeInstance, case: Case) -> dict[str, Any]:
        return {
            "qps": 1e6 / (10 + case.range), "server_cpu_us_per_query": 10.0 + case.range / 100, "bytes_per_row": 9.0,
            "per_second": {}, "rows_short_count": int(case.name == "x100.first"), "index_used": True,
            **({"profile": [[60.0, "postgres", "pglz_decompress"]]} if case.range == 1000 else {}),
        }  # fmt: skip

    text = PLAN.replace("[[", 'cases = ["x10.last", "x100.first", "x1000.last"]\n[load]\nrepeats = 1\n[[', 1)
    results, _ = run(text.replace('"18"', '"old"'), tmp_path / "run", FakeBench(on), FakeProduct())
    assert [one.case for one in results.measured if not one.valid] == ["x100.first"]
    told = json.loads((tmp_path / "run/report/tables.json").read_text())
    tables = {
        one["name"]: [[cell["text"] for cell in row] for row in one["rows"]] for one in told["sections"][0]["tables"]
    }
    assert tables["cpu"] == [["postgres old model=jsonb", "last", "10.1", "-", "20.0"]]
    # Ten microseconds for a thousand attributes.
    assert tables["slopes"] == [["postgres old model=jsonb", "last", "10.0", "1.98"]]
    assert tables["profile"] == [["postgres old model=jsonb", "x1000.last", "60.0", "postgres", "pglz_decompress"]]
