"""Row codes: codes of all rows in memory, as rows come and go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pagehop
from pagehop.arrays import Float32

DIM = 256


def vectors(count: int, seed: int) -> Float32:
    random = np.random.default_rng(seed)
    plane = np.random.default_rng(0).standard_normal((24, DIM))
    rows = random.standard_normal((count, 24)) @ plane + random.standard_normal((count, DIM))
    return np.asarray(rows, dtype=np.float32)


def missed(index: pagehop.Index, queries: Float32) -> float:
    """The share of the ten nearest rows that searches miss; no row comes twice."""
    hits = index.search(queries, k=10, search_list=60, slack=0.05)
    assert all(len(set(ids)) == 10 for ids in hits.ids.tolist())
    exact = index.search(queries, k=10, recall=1.0)
    found = [len(set(a) & set(b)) for a, b in zip(hits.ids.tolist(), exact.ids.tolist(), strict=True)]
    return 1 - sum(found) / (10 * len(queries))


def test_searches_find_more_in_fewer_pages_while_rows_come_and_go(tmp_path: Path) -> None:
    base, queries = vectors(4000, 1), vectors(300, 2)
    path = tmp_path / "index.pagehop"
    pagehop.build(path, base, calibrate=False).close()
    with pagehop.open(path, write=True) as index:
        before = index.search(queries, k=10, search_list=60, slack=0.05).stats
        missed_before = missed(index, queries)
        phases: list[str] = []
        size = index.load_row_codes(threads=2, progress=lambda *step: phases.append(step[0]))
        assert set(phases) == {"row codes"}
        assert 4000 * (DIM // 4 + 10) <= size < 4000 * (DIM // 4 + 10) * 1.1
        after = index.search(queries, k=10, search_list=60, slack=0.05).stats
        assert after.pages_read < 0.95 * before.pages_read
        assert missed(index, queries) < 0.9 * missed_before
        # Every second row goes, and its slot gets a row from elsewhere, whose code is not loaded.
        index.delete(np.arange(0, 4000, 2))
        index.vacuum()
        index.add(np.arange(5000, 7000), vectors(2000, 3))
        missed_of_half = missed(index, queries)
        assert missed_of_half < 1.3 * missed_before
        assert index.search(base[1:2], k=1).ids.tolist() == [[1]]
        half = index.search(queries, k=10, search_list=60, slack=0.05).stats
        index.load_row_codes()
        after = index.search(queries, k=10, search_list=60, slack=0.05).stats
        assert after.pages_read < 0.98 * half.pages_read
        assert missed(index, queries) < 1.05 * missed_of_half
        # Searches with a filter do not use the codes.
        some = index.search(queries, k=10, where=np.arange(1, 4000, 2)).ids
        assert (some % 2 == 1).all()
        index.retrain()
        assert missed(index, queries) < 1.3 * missed_before
        assert len(index) == 4000
        assert index.search(vectors(2000, 3)[7:8], k=1).ids.tolist() == [[5007]]


def test_bad_input_and_a_stop_change_nothing(tmp_path: Path) -> None:
    base, queries = vectors(2000, 1), vectors(20, 2)
    path = tmp_path / "index.pagehop"
    pagehop.build(path, base, calibrate=False).close()
    index = pagehop.open(path)
    before = index.search(queries, k=10, search_list=60, slack=0.05).stats
    for threads in (-1, 4097):
        with pytest.raises(pagehop.ArgumentError, match="threads"):
            index.load_row_codes(threads=threads)
    with pytest.raises(pagehop.ArgumentError, match="progress"):
        index.load_row_codes(progress="loud")  # type: ignore[arg-type]

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.load_row_codes(progress=stop)
    assert index.search(queries, k=10, search_list=60, slack=0.05).stats.pages_read == before.pages_read
    index.close()
    with pytest.raises(ValueError, match="closed"):
        index.load_row_codes()
