"""Pagehop embedded, as its users have it: an index file, built with default options, in a cache that holds all of it.

`slack` is how far beyond the k-th distance a search goes on, over the default list of 100; 0 leaves it to
`search_list`.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import Description, Float32, Library, Options, Search

# More than any index measured here: everything searched before stays in memory.
_CACHE = "8GiB"
_METRICS = {"euclidean": "l2", "angular": "cosine"}


class PagehopFile(Library):
    """`pagehop.build` and `pagehop.open`."""

    description: ClassVar = Description(
        "pagehop", "Pagehop", "main",
        build={},
        search={"slack": (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5), "search_list": (100,)},
        source="defaults of python/pagehop",
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import pagehop  # noqa: F401

        return importlib.metadata.version("pagehop")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import pagehop

        self._path = self.folder / "index.pagehop"
        pagehop.build(self._path, base, metric=_METRICS[metric], threads=threads, seed=seed).close()
        self._index = pagehop.open(self._path, cache=_CACHE)

    def searcher(self, options: Options, k: int) -> Search:
        index = self._index
        slack, search_list = options["slack"], max(options["search_list"], k)
        knobs: dict[str, Any] = {"search_list": search_list} | ({"slack": slack} if slack else {})
        return lambda queries: np.asarray(index.search(queries, k=k, threads=1, **knobs).ids)

    def index_bytes(self) -> int:
        return self._path.stat().st_size

    def cool(self) -> None:
        """Opens the file anew, when the kernel has forgotten it; reads go past the kernel's cache in any case."""
        import pagehop
        from pagehop_bench import machine

        self._index.close()
        machine.drop_page_cache(self._path)
        # The rest is for a search and the interpreter.
        cache = f"{self.memory_mib // 2}MiB" if self.memory_mib else _CACHE
        self._index = pagehop.open(self._path, cache=cache)

    def close(self) -> None:
        self._index.close()
