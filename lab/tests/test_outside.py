"""Engines in files outside of this repository, and data in common formats."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagehop_lab.command import main
from pagehop_lab.data import DataError, files, sets
from pagehop_lab.engines import outside
from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.site.mistakes import FIGURES
from pagehop_lab.store import RunFolder
from runs import QUICK, SMALL, fake_engines, of_engines

ENGINE = '''
from typing import ClassVar
import numpy as np
from pagehop_lab.engines.engine import Description, Library


class Mine(Library):
    """Looks at `percent` of the rows."""

    description: ClassVar = Description(
        "{name}", "My own", "{environment}", {{}}, {{"percent": (50, 100)}}, "made up for a test"
    )

    @classmethod
    def version(cls):
        return "1.0"

    def build(self, base, metric, options, threads, seed):
        self._base = np.array(base)

    def searcher(self, options, k):
        rows = np.flatnonzero(np.arange(len(self._base)) % 100 < options["percent"])

        def search(queries):
            distances = ((queries[:, None, :] - self._base[rows][None, :, :]) ** 2).sum(axis=2)
            return rows[np.argsort(distances, axis=1)[:, :k]]

        return search

    def index_used(self):
        return True
'''
PLAN = f"""
name = "own"
targets = [0.4]
[load]
{QUICK}repeats = 2
{SMALL}
[[engine]]
name = "mine"
"""


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    """Removes added engines and modules after each test."""
    before, modules = dict(CATALOG), set(sys.modules)
    yield
    CATALOG.clear()
    CATALOG.update(before)
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def engine_file(folder: Path, name: str = "mine", environment: str = "main", file: str = "my_engine.py") -> Path:
    path = folder / file
    path.write_text(ENGINE.format(name=name, environment=environment))
    return path


@pytest.mark.parametrize("environment", ["main", sys.executable])
def test_an_engine_of_a_file_is_measured_like_any_other(tmp_path: Path, environment: str) -> None:
    file, plan, into = engine_file(tmp_path, environment=environment), tmp_path / "plan.toml", tmp_path / "run"
    plan.write_text(PLAN)
    with fake_engines(tmp_path):
        assert main(["run", str(plan), "--into", str(into), "--engine", str(file)]) == 0
    assert outside.add(file) == ["mine"]
    results = of_engines(into)
    assert results.sound
    assert {point.engine for point in results.points} == {"mine"}
    recalls = {dict(point.search)["percent"]: point.recall for point in results.points}
    assert recalls[100] == 1
    assert 0.4 < recalls[50] < 0.6
    (facts,) = results.engines
    assert facts.title == "My own"
    assert facts.version is not None
    assert facts.version.startswith("1.0, file ")
    # A changed file is another version, so its points are measured again.
    file.write_text(file.read_text() + "\n# changed\n")
    with fake_engines(tmp_path):
        assert main(["run", str(plan), "--into", str(into), "--engine", str(file)]) == 0
    assert len({record.identity["version"] for record in RunFolder(into).all("points")}) == 2


def test_a_run_with_it_takes_results_of_other_benchmarks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, plan, into = engine_file(tmp_path), tmp_path / "plan.toml", tmp_path / "run"
    plan.write_text(PLAN)
    foreign = str(FIGURES / "dbpedia-openai-1000k-angular.plot")
    with fake_engines(tmp_path):
        assert main(["run", str(plan), "--into", str(into), "--engine", str(file)]) == 0
    # Another process does not know the engine until it gets the file.
    assert "mine" not in CATALOG
    assert main(["import", str(into), foreign]) != 0
    assert "mine" in capsys.readouterr().err
    assert main(["import", str(into), foreign, "--engine", str(file)]) == 0
    assert "MariaDB (foreign)" in (into / "report/index.html").read_text()


def test_a_figure_that_is_not_a_number_is_a_failure_of_the_engine(tmp_path: Path) -> None:
    file, plan, into = engine_file(tmp_path), tmp_path / "plan.toml", tmp_path / "run"
    file.write_text(file.read_text() + '\n    def index_bytes(self):\n        return float("nan")\n')
    plan.write_text(PLAN)
    with fake_engines(tmp_path):
        assert main(["run", str(plan), "--into", str(into), "--engine", str(file)]) == 1
    said = {record.failed for kind in ("builds", "points") for record in RunFolder(into).all(kind)}
    assert said == {"its answer to build has the figure NaN, and not a number"}


def test_it_is_among_the_engines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engines", "--engine", str(engine_file(tmp_path))]) == 0
    assert "mine              My own" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "it has no class with a description"),
        ("import nowhere_at_all\n", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("def broken(:\n", "SyntaxError"),
        (ENGINE.format(name="pgvector", environment="main"), "there is an engine pgvector already"),
        (ENGINE.format(name="mine", environment="main").replace("def build", "def bild"), "Mine lacks build"),
    ],
)
def test_a_file_that_has_no_engine_is_refused_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = tmp_path / "my_engine.py"
    file.write_text(text)
    assert main(["engines", "--engine", str(file)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nowhere.py", "my-engine.py", "my_engine.txt", "json.py"])
def test_a_file_that_cannot_be_imported_is_refused(tmp_path: Path, name: str) -> None:
    if name != "nowhere.py":
        engine_file(tmp_path, file=name)
    with pytest.raises(EngineError, match=r"Python file whose name is a word|there is a Python module json already"):
        outside.add(tmp_path / name)


def test_an_environment_that_is_not_there_is_said(tmp_path: Path) -> None:
    file, plan, into = engine_file(tmp_path, environment="/nowhere/python"), tmp_path / "plan.toml", tmp_path / "run"
    plan.write_text(PLAN)
    with fake_engines(tmp_path):
        assert main(["run", str(plan), "--into", str(into), "--engine", str(file)]) == 1, "every point failed"
    outside.add(file)
    (failed,) = {facts.failed for facts in of_engines(into).engines}
    assert failed is not None
    assert "there is no environment /nowhere/python" in failed


@pytest.fixture
def rows() -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(3).random((300, 8), dtype=np.float32)


def prepared(folder: Path, monkeypatch: pytest.MonkeyPatch, path: Path, **more: Any) -> sets.Dataset:
    monkeypatch.setenv(sets.VARIABLE, str(folder / "kept"))
    given = {"rows": None, "queries": None, "metric": None, "seed": 1} | more
    return sets.prepare(path.stem, str(path), say=lambda _: None, **given)


def is_nearest(dataset: sets.Dataset) -> bool:
    """By brute force."""
    apart = ((dataset.queries[:, None, :] - np.asarray(dataset.base)[None, :, :]) ** 2).sum(axis=2)
    return bool((dataset.truth_ids[:, 0] == apart.argmin(axis=1)).all())


def test_own_rows_are_a_set_and_its_last_rows_are_the_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: np.ndarray[Any, Any]
) -> None:
    path, asked = tmp_path / "own.npy", tmp_path / "asked.npy"
    np.save(path, rows)
    np.save(asked, rows[:7] + 0.001)
    alone = prepared(tmp_path, monkeypatch, path, queries=50)
    assert (alone.facts.rows, alone.facts.queries, alone.facts.metric) == (250, 50, "euclidean")
    assert np.array_equal(alone.base, rows[:250])
    assert np.array_equal(alone.queries, rows[250:])
    assert is_nearest(alone)
    beside = prepared(tmp_path, monkeypatch, path, queries_path=str(asked), metric="angular")
    assert (beside.facts.rows, beside.facts.queries, beside.facts.metric) == (300, 7, "angular")
    assert (beside.truth_ids[:, 0] == np.arange(7)).all()
    assert len({one.name for one in (tmp_path / "kept").iterdir()}) == 2
    # Other or changed queries make another set.
    np.save(asked, rows[:9])
    assert prepared(tmp_path, monkeypatch, path, queries_path=str(asked), metric="angular").facts.queries == 9


def test_a_column_of_parquet_is_a_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: np.ndarray[Any, Any]
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "own.parquet"
    texts, lists = pyarrow.array(["x"] * len(rows)), pyarrow.array(list(rows))
    parquet.write_table(pyarrow.table({"text": texts, "vector": lists}), path, row_group_size=64)
    found = prepared(tmp_path, monkeypatch, path, column="vector", queries=20)
    assert np.array_equal(found.base, rows[:280])
    assert is_nearest(found)
    for column, said in ((None, "column = one of text, vector"), ("text", "column text is string")):
        with pytest.raises(DataError, match=said):
            files.read_files(path, None, column, None, 20)
    uneven = pyarrow.table({"vector": pyarrow.array([[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]])})
    parquet.write_table(uneven, path)
    with pytest.raises(DataError, match="several lengths"):
        files.read_files(path, None, "vector", None, 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (np.zeros(5), "it has shape (5,) of float64, and not rows of numbers"),
        (np.array([["a"]]), "and not rows of numbers"),
        (np.zeros((4, 0)), "and not rows of numbers"),
        (np.zeros((40, 2)), "its 40 rows are not more than 1,000 queries"),
        (b"nothing", "cannot read"),
    ],
)
def test_what_is_no_rows_is_refused(tmp_path: Path, content: Any, said: str) -> None:
    path = tmp_path / "own.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    with pytest.raises(DataError) as error:
        files.read_files(path, None, None, None, None)
    assert said in str(error.value)


def test_queries_of_another_dimension_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", np.zeros((9, 4)))
    np.save(tmp_path / "asked.npy", np.zeros((2, 5)))
    with pytest.raises(DataError, match=r"own.npy has 4 dimensions, .*asked.npy has 5"):
        files.read_files(tmp_path / "own.npy", tmp_path / "asked.npy", None, None, None)
