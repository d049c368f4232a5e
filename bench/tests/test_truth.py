"""The truth is what comparing everything in float64 says, and it is kept only for its own inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pagehop_bench import truth
from pagehop_bench.truth import Float32, Truth

RANDOM = np.random.default_rng(3)


def slowly(base: Float32, queries: Float32, depth: int) -> Truth:
    exact = ((queries[:, None].astype(np.float64) - base[None].astype(np.float64)) ** 2).sum(2)
    order = np.argsort(exact, axis=1, kind="stable")[:, :depth]
    return Truth(order, np.take_along_axis(exact, order, axis=1))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "_BASE_BLOCK", 300)
    monkeypatch.setattr(truth, "_QUERY_BLOCK", 7)


CASES = {
    "spread": RANDOM.normal(size=(1000, 12)),
    "far from zero, where products round": RANDOM.normal(size=(1000, 12)) + 5000,
    "all the same": np.ones((1000, 12)),
    "many twins": RANDOM.integers(0, 2, (1000, 6)),
    "fewer than asked for": RANDOM.normal(size=(40, 12)),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_exact(case: str) -> None:
    base = CASES[case].astype(np.float32)
    queries = base[:25] + np.float32(0.25)
    found, expected = truth.compute(base, queries), slowly(base, queries, 100)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-12)


def test_it_is_computed_once_for_the_same_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = RANDOM.normal(size=(300, 4)).astype(np.float32)
    first = truth.cached(base, base[:5], tmp_path, "x")
    calls = []

    def compute(*given: Float32) -> Truth:
        calls.append(given)
        return first

    monkeypatch.setattr(truth, "compute", compute)
    again = truth.cached(base, base[:5], tmp_path, "x")
    np.testing.assert_array_equal(again.ids, first.ids)
    assert calls == []
    changed = base.copy()
    changed[17, 2] += 1
    truth.cached(changed, base[:5], tmp_path, "x")
    assert len(calls) == 1
