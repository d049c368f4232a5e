"""faiss HNSW over full float32 vectors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import LADDER, Description, Float32, Ids, Kept, Library, Options, Search


class FaissHnsw(Library):
    """`IndexHNSWFlat`."""

    description: ClassVar = Description(
        "faiss-hnsw", "faiss HNSW", "faiss",
        build={"m": 32, "ef_construction": 200},
        search={"ef_search": LADDER},
        source="github.com/facebookresearch/faiss/wiki/Guidelines-to-choose-an-index (M=32)",
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import faiss

        return str(faiss.__version__)

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import faiss

        faiss.omp_set_num_threads(threads)
        self._angular = metric == "angular"
        self._index: Any = faiss.IndexHNSWFlat(base.shape[1], options["m"])
        self._index.hnsw.efConstruction = options["ef_construction"]
        self._index.hnsw.rng = faiss.RandomGenerator(seed)
        # At unit length the order by L2 is the order by angle.
        self._index.add(unit(np.asarray(base)) if self._angular else np.ascontiguousarray(base))
        faiss.omp_set_num_threads(1)

    def searcher(self, options: Options, k: int) -> Search:
        return self._searcher(options, k)

    def filtered(self, options: Options, k: int, kept: Kept) -> Search:
        import faiss

        return self._searcher(options, k, sel=faiss.IDSelectorBitmap(np.packbits(kept, bitorder="little")))

    def _searcher(self, options: Options, k: int, **more: Any) -> Search:
        import faiss

        # The setting is of each thread.
        faiss.omp_set_num_threads(1)
        index, angular = self._index, self._angular
        parameters = faiss.SearchParametersHNSW(efSearch=options["ef_search"], **more)

        def search(queries: Float32) -> Ids:
            _, ids = index.search(unit(queries) if angular else queries, k, params=parameters)
            return np.asarray(ids)

        return search

    def index_bytes(self) -> int:
        import faiss

        return len(faiss.serialize_index(self._index))
