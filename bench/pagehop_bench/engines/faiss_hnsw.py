"""faiss HNSW over full float32 vectors, M = 32, efConstruction = 200."""

from __future__ import annotations

from typing import Any

import faiss

from pagehop_bench.engines import Float32, Found

DEGREE = 32
EF_CONSTRUCTION = 200


class FaissHnsw:
    """`IndexHNSWFlat`."""

    name = f"faiss HNSW{DEGREE}"
    effort_name = "efSearch"

    def __init__(self) -> None:
        self._index: Any = None

    def build(self, base: Float32, threads: int) -> None:
        faiss.omp_set_num_threads(threads)
        self._index = faiss.IndexHNSWFlat(base.shape[1], DEGREE)
        self._index.hnsw.efConstruction = EF_CONSTRUCTION
        self._index.add(base)

    def search(self, queries: Float32, k: int, effort: int, threads: int) -> Found:
        faiss.omp_set_num_threads(threads)
        self._index.hnsw.efSearch = effort
        _, ids = self._index.search(queries, k)
        return Found(ids)
