"""Generated rows: a seed gives the same rows in chunks of any size, shaped like embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pagehop_lab.data.generated import BLOCK, LATENT, Generator


@pytest.mark.parametrize("step", [1000, BLOCK, 3 * BLOCK + 7])
def test_rows_do_not_depend_on_the_chunks_asked_for(step: int) -> None:
    rows = 2 * BLOCK + 500
    whole = Generator(32).base(0, rows)
    chunks = [Generator(32).base(start, min(start + step, rows)) for start in range(0, rows, step)]
    np.testing.assert_array_equal(np.concatenate(chunks), whole)


def test_a_file_holds_the_same_rows(tmp_path: Path) -> None:
    Generator(16).write_npy(tmp_path / "x.npy", BLOCK + 10)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), Generator(16).base(0, BLOCK + 10))
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_seeds_and_streams_differ() -> None:
    generator = Generator(16)
    assert not np.array_equal(generator.base(0, 50), Generator(16, seed=2).base(0, 50))
    assert not np.array_equal(generator.base(0, 50), generator.queries(0, 50))
    assert generator.recipe() != Generator(16, seed=2).recipe()


def test_no_rows_are_no_rows() -> None:
    assert Generator(16).base(5, 5).shape == (0, 16)


def test_rows_look_like_embeddings() -> None:
    rows = Generator(200).base(0, 4 * BLOCK)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    variance = np.linalg.eigvalsh(np.cov(rows.T.astype(np.float64)))[::-1]
    assert variance[: 2 * LATENT].sum() > 0.8 * variance.sum()
    distinct = len(np.unique(rows, axis=0))
    assert 0.985 * len(rows) < distinct < len(rows)
