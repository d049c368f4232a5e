"""Pagehop in the lab with row codes: searches use them, within the same memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pagehop_lab.engines.engine import EngineError, Float32, Options
from pagehop_lab.engines.pagehop_file import PagehopFile

ROWS, DIM, K = 4000, 192, 10
WITH: Options = {"slack": 0.2, "search_list": 100, "row_codes": 1}
WITHOUT: Options = {"slack": 0.2, "search_list": 100}


@pytest.fixture
def base() -> Float32:
    random = np.random.default_rng(3)
    flat = random.standard_normal((ROWS, 24)) @ random.standard_normal((24, DIM))
    return (flat + 0.3 * random.standard_normal((ROWS, DIM))).astype(np.float32)


@pytest.fixture
def engine(tmp_path: Path, base: Float32) -> Iterator[PagehopFile]:
    made = PagehopFile(tmp_path)
    made.build(base, "euclidean", {"cache_share": 0.2}, 2, 1)
    yield made
    made.close()


def pages(engine: PagehopFile, base: Float32, options: Options) -> float:
    """Pages of a query, after a search with these options was made."""
    engine.searcher(options, K)
    found = engine.counted(base[:200], options, K)
    assert found is not None
    return found[1]["pages"] / 200


def test_searches_with_row_codes_read_fewer_pages(engine: PagehopFile, base: Float32) -> None:
    engine.cool()
    without = pages(engine, base, WITHOUT)
    assert pages(engine, base, WITH) < 0.95 * without
    assert pages(engine, base, WITHOUT) == without
    assert pages(engine, base, WITH) < 0.95 * without
    engine.cool()
    assert pages(engine, base, WITHOUT) == without


def test_row_codes_and_cache_take_the_memory_of_the_cache_alone(engine: PagehopFile) -> None:
    allowed, codes = engine.cache_bytes(), ROWS * (DIM // 4 + 10)
    assert allowed is not None
    for cool in (False, True):
        if cool:
            engine.cool()
        assert engine.pages_cache_bytes == allowed
        engine.searcher(WITH, K)
        assert codes <= allowed - engine.pages_cache_bytes <= 1.1 * codes
        engine.searcher(WITHOUT, K)
        assert engine.pages_cache_bytes == allowed
        engine.searcher(WITH, K)


def test_a_cache_too_small_for_row_codes_is_an_error(tmp_path: Path, base: Float32) -> None:
    engine = PagehopFile(tmp_path)
    engine.build(base, "euclidean", {"cache_share": 0.01}, 2, 1)
    without = pages(engine, base, WITHOUT)
    for _ in range(2):
        with pytest.raises(EngineError, match="give the index a larger cache"):
            engine.searcher(WITH, K)
        assert pages(engine, base, WITHOUT) == without
    engine.close()
