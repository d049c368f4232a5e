"""Engines from files that are not in this repository, and data as anybody has them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pagehop_lab import report
from pagehop_lab.command import main
from pagehop_lab.engines import outside
from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.store import RunFolder
from runs import QUICK, SMALL, fake_engines

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
    """What is added is gone after each test."""
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
    results = report.write(into, quiet=True)
    assert results.sound
    assert {point.engine for point in results.points} == {"mine"}
    recalls = {dict(point.search)["percent"]: point.recall for point in results.points}
    assert recalls[100] == 1
    assert 0.4 < recalls[50] < 0.6
    (facts,) = results.engines
    assert facts.title == "My own"
    assert facts.version is not None
    assert facts.version.startswith("1.0, file ")
    # Another file is another version: what it measured is measured again.
    file.write_text(file.read_text() + "\n# changed\n")
    with fake_engines(tmp_path):
        assert main(["run", str(plan), "--into", str(into), "--engine", str(file)]) == 0
    assert len({record.identity["version"] for record in RunFolder(into).all("points")}) == 2


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
        assert main(["run", str(plan), "--into", str(into), "--engine", str(file)]) == 0
    outside.add(file)
    (failed,) = {facts.failed for facts in report.write(into, quiet=True).engines}
    assert failed is not None
    assert "there is no environment /nowhere/python" in failed
