"""Pagehop as an algorithm of ann-benchmarks.

Its folder is tried in a stand-in for that benchmark's packages, and, if the variable
PAGEHOP_ANN_BENCHMARKS names a checkout with its requirements installed, by the real tool.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devserver.folder import REPOSITORY
from pagehop_lab.published import annresults

OURS = REPOSITORY / "lab/ann-benchmarks/pagehop"
CHECKOUT = "PAGEHOP_ANN_BENCHMARKS"
ROWS, DIM, QUERIES, K = 3000, 16, 40, 10
BASE = """
class BaseANN:
    def done(self):
        pass

    def __str__(self):
        return self.name
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Our module, as that benchmark imports it."""
    algorithms = tmp_path / "ann_benchmarks/algorithms"
    (algorithms / "base").mkdir(parents=True)
    (algorithms / "base/module.py").write_text(BASE)
    shutil.copytree(OURS, algorithms / "pagehop")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("ann_benchmarks.algorithms.pagehop.module")
    for name in [name for name in sys.modules if name.partition(".")[0] == "ann_benchmarks"]:
        del sys.modules[name]


def groups() -> list[tuple[dict[str, str], list[float]]]:
    """The options and the recalls of each run group of config.yml."""
    text = (OURS / "config.yml").read_text()
    options = [dict([one.split(": ")]) for one in re.findall(r"arg_groups: \[\{(.*)\}\]", text)]
    recalls = [json.loads(one)[0] for one in re.findall(r"query_args: (.*)", text)]
    assert len(options) == len(recalls) == 2
    return list(zip(options, recalls, strict=True))


@pytest.mark.parametrize("metric", ["euclidean", "angular"])
def test_it_answers_as_that_benchmark_asks(module: Any, metric: str) -> None:
    random = np.random.default_rng(3)
    rows, queries = (random.standard_normal((count, DIM)).astype(np.float32) for count in (ROWS, QUERIES))
    lengths = np.linalg.norm(rows, axis=1)
    for options, recalls in groups():
        algorithm = module.Pagehop(metric, options)
        algorithm.fit(rows)
        found = 0
        for recall in recalls:
            algorithm.set_query_arguments(recall)
            assert str(algorithm) == f"pagehop ({options}, recall={recall})", "each setting has a file of its name"
            single = [algorithm.query(query, K) for query in queries]
            algorithm.batch_query(queries, K)
            assert np.array_equal(single, algorithm.get_batch_results())
        for query, ids in zip(queries, single, strict=True):
            assert len(ids) == len({int(one) for one in ids}) == K
            order = -(rows @ query) / lengths if metric == "angular" else ((rows - query) ** 2).sum(axis=1)
            found += len(set(np.argsort(order)[:K]) & {int(one) for one in ids})
        assert found >= 0.98 * QUERIES * K, "the last recall is the highest"
        folder = Path(algorithm._folder.name)
        assert list(folder.iterdir())
        algorithm.done()
        assert not folder.exists()


def test_a_metric_that_it_lacks_is_said(module: Any) -> None:
    with pytest.raises(NotImplementedError, match="pagehop has no metric hamming, it has euclidean and angular"):
        module.Pagehop("hamming", {})


@pytest.mark.skipif(CHECKOUT not in os.environ, reason=f"{CHECKOUT} does not name a checkout of ann-benchmarks")
def test_the_real_tool_runs_it(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    shutil.copytree(os.environ[CHECKOUT], tool, ignore=shutil.ignore_patterns(".git", "results"))
    shutil.copytree(OURS, tool / "ann_benchmarks/algorithms/pagehop")
    command = [sys.executable, "run.py", "--local", "--algorithm", "pagehop", "--runs", "1"]
    dataset = "random-xs-20-euclidean"
    subprocess.run([*command, "--dataset", dataset], cwd=tool, check=True)
    files = sorted((tool / "results" / dataset / "10/pagehop").glob("*.hdf5"))
    points = [point for file in files for point in annresults.read(file, tool / f"data/{dataset}.hdf5")]
    assert len(points) == sum(len(recalls) for _, recalls in groups())
    assert max(point.recall for point in points) > 0.98
    assert {point.engine for point in points} == {"pagehop"}
