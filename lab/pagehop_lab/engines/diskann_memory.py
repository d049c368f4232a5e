"""diskannpy's index in memory: a Vamana graph over float32 vectors."""

from __future__ import annotations

import importlib.metadata
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import LADDER, Description, Float32, Ids, Library, Options, Search


class DiskannMemory(Library):
    """`diskannpy.StaticMemoryIndex`."""

    description: ClassVar = Description(
        "diskann-memory", "DiskANN in memory", "diskann",
        build={"graph_degree": 64, "complexity": 100, "alpha": 1.2},
        search={"complexity": LADDER},
        source="defaults of diskannpy",
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import diskannpy  # noqa: F401

        return importlib.metadata.version("diskannpy")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import diskannpy

        self._angular = metric == "angular"
        diskannpy.build_memory_index(
            data=unit(np.asarray(base)) if self._angular else np.array(base),
            distance_metric="l2", index_directory=str(self.folder), complexity=options["complexity"],
            graph_degree=options["graph_degree"], alpha=options["alpha"], num_threads=threads,
            use_pq_build=False, num_pq_bytes=0, use_opq=False,
        )  # fmt: skip
        self._index: Any = diskannpy.StaticMemoryIndex(
            index_directory=str(self.folder), num_threads=2, initial_search_complexity=400
        )

    def searcher(self, options: Options, k: int) -> Search:
        index, angular, complexity = self._index, self._angular, max(options["complexity"], k)

        def search(queries: Float32) -> Ids:
            asked = unit(queries) if angular else queries
            rows = [index.search(query, k_neighbors=k, complexity=complexity).identifiers for query in asked]
            return np.asarray(rows, dtype=np.int64)

        return search

    def index_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.folder.glob("ann*") if file.is_file())
