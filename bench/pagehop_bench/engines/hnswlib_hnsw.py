"""hnswlib, M = 32, ef_construction = 200: the settings of the faiss index beside it."""

from __future__ import annotations

from typing import Any

import hnswlib
import numpy as np

from pagehop_bench.engines import Float32, Found

DEGREE = 32
EF_CONSTRUCTION = 200


class HnswlibHnsw:
    """`hnswlib.Index`."""

    name = f"hnswlib M={DEGREE}"
    effort_name = "ef"

    def __init__(self) -> None:
        self._index: Any = None

    def build(self, base: Float32, threads: int) -> None:
        self._index = hnswlib.Index(space="l2", dim=base.shape[1])
        self._index.init_index(max_elements=len(base), M=DEGREE, ef_construction=EF_CONSTRUCTION, random_seed=1)
        self._index.add_items(base, num_threads=threads)

    def search(self, queries: Float32, k: int, effort: int, threads: int) -> Found:
        self._index.set_ef(effort)
        ids, _ = self._index.knn_query(queries, k=k, num_threads=threads)
        return Found(ids.astype(np.int64))
