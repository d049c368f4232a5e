"""Pagehop, as its users have it: an index file, built with default options.

Effort is `slack` in thousandths, over the default list of 100. Above 320 it is `search_list` alone, which
is walked to its end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pagehop
from pagehop_bench.engines import Float32, Found

# More than any index measured here: everything searched before stays in memory.
HOT = "8GiB"

SLACK_MAX = 320


def knobs(effort: int) -> dict[str, Any]:
    """The arguments of a search that an effort stands for."""
    if effort <= SLACK_MAX:
        return {"search_list": 100, "slack": effort / 1000}
    return {"search_list": effort}


def shown(effort: int) -> str:
    """An effort in the words of its arguments."""
    return f"slack {effort / 1000:g}" if effort <= SLACK_MAX else f"search_list {effort}"


class PagehopFile:
    """A file at `path`, and an index over it opened with `cache`."""

    name = "pagehop"
    effort_name = "effort"

    def __init__(self, path: Path, cache: int | str = HOT) -> None:
        self.path = path
        self._cache = cache
        self._index: pagehop.Index | None = None

    def build(self, base: Float32, threads: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        pagehop.build(self.path, base, threads=threads, overwrite=True).close()
        self.open(self._cache)

    def open(self, cache: int | str) -> None:
        """Opens the file anew: nothing of it is in memory."""
        self.close()
        self._cache = cache
        self._index = pagehop.open(self.path, cache=cache)

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    def search(self, queries: Float32, k: int, effort: int, threads: int) -> Found:
        assert self._index is not None, "build or open comes first"
        hits = self._index.search(queries, k=k, threads=threads, **knobs(effort))
        return Found(
            hits.ids,
            pages_per_query=hits.stats.pages_read / len(queries),
            missed_per_query=hits.stats.pages_missed / len(queries),
        )
