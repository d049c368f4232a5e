"""The true neighbors are those of a comparison of all rows in float64."""

from __future__ import annotations

import numpy as np
import pytest

from pagehop_lab.data.truth import euclidean as truth
from pagehop_lab.data.truth.euclidean import Float32, Truth

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
