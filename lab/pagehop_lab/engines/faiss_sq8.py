"""faiss HNSW over vectors of one byte a component, and the best candidates compared in full."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import LADDER, Description, Float32, Ids, Library, Options, Search


class FaissSq8(Library):
    """`IndexHNSWSQ` within `IndexRefineFlat`."""

    description: ClassVar = Description(
        "faiss-sq8", "faiss HNSW SQ8", "faiss",
        build={"m": 32, "ef_construction": 200},
        search={"ef_search": LADDER, "refine_factor": (2,)},
        source="github.com/facebookresearch/faiss/wiki/Guidelines-to-choose-an-index",
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import faiss

        return str(faiss.__version__)

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import faiss

        faiss.omp_set_num_threads(threads)
        self._angular = metric == "angular"
        data = unit(np.asarray(base)) if self._angular else np.ascontiguousarray(base)
        self._index: Any = faiss.index_factory(base.shape[1], f"HNSW{options['m']}_SQ8,RFlat")
        inner = faiss.downcast_index(self._index.base_index)
        inner.hnsw.efConstruction = options["ef_construction"]
        inner.hnsw.rng = faiss.RandomGenerator(seed)
        self._index.train(data)
        self._index.add(data)
        faiss.omp_set_num_threads(1)

    def searcher(self, options: Options, k: int) -> Search:
        import faiss

        faiss.omp_set_num_threads(1)
        index, angular = self._index, self._angular
        parameters = faiss.IndexRefineSearchParameters(
            k_factor=options["refine_factor"],
            base_index_params=faiss.SearchParametersHNSW(efSearch=options["ef_search"]),
        )

        def search(queries: Float32) -> Ids:
            _, ids = index.search(unit(queries) if angular else queries, k, params=parameters)
            return np.asarray(ids)

        return search

    def index_bytes(self) -> int:
        import faiss

        return len(faiss.serialize_index(self._index))
