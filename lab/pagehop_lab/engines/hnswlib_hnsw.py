"""hnswlib, by the authors of HNSW."""

from __future__ import annotations

import importlib.metadata
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import LADDER, Description, Float32, Ids, Kept, Library, Options, Search


class HnswlibHnsw(Library):
    """`hnswlib.Index`."""

    description: ClassVar = Description(
        "hnswlib", "hnswlib", "hnswlib",
        build={"m": 32, "ef_construction": 200},
        search={"ef_search": LADDER},
        source="github.com/nmslib/hnswlib/blob/master/ALGO_PARAMS.md",
        metrics=("euclidean", "angular", "ip"),
        call_threads=True,
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import hnswlib  # noqa: F401

        return importlib.metadata.version("hnswlib")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import hnswlib

        space = {"euclidean": "l2", "angular": "cosine", "ip": "ip"}[metric]
        self._index: Any = hnswlib.Index(space=space, dim=base.shape[1])
        m, ef_construction = options["m"], options["ef_construction"]
        self._index.init_index(max_elements=len(base), M=m, ef_construction=ef_construction, random_seed=seed)
        self._index.add_items(base, num_threads=threads)

    def searcher(self, options: Options, k: int) -> Search:
        return self._searcher(options, k)

    def filtered(self, options: Options, k: int, kept: Kept) -> Search:
        # It calls back for every row that it visits, as in its users' Python.
        leaves = kept.tolist()
        return self._searcher(options, k, filter=lambda row: leaves[row])

    def _searcher(self, options: Options, k: int, **more: Any) -> Search:
        index, threads = self._index, self.threads
        index.set_ef(max(options["ef_search"], k))

        def search(queries: Float32) -> Ids:
            ids, _ = index.knn_query(queries, k=k, num_threads=threads, **more)
            return np.asarray(ids, dtype=np.int64)

        return search

    def index_bytes(self) -> int:
        return int(self._index.index_file_size())
