"""The cost of the Nth attribute: writes, queries and tables, on servers that are installed."""

from __future__ import annotations

import importlib.util
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devserver import DevServerError, ferretdb, innodb, mariadb, mongo, postgres, running
from devserver.configuration import Configuration
from devserver.releases import FOLDER
from fake_servers import FakeBench, FakeInstance, FakeProduct, run
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.measure import profile
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.wires import BYTES, WHOLE, DeadlockError, MysqlWire, Where
from pagehop_lab.plan import PlanError
from pagehop_lab.suites.attributes import bson_documents
from pagehop_lab.suites.attributes import measure as attributes
from pagehop_lab.suites.attributes.bson_documents import Collection
from pagehop_lab.suites.attributes.cases import CASES, LONG_NAME, names
from pagehop_lab.suites.attributes.sql_documents import SqlDocuments, Table
from runs import needed_bytes, read_servers

PLAN = 'suite = "attributes"\n[[server]]\nproduct = "postgres"\nversion = "18"\n'


def test_y_is_where_the_layout_says_in_order_and_by_length() -> None:
    assert names(2, "last") == ["x1", "x2", "y"]
    assert names(2, "first") == ["y", "x1", "x2"]
    assert names(2, "longest") == ["x1", "x2", LONG_NAME]
    # JSONB and MySQL's JSON compare lengths first: y comes before all names, and the long one after
    # them.
    by_length = sorted(names(1000, "longest"), key=lambda name: (len(name), name))
    assert by_length[-1] == LONG_NAME
    assert sorted(names(1000, "last"), key=lambda name: (len(name), name))[0] == "y"
    assert len(CASES) == 8 * 3


def test_statements_are_those_of_the_product_and_model() -> None:
    here, there = Where("host=here"), Where(mysql=(("unix_socket", "/socket"),))
    made = Table(here, "jsonb", 2, "first", 2, 1)
    assert made.create() == "CREATE TABLE documents (id integer NOT NULL PRIMARY KEY, doc jsonb NOT NULL)"
    assert made.select() == "SELECT id, doc->>'y' FROM documents WHERE id = $1 AND (doc->>'y')::integer = $1"
    (text,) = made.inserts()
    rows = json.loads(
        "[" + text.decode().partition("VALUES ")[2].replace("(", "[").replace(")", "]").replace("'", "") + "]"
    )
    assert [(key, doc["y"], list(doc)) for key, doc in rows] == [(key, key, ["y", "x1", "x2"]) for key in range(2)]
    other = Table(there, "json", 2, "longest", 2, 1)
    assert f"JSON_EXTRACT(doc, '$.{LONG_NAME}') = $1" in other.select()
    columns = Table(there, "columns", 2, "last", 2, 1)
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
    # A JSON document of three kilobytes is stored in TOAST. 400 columns of four bytes are not.
    assert (raw["toast_bytes_per_row"] > 0) == (model != "columns")
    assert raw["bytes_per_row"] > 400 * 4
    assert server.execute("SELECT count(*) FROM pg_class WHERE relname = 'documents'")[0][0] == 0


def test_a_server_that_is_gone_is_said(server: postgres.Instance) -> None:
    gone = Table(Where("host=/nowhere"), "json", 2, "last", 2, 1)
    with pytest.raises(MeasureError, match="could not be loaded: connection"):
        SqlDocuments(server, gone).fill()
    with pytest.raises(DevServerError, match="serial"):
        attributes.measure(server, "nosuch serial", 2, "last", 2, 0.1, 1)
    assert server.running


@pytest.fixture(scope="module")
def mariadb_11() -> Iterator[innodb.Instance]:
    if importlib.util.find_spec("pymysql") is None or not mariadb.FOLDER.is_dir():
        pytest.skip(f"no MariaDB in {mariadb.FOLDER}")
    with innodb.Instance(mariadb.of_version("11.8")) as instance:
        yield instance


@pytest.mark.long
def test_documents_of_mariadb(mariadb_11: innodb.Instance) -> None:
    raw = attributes.measure(mariadb_11, "json", 10, "last", 100, 0.2, 1)
    assert raw["rows_short_count"] == 0
    assert raw["index_used"]


def test_statements_of_mysqls_protocol_are_prepared_and_answers_read(mariadb_11: innodb.Instance) -> None:
    wire = MysqlWire(mariadb_11.client_options())
    assert wire.numbers("SELECT '100%' UNION ALL SELECT $1").ask((7,)) == 2
    assert wire.numbers("SELECT 1 WHERE $1 > $2 AND $1 < $3").ask((7, 6, 7, 9)) == 1
    assert wire.numbers("SELECT 1 WHERE $1 > $2").ask((6, -7)) == 1
    assert wire.numbers("SELECT 1 WHERE $1 > $2").ask((6, 7)) == 0
    with pytest.raises(RuntimeError, match="nowhere"):
        wire.numbers("SELECT $1 FROM nowhere")
    # This answer comes in several packets.
    long = wire.numbers("SELECT REPEAT('x', 300000) FROM (SELECT $1 UNION ALL SELECT 2) AS two")
    assert long.ask((1,)) == 2
    wire.execute(b"CREATE TABLE blobs (id bigint PRIMARY KEY, b blob)")
    insert = wire.prepared("INSERT INTO blobs VALUES (?, ?)", [WHOLE, BYTES])
    assert insert.rows((1 << 40).to_bytes(8, "little") + b"\3a'b") == []
    # The row is a zero byte, an empty bitmap of nulls, eight bytes, and a text with its length.
    (row,) = wire.prepared("SELECT id, b FROM blobs WHERE id > ?", [WHOLE]).rows(bytes(8))
    assert row == b"\0\0" + (1 << 40).to_bytes(8, "little") + b"\3a'b"
    with pytest.raises(RuntimeError, match="Duplicate entry"):
        insert.rows((1 << 40).to_bytes(8, "little") + b"\0")


def test_a_deadlock_is_told_from_other_errors(mariadb_11: innodb.Instance) -> None:
    import pymysql

    one, other = (MysqlWire(mariadb_11.client_options()) for _ in range(2))
    one.execute(b"CREATE TABLE locks (id int PRIMARY KEY, v int)")
    one.execute(b"INSERT INTO locks VALUES (1, 0), (2, 0)")
    for wire, row in ((one, b"1"), (other, b"2")):
        wire.execute(b"BEGIN")
        wire.execute(b"UPDATE locks SET v = 1 WHERE id = " + row)
    waiting = threading.Thread(target=other.execute, args=(b"UPDATE locks SET v = 2 WHERE id = 1",))
    waiting.start()
    late = time.monotonic() + 300
    waits = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    while mariadb_11.execute(waits)[0][0] == 0:
        assert time.monotonic() < late, "the other connection does not wait"
        # The server updates this table only if it was not read for a tenth of a second.
        time.sleep(0.2)
    with pytest.raises(DeadlockError):
        one.execute(b"UPDATE locks SET v = 2 WHERE id = 2")
    waiting.join()
    other.execute(b"COMMIT")
    with pytest.raises(pymysql.ProgrammingError):
        one.execute(b"SELECT nothing of nowhere")


def test_documents_of_a_server_that_runs_already(mariadb_11: innodb.Instance) -> None:
    given = running.of_url(mariadb_11.url(), attributes.TABLE)
    given.start()
    raw = attributes.measure(given, "json", 10, "last", 100, 0.2, 1)
    assert raw["index_used"]
    assert raw["rows_short_count"] == 0
    assert raw["server_cpu_us_per_query"] is raw["other_busy_cores"] is None
    assert raw["no_profile"].startswith("where the time of a server goes")
    assert raw["client_share_of_machine"] > 0


@pytest.fixture(scope="module")
def documents() -> Iterator[ferretdb.Instance]:
    if importlib.util.find_spec("pymongo") is None or not (FOLDER / "ferretdb-1.24/.complete").is_file():
        pytest.skip(f"no FerretDB in {FOLDER}")
    instance = ferretdb.Instance(ferretdb.install("1.24"), Configuration().settings("ferretdb", "1.24.0"))
    try:
        instance.start()
        yield instance
    finally:
        instance.remove()


@pytest.mark.parametrize("layout", ["first", "last"])
def test_every_document_of_bson_is_found_by_its_key_and_y(documents: ferretdb.Instance, layout: str) -> None:
    raw = attributes.measure(documents, "bson", 100, layout, 500, 0.3, 1)
    assert raw["count"] > 0
    assert raw["rows_short_count"] == 0
    assert (raw["server_cpu_us_per_query"] or 0) > raw["client_cpu_us_per_query"] > 0
    assert raw["bytes_per_row"] > 100 * 4
    # FerretDB reports that it pushes the key down, and SQLite that it scans all documents. SQLite's
    # report counts.
    assert '"filterPushdown": true' in raw["plan"]
    assert "detail=SCAN" in raw["plan"]
    assert not raw["index_used"]
    assert "plan: the index was not used" in judge_load(raw).wrong


@pytest.mark.parametrize(("stage", "found"), [("IXSCAN", True), ("EXPRESS_IXSCAN", True), ("COLLSCAN", False)])
def test_what_mongod_says_of_its_plan_is_read(stage: str, found: bool) -> None:
    plan = {"queryPlanner": {"winningPlan": {"stage": "FETCH", "inputStage": {"stage": stage}}, "rejectedPlans": []}}
    assert bson_documents.by_key(json.dumps(plan)) == found


def test_bson_of_a_server_that_runs_already(documents: ferretdb.Instance) -> None:
    given = mongo.Running(documents.url(), attributes.TABLE)
    assert given.version() == "FerretDB 1.24.0"
    given.start()
    raw = attributes.measure(given, "bson", 1, "last", 10, 0.2, 1)
    assert raw["rows_short_count"] == 0
    assert raw["server_cpu_us_per_query"] is None
    given.command("create", attributes.TABLE)
    with pytest.raises(DevServerError, match="has a collection documents already"):
        mongo.Running(documents.url(), attributes.TABLE).start()
    given.remove()
    mongo.Running(documents.url(), attributes.TABLE).start()
    with pytest.raises(DevServerError, match=r"^mongodb://me@there: write it as"):
        mongo.Running("mongodb://me:secret@there", "documents")


def test_a_server_of_documents_that_is_gone_is_said() -> None:
    pytest.importorskip("pymongo")
    missing = mongo.Running("mongodb://me:secret@127.0.0.1:1/db?serverSelectionTimeoutMS=100", "documents")
    with pytest.raises(DevServerError, match=r"^mongodb://me@127\.0\.0\.1:1/db.*: .*refused") as raised:
        missing.start()
    assert "secret" not in str(raised.value)
    assert not missing.running


def test_bson_documents_are_in_the_order_of_their_layout() -> None:
    pytest.importorskip("bson")
    (batch,) = Collection("mongodb://nowhere/lab", 2, "first", 3, 1).batches()
    assert [list(document) for document in batch] == [["_id", "y", "x1", "x2"]] * 3
    assert all(document["_id"] == document["y"] for document in batch)
    assert len({document["_id"] for document in batch}) == 3


def test_a_plan_of_documents_names_how_they_are_kept() -> None:
    plan = read_servers(PLAN + 'model = "json"\n' + PLAN.partition("\n")[2], "test")
    assert [server.name for server in plan.servers] == ["postgres 18 model=json", "postgres 18 model=jsonb"]
    assert len(plan.cases) == 24
    assert 2e8 < needed_bytes(plan) < 2e9
    with pytest.raises(PlanError, match=r"model = 'jsonb'"):
        read_servers(PLAN.replace("postgres", "mariadb").replace("18", "11.8") + 'model = "jsonb"', "test")
    with pytest.raises(PlanError, match="rounds: there is no such key"):
        read_servers(PLAN.replace("[[", "[load]\nrounds = 8\n[[", 1), "test")
    bson = read_servers(PLAN.replace("postgres", "ferretdb").replace("18", "1.24"), "test")
    assert [server.name for server in bson.servers] == ["ferretdb 1.24 model=bson"]
    mongod = PLAN.partition("[[")[0] + '[[server]]\nproduct = "mongod"\n'
    with pytest.raises(PlanError, match=r"server\[1\]\.url is missing: no registry has a mongod"):
        read_servers(mongod, "test")
    given = read_servers(mongod + 'url = "mongodb://me:secret@there/db"\n', "test")
    assert [server.name for server in given.servers] == ["mongod by-url model=bson"]
    assert "secret" not in given.text


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
    # Ten microseconds per thousand attributes.
    assert tables["slopes"] == [["postgres old model=jsonb", "last", "10.0", "1.98"]]
    assert tables["profile"] == [["postgres old model=jsonb", "x1000.last", "60.0", "postgres", "pglz_decompress"]]
