"""Intel's Scalable Vector Search: a Vamana graph over float32 vectors."""

from __future__ import annotations

import importlib.metadata
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import LADDER, Description, Float32, Ids, Library, Options, Search


class SvsVamana(Library):
    """`svs.Vamana`."""

    description: ClassVar = Description(
        "svs", "Scalable Vector Search", "svs",
        build={"graph_max_degree": 64, "window_size": 128, "alpha": 1.2},
        search={"search_window_size": LADDER},
        source="intel.github.io/ScalableVectorSearch (getting started)",
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import svs  # noqa: F401

        return importlib.metadata.version("scalable-vs")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import svs

        self._angular = metric == "angular"
        data = unit(np.asarray(base)) if self._angular else np.ascontiguousarray(base)
        parameters = svs.VamanaBuildParameters(
            alpha=options["alpha"],
            graph_max_degree=options["graph_max_degree"],
            window_size=options["window_size"],
        )
        self._index: Any = svs.Vamana.build(parameters, data, svs.DistanceType.L2, num_threads=threads)
        self._index.num_threads = 1

    def searcher(self, options: Options, k: int) -> Search:
        index, angular = self._index, self._angular
        index.search_window_size = max(options["search_window_size"], k)

        def search(queries: Float32) -> Ids:
            ids, _ = index.search(unit(queries) if angular else queries, k)
            return np.asarray(ids, dtype=np.int64)

        return search

    def index_bytes(self) -> int:
        for part in ("config", "graph", "data"):
            (self.folder / part).mkdir()
        self._index.save(*(str(self.folder / part) for part in ("config", "graph", "data")))
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
