"""MariaDB from Debian's packages, and the load generator with it.

Skipped without the packages.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runs
from devserver import DevServerError, mariadb
from devserver.folder import REPOSITORY
from devserver.mariadb import Instance, Server
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.engines.mariadb_vector import MariaDbVector

ROWS, DIM, QUERIES = 300, 12, 20
SEARCH = "SELECT id FROM items ORDER BY VEC_DISTANCE_EUCLIDEAN(embedding, ?) LIMIT 10"


@pytest.fixture(scope="module")
def server() -> Server:
    try:
        return mariadb.install()
    except DevServerError as error:
        pytest.skip(f"no MariaDB: {error}")


@pytest.fixture(scope="module")
def instance(server: Server) -> Iterator[Instance]:
    with Instance(server, {"innodb_buffer_pool_size": "64M"}) as instance:
        yield instance


@pytest.fixture(scope="module")
def files(instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A table of seeded vectors with an index. Returns the files of queries and of their true
    neighbors.
    """
    random = np.random.default_rng(7)
    rows, queries = (random.standard_normal((count, DIM)).astype("<f4") for count in (ROWS, QUERIES))
    values = ", ".join(f"({number}, x'{row.tobytes().hex()}')" for number, row in enumerate(rows))
    instance.sql(
        f"CREATE TABLE items (id bigint PRIMARY KEY, embedding vector({DIM}) NOT NULL); "
        f"INSERT INTO items VALUES {values}; "
        "ALTER TABLE items ADD VECTOR INDEX nearest (embedding) DISTANCE=euclidean"
    )
    distances = ((queries[:, None, :] - rows[None, :, :]) ** 2).sum(axis=2)
    folder = tmp_path_factory.mktemp("files")
    np.save(folder / "queries.npy", queries)
    np.save(folder / "truth.npy", np.argsort(distances, axis=1)[:, :10].astype(np.int32))
    return {name: str(folder / f"{name}.npy") for name in ("queries", "truth")}


def ask(instance: Instance, *more: str, who: str = "root") -> subprocess.CompletedProcess[str]:
    cargo = ["cargo", "run", "--quiet", "--locked", "-p", "pagehop-loadgen", "--"]
    url = instance.url().replace("root@", f"{who}@")
    command = [*cargo, "mysql", "--url", url, "--count", "60", "--warmup", "0", "--json", *more]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_a_server_that_was_stopped_has_its_data_again(server: Server) -> None:
    with Instance(server) as instance:
        instance.sql("CREATE TABLE kept (id int); INSERT INTO kept VALUES (7)")
        instance.stop()
        assert not instance.running
        instance.start()
        assert instance.sql("SELECT id, version() LIKE '11.8.%' FROM kept") == "7\t1"
        folder = instance.folder
    assert not folder.exists()


def test_a_server_that_cannot_start_says_why(server: Server) -> None:
    with pytest.raises(DevServerError, match="unknown variable 'no-such-option"):
        Instance(server, {"no_such_option": "1"})


@pytest.mark.long
def test_searches_are_measured(instance: Instance, files: dict[str, str], tmp_path: Path) -> None:
    asked = ask(
        instance, "--statement", SEARCH, "--queries", files["queries"], "--answers", str(tmp_path / "answers.npy"),
        "--set", "mhnsw_ef_search=200", "--require-index", "nearest", "--connections", "2",
        "--server-pid-cpu", "--blocks",
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    said: dict[str, Any] = json.loads(asked.stdout)
    assert (said["count"], said["errors"], said["rows_short_count"]) == (60, 0, 0)
    answers, truth = np.load(tmp_path / "answers.npy"), np.load(files["truth"])
    found = [len(set(answer[2:]) & set(truth[answer[0]])) for answer in answers]
    assert sum(found) > 0.97 * 10 * len(found)
    assert said["settings"] == {"mhnsw_ef_search": "200"}
    assert said["plan"]["indexes"] == ["nearest"]
    assert said["server_version"].startswith("11.8.")
    assert said["server_cpu_us_per_query"] > 0
    assert said["server_total_cpu_us_per_query"] is not None
    assert said["blocks"]["hit_per_query"] > 0


def test_what_cannot_be_measured_is_said(instance: Instance, files: dict[str, str]) -> None:
    queries = ["--queries", files["queries"]]
    cosine = SEARCH.replace("EUCLIDEAN", "COSINE")
    for more, what in [
        (
            ["--statement", cosine, *queries, "--require-index", "nearest"],
            "does not scan the index nearest:\nALL items",
        ),
        (["--statement", SEARCH], "give --queries"),
        (["--statement", "SELECT id FROM items", *queries], "has no parameter"),
        (["--statement", "SELECT id FROM missing"], "ERROR 1146 (42S02): Table 'lab.missing' doesn't exist"),
        (["--statement", SEARCH, *queries, "--set", "missing=1"], "ERROR 1193 (HY000): Unknown system variable"),
    ]:
        asked = ask(instance, *more)
        assert asked.returncode in (1, 2), asked.stdout
        assert what in asked.stderr


def test_a_password_is_proved(instance: Instance) -> None:
    instance.sql("CREATE USER someone@localhost IDENTIFIED VIA mysql_native_password USING PASSWORD('secret')")
    instance.sql("GRANT SELECT ON *.* TO someone@localhost")
    assert ask(instance, "--statement", "SELECT 1", who="someone:secret").returncode == 0
    refused = ask(instance, "--statement", "SELECT 1", who="someone:wrong")
    assert refused.returncode == 1
    assert "ERROR 1045 (28000): Access denied for user 'someone'@'localhost'" in refused.stderr


PLAN = """
[load]
seconds = 0.05
warmup_s = 0.01
repeats = 1
[[dataset]]
name = "generated-16"
rows = 600
queries = 30
[[engine]]
name = "mariadb"
url = "{}"
search = {{ ef_search = [100] }}
"""


def test_a_running_server_is_measured_by_its_url(instance: Instance, tmp_path: Path) -> None:
    with runs.fake_engines(tmp_path / "data"):
        results, said = runs.run(PLAN.format(instance.url()), tmp_path / "run")
        assert results.is_whole, said
        (point,) = results.points
        assert point.recall > 0.97
        assert point.raw["index_used"]
        assert point.raw["engine_cpu_us_per_query"] is None, "the processes of a running server are not known"
        (build,) = results.builds
        assert runs.raw(build)["index_bytes"] > 600 * 16
        assert build.raw["about"]["version"].startswith("11.8.")
        assert "pagehop_lab" not in instance.sql("SHOW TABLES"), "its table is dropped"
        missing, _ = runs.run(PLAN.format(instance.url().replace("/lab?", "/absent?")), tmp_path / "absent")
    (failed,) = missing.coverage.failed.values()
    assert "Unknown database 'absent'" in failed
    assert "not installed" not in failed, "engines that are not installed do not count as failures"


def test_a_url_of_another_product_is_refused(tmp_path: Path) -> None:
    engine = MariaDbVector(tmp_path, "postgresql://me@127.0.0.1/x")
    with pytest.raises(EngineError, match="takes a URL that begins with mysql://"):
        engine.build(np.zeros((1, 1), dtype=np.float32), "euclidean", {"m": 6}, 1, 1)
