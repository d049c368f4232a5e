"""SymphonyQG: a graph whose nodes have one-bit codes of their neighbors beside their vectors.

The library is that of the authors of RaBitQ. `bits` is what a node keeps of its own vector: 0 is
float32, 4 and 8 are bits of a component. `max_degree` is a multiple of 32.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import LADDER, Description, Float32, Ids, Library, Options, Search


class SymphonyQg(Library):
    """`rabitqlib.SymqgIndex`."""

    description: ClassVar = Description(
        "symphonyqg", "SymphonyQG", "rabitq",
        build={"max_degree": 32, "ef_construction": 200, "bits": 0},
        search={"ef_search": LADDER},
        source="RaBitQ-Library docs/docs/index/qg.md",
        metrics=("euclidean", "angular", "ip"),
        call_threads=True,
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import rabitqlib  # noqa: F401

        return importlib.metadata.version("rabitqlib")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import rabitqlib

        self._angular = metric == "angular"
        data = unit(np.asarray(base)) if self._angular else np.ascontiguousarray(base)
        self._index: Any = rabitqlib.SymqgIndex(
            data.shape[1], options["max_degree"], "ip" if metric == "ip" else "l2", quantization_bits=options["bits"]
        )
        self._index.build(data, options["ef_construction"], num_threads=threads)

    def searcher(self, options: Options, k: int) -> Search:
        index, angular, threads = self._index, self._angular, self.threads
        ef_search = max(options["ef_search"], k)

        def search(queries: Float32) -> Ids:
            ids, _ = index.search_batch(unit(queries) if angular else queries, k, ef_search, num_threads=threads)
            # It returns the largest 32-bit number if it finds nothing.
            return np.asarray(np.where(ids == np.uint32(2**32 - 1), -1, ids.astype(np.int64)))

        return search

    def index_bytes(self) -> int:
        path = self.folder / "index"
        self._index.save(str(path))
        return path.stat().st_size
