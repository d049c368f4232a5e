"""Intel's Scalable Vector Search: a Vamana graph over its own codes (LVQ), or over float32 vectors.

`bits` is `8` for codes of a byte a component, `4x8` for 4 bits that find candidates and 8 more that
order them, `16` for float16, `32` for the vectors themselves. The wheel contains the codes; they
are not in the open source.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import LADDER, Description, EngineError, Float32, Ids, Library, Options, Search

# Bits per component, in the codes that find candidates and in those that rank them.
_CODES = {"8": (8, 0), "4x8": (4, 8), "8x8": (8, 8)}


class SvsVamana(Library):
    """`svs.Vamana`."""

    description: ClassVar = Description(
        "svs", "Scalable Vector Search", "svs",
        build={"graph_max_degree": 64, "window_size": 128, "alpha": 1.2, "bits": "8"},
        search={"search_window_size": LADDER},
        source="intel.github.io/ScalableVectorSearch (getting started, vector compression)",
        call_threads=True,
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
        coded = self._coded(data, options["bits"])
        self._index: Any = svs.Vamana.build(parameters, coded, svs.DistanceType.L2, num_threads=threads)
        self._index.num_threads = 1

    def _coded(self, data: Float32, bits: str) -> Any:
        """The vectors themselves, or a loader that makes codes of them, which needs a file."""
        import svs

        if bits == "32":
            return data
        if bits == "16":
            return data.astype(np.float16)
        try:
            primary, residual = _CODES[bits]
        except KeyError:
            raise EngineError(f"bits = {bits}: there are {', '.join(['32', '16', *_CODES])}") from None
        path = str(self.folder / "rows.fvecs")
        svs.write_vecs(data, path)
        rows = svs.VectorDataLoader(path, svs.DataType.float32, dims=data.shape[1])
        return svs.LVQLoader(rows, primary=primary, residual=residual)

    def searcher(self, options: Options, k: int) -> Search:
        index, angular = self._index, self._angular
        index.search_window_size = max(options["search_window_size"], k)
        index.num_threads = self.threads

        def search(queries: Float32) -> Ids:
            ids, _ = index.search(unit(queries) if angular else queries, k)
            return np.asarray(ids, dtype=np.int64)

        return search

    def index_bytes(self) -> int:
        for part in ("config", "graph", "data"):
            (self.folder / part).mkdir()
        self._index.save(*(str(self.folder / part) for part in ("config", "graph", "data")))
        return sum(file.stat().st_size for file in self.folder.glob("*/**/*") if file.is_file())
