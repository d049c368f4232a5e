"""The page of ten minutes, followed as it stands, with made-up libraries instead of those it names.

They are slow scans, so the data are a tenth and the measurements short. What pip would install is
only read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blocks import REPOSITORY, Block, blocks
from pagehop_lab.data import sets
from pagehop_lab.plan import read_text
from runs import QUICK

PAGE = "lab/ten-minutes.md"

VOYAGER = """
import numpy as np

class Space:
    Euclidean = "euclidean"

class Index:
    def __init__(self, space, dimensions, m, random_seed):
        assert space == Space.Euclidean and m == 16

    def add_items(self, rows, num_threads):
        self.rows = rows

    def query(self, queries, k, num_threads, query_ef):
        # `query_ef` of each 128 rows are looked at.
        seen = np.flatnonzero(np.arange(len(self.rows)) % 128 < query_ef)
        rows = self.rows[seen]
        apart = (rows**2).sum(axis=1)[None, :] - 2 * queries @ rows.T
        return seen[np.argsort(apart, axis=1)[:, :k]], np.sort(apart, axis=1)[:, :k]
"""
STAND_IN = """
from typing import ClassVar
import numpy as np
from pagehop_lab.engines.engine import Description, Library

class StandIn(Library):
    description: ClassVar = Description(
        "faiss-hnsw", "a stand-in for faiss", "main", {"m": 32}, {"ef_search": (8, 128)}, "made up for a test"
    )

    @classmethod
    def version(cls):
        return "1"

    def build(self, base, metric, options, threads, seed):
        from voyager import Index, Space

        self._index = Index(Space.Euclidean, base.shape[1], 16, seed)
        self._index.add_items(np.array(base), threads)

    def searcher(self, options, k):
        return lambda queries: self._index.query(queries, k, 1, options["ef_search"])[0]
"""
LAB = """
import sys
import stand_in
from pagehop_lab.command import main
from pagehop_lab.engines.catalog import CATALOG

CATALOG["faiss-hnsw"] = stand_in.StandIn
sys.exit(main())
"""


def of(language: str) -> list[Block]:
    return [block for block in blocks(PAGE) if block.language == language]


def changed(code: str, old: str, new: str) -> str:
    assert code.count(old) == 1, f"{PAGE} has no {old!r}"
    return code.replace(old, new)


@pytest.fixture
def newcomer(tmp_path: Path) -> Path:
    """The folder of a newcomer, in which what the page installs is made up."""
    (tmp_path / "pagehop").symlink_to(REPOSITORY)
    (tmp_path / "bin").mkdir()
    environment = tmp_path / "lab-env" / "bin"
    environment.mkdir(parents=True)
    own = f'exec "{sys.executable}"'
    for path, does in {
        tmp_path / "bin/python3": 'test "$*" = "-m venv lab-env"',
        environment / "pip": f'echo "$@" >> "{tmp_path}/pip"',
        environment / "python": f'{own} "$@"',
        environment / "pagehop-lab": f'{own} "{tmp_path}/lab.py" "$@"',
    }.items():
        path.write_text(f"#!/bin/sh\n{does}\n")
        path.chmod(0o755)
    for name, text in {"lab.py": LAB, "stand_in.py": STAND_IN, "voyager.py": VOYAGER}.items():
        (tmp_path / name).write_text(text)
    about = tmp_path / "voyager-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: voyager\nVersion: 1.0\n")
    return tmp_path


def follow(code: str, folder: Path) -> None:
    places = [str(folder), str(REPOSITORY / "lab"), str(REPOSITORY / "servers")]
    environment = os.environ | {
        "PATH": f"{folder}/bin:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(places),
        sets.VARIABLE: str(folder / "data"),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-euc", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_newcomer_who_follows_the_page_gets_a_report_of_both_engines(newcomer: Path) -> None:
    install, data, measure = (block.code for block in of("sh"))
    [engine] = (block.code for block in of("python"))
    follow(install, newcomer)
    installed = [line.split()[1] for line in (newcomer / "pip").read_text().splitlines()]
    assert installed == ["./pagehop/lab", "voyager"]
    assert (newcomer / installed[0] / "pyproject.toml").is_file()
    follow(changed(data, "20_000", "2_000"), newcomer)
    (newcomer / "mine.py").write_text(engine)
    follow(changed(measure, "[load]\n", f"[load]\n{QUICK}"), newcomer)
    # Where the page says that it is.
    assert (newcomer / "lab-runs/plan/report/index.html").is_file()
    told = json.loads((newcomer / "lab-runs/plan/report/tables.json").read_text())
    [best] = [one for one in told["sections"][0]["tables"] if one["title"] == "Best QPS at a recall"]
    rows = {row[0]["text"]: [cell["value"] for cell in row[1:]] for row in best["rows"]}
    assert list(rows) == ["Voyager", "a stand-in for faiss"]
    assert all(isinstance(qps, float) and qps > 0 for row in rows.values() for qps in row)


def test_its_server_is_an_engine_of_a_plan() -> None:
    [server] = (block.code for block in of("toml"))
    plan = read_text('[[dataset]]\npath = "mine.npy"\n' + server, "plan")
    assert [engine.name for engine in plan.engines] == ["postgres:mine"]
    assert len(plan.engines[0].search) == 2
