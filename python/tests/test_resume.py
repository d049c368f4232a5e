"""Unfinished builds: the next build continues a killed one, and other failures leave no files."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import pagehop
from oracle import beside

ROWS, COLUMNS = 9_000, 48
# About the least memory for these rows on two threads. It does not hold all rows.
MEMORY = 17 << 20
X = np.random.default_rng(5).normal(size=(ROWS, COLUMNS)).astype("f4")

BUILD = """
    import os, signal, sys, numpy as np, pagehop

    times = 0

    def progress(phase, done, rows):
        global times
        times += phase == sys.argv[3]
        if times == int(sys.argv[4]):
            os.kill(os.getpid(), signal.SIGKILL)

    options = {"memory": int(sys.argv[5]), "threads": 2, "calibrate": False}
    pagehop.build(sys.argv[1], np.load(sys.argv[2]), **options, progress=progress)
"""


def killed(path: Path, vectors: Path, phase: str, time: int) -> bool:
    """Whether a build was killed in a phase, in the `time`-th call of its progress function."""
    words = [sys.executable, "-c", textwrap.dedent(BUILD), str(path), str(vectors), phase, str(time), str(MEMORY)]
    return subprocess.run(words, check=False, timeout=600).returncode == -signal.SIGKILL


def pages(path: Path) -> list[bytes]:
    """The pages of an index without their headers, which contain the file's identity."""
    whole = path.read_bytes()
    return [whole[at + 24 : at + 8192] for at in range(0, len(whole), 8192)]


def built(path: Path, vectors: np.ndarray = X) -> tuple[list[str], int]:
    """Builds an index. Returns the phases in order, and the number of rows taken from an earlier
    build.
    """
    phases: list[str] = []
    resumed = 0

    def progress(phase: str, done: int, _: int) -> None:
        nonlocal resumed
        if phases[-1:] != [phase]:
            phases.append(phase)
        if phase == "resume":
            resumed = done

    # A calibration takes longer than these builds, and comes after all that they resume.
    pagehop.build(path, vectors, memory=MEMORY, threads=2, calibrate=False, progress=progress).close()
    return phases, resumed


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of all rows."""
    path = tmp_path_factory.mktemp("whole") / "x"
    phases, resumed = built(path)
    assert (resumed, phases.count("refine") > 2) == (0, True)
    return path


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("vectors") / "vectors.npy"
    np.save(file, X)
    return file


def test_a_killed_build_is_gone_on_with(path: Path, vectors: Path, whole: Path) -> None:
    assert killed(path, vectors, "merge", 1)
    assert beside(path) == ["x-build"]
    phases, resumed = built(path)
    assert (resumed, "refine" in phases) == (ROWS, False)
    assert pages(path) == pages(whole)
    assert beside(path) == []


def test_what_was_left_for_other_vectors_is_not_used(path: Path, vectors: Path) -> None:
    assert killed(path, vectors, "merge", 1)
    other = X.copy()
    other[7, 3] += 1
    phases, resumed = built(path, other)
    assert (resumed, "refine" in phases) == (0, True)
    assert beside(path) == []


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_files_that_cannot_grow_end_a_build_and_nothing_is_left(path: Path, whole: Path) -> None:
    size = whole.stat().st_size
    for most in [100, size // 40, size // 10, size // 4, size - 1]:
        with files_limited_to(most), pytest.raises(pagehop.FullError, match="x"):
            built(path)
        assert not path.exists()
        assert beside(path) == []
    built(path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 3 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a small disk")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("memory", [MEMORY, 1 << 30])
def test_too_little_disk_is_refused_before_the_build_begins(small_disk: Path, memory: int) -> None:
    phases: list[str] = []
    with pytest.raises(pagehop.FullError, match=r"needs \d+ MiB of disk space, \d MiB are free"):
        pagehop.build(small_disk / "x", X, memory=memory, threads=2, progress=lambda phase, *_: phases.append(phase))
    assert phases == []
    assert not list(small_disk.iterdir())
