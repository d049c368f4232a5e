"""Compaction: the same rows in a smaller file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pagehop
from oracle import CHANGING as X
from oracle import beside


@pytest.fixture
def changed(path: Path) -> Path:
    """An index of rows 1,000 to 2,999; the others were deleted."""
    with pagehop.build(path, X, vectors="float16", write=True) as index:
        index.delete(range(1000))
    return path


def test_in_place(changed: Path) -> None:
    before = changed.stat().st_size
    report = pagehop.compact(changed)
    assert (report.rows, report.pages * 8192) == (2000, changed.stat().st_size)
    assert report.pages_before * 8192 == before > changed.stat().st_size * 1.3
    assert beside(changed) == []
    with pagehop.open(changed, write=True) as index:
        np.testing.assert_array_equal(index.get(range(1000, 3000)), X[1000:])
        assert index.info().dead_rows == 0
        assert index.calibration is not None
        index.add(7, X[7])
        index.check()


def test_into_a_new_file_while_it_is_open(changed: Path) -> None:
    target = changed.with_name("smaller")
    with pagehop.open(changed, write=True) as index:
        index.delete(range(1000, 1500))
        with pytest.raises(pagehop.BusyError, match=r"x.*(open|writing)"):
            pagehop.compact(changed)
        assert pagehop.compact(changed, into=target, threads=1, memory="1GiB").rows == 1500
        with pytest.raises(pagehop.ArgumentError, match="smaller exists already"):
            pagehop.compact(changed, into=target)
        pagehop.compact(changed, into=target, overwrite=True)
        with pytest.raises(pagehop.ArgumentError, match="belongs to the index"):
            pagehop.compact(changed, into=changed, overwrite=True)
        assert len(index) == 1500
    with pagehop.open(target) as index:
        np.testing.assert_array_equal(index.get(range(1500, 3000)), X[1500:])


def test_refusals_leave_the_index(changed: Path, tmp_path: Path) -> None:
    before = changed.read_bytes()
    with pytest.raises(pagehop.Interrupted):
        pagehop.compact(changed, progress=lambda *_: False)
    with pytest.raises(pagehop.OutOfMemoryError, match="memory"):
        pagehop.compact(changed, memory=1000)
    for arguments in ({"threads": -1}, {"memory": "much"}, {"into": 7}, {"progress": 3}):
        with pytest.raises(pagehop.ArgumentError):
            pagehop.compact(changed, **arguments)
    with pytest.raises(pagehop.Error, match="none"):
        pagehop.compact(tmp_path / "none")
    with pytest.raises(pagehop.Error, match="is not a file"):
        pagehop.compact(tmp_path)
    with pytest.raises(pagehop.Error, match="nowhere"):
        pagehop.compact(changed, into=tmp_path / "nowhere" / "x")
    assert changed.read_bytes() == before
    assert beside(changed) == []
