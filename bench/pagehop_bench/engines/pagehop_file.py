"""Pagehop, as its users have it: an index file, built with default options.

Effort is `search_list`. Up to the default of 100 the search also stops by the default slack; longer
lists are walked to their end, which is what giving `search_list` alone means.
"""

from __future__ import annotations

from pathlib import Path

import pagehop
from pagehop_bench.engines import Float32, Found

# More than any index measured here: everything searched before stays in memory.
HOT = "8GiB"

STOPPED_LIST_MAX = 100
SLACK = 0.2


class PagehopFile:
    """A file at `path`, and an index over it opened with `cache`."""

    name = "pagehop"
    effort_name = "search_list"

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
        slack = SLACK if effort <= STOPPED_LIST_MAX else None
        hits = self._index.search(queries, k=k, search_list=effort, slack=slack, threads=threads)
        return Found(
            hits.ids,
            pages_per_query=hits.stats.pages_read / len(queries),
            missed_per_query=hits.stats.pages_missed / len(queries),
        )
