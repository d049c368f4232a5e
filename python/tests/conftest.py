"""Fixtures: seeded vectors, and indexes over them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pagehop
from blocks import REPOSITORY
from oracle import CHANGING, QUERIES, ROWS, clustered
from pagehop.arrays import Float32


@pytest.fixture(scope="session")
def vectors() -> Float32:
    return clustered(seed=7, rows=ROWS)


@pytest.fixture(scope="session")
def queries() -> Float32:
    return clustered(seed=8, rows=QUERIES)


@pytest.fixture(scope="session")
def index_path(vectors: Float32, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "items.pagehop"
    pagehop.build(path, vectors).close()
    return path


@pytest.fixture
def index(index_path: Path) -> Iterator[pagehop.Index]:
    with pagehop.open(index_path) as index:
        yield index


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path for an index of the test."""
    return tmp_path / "x"


@pytest.fixture
def writer(path: Path) -> Iterator[pagehop.Index]:
    """An index of the first 500 rows of CHANGING, open for writing."""
    with pagehop.build(path, CHANGING[:500], write=True) as index:
        yield index


@pytest.fixture(scope="session")
def command_path() -> str:
    """A PATH with the `pagehop` command of this source, and a python3 with the package."""
    if shutil.which("cargo") is None:
        pytest.skip("needs cargo")
    subprocess.run(["cargo", "build", "--quiet", "--locked", "-p", "pagehop-cli"], cwd=REPOSITORY, check=True)
    metadata = ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked"]
    target = json.loads(subprocess.run(metadata, cwd=REPOSITORY, capture_output=True, check=True).stdout)
    return os.pathsep.join(
        [f"{target['target_directory']}/debug", str(Path(sys.executable).parent), os.environ["PATH"]]
    )
