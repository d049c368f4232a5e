"""Common parts of the engines of faiss: rows at unit length for angles, one thread, file sizes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import Float32, Ids, Library, Options, Search


class FaissIndex(Library):
    """An index of faiss of any kind."""

    @abstractmethod
    def make(self, rows: int, dim: int, options: Options, seed: int) -> Any:
        """An empty index."""

    @abstractmethod
    def parameters(self, options: Options) -> Any:
        """What a search is given."""

    @classmethod
    def version(cls) -> str:
        import faiss

        return str(faiss.__version__)

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import faiss

        faiss.omp_set_num_threads(threads)
        self._angular, self._metric = metric == "angular", metric
        # At unit length the order by L2 is the order by angle.
        data = unit(np.asarray(base)) if self._angular else np.ascontiguousarray(base)
        rows, dim = data.shape
        self._index = self.make(rows, dim, options, seed)
        self._index.train(data)
        self._index.add(data)
        faiss.omp_set_num_threads(1)

    def searcher(self, options: Options, k: int) -> Search:
        return self._searcher(self.parameters(options), k, self.threads)

    def _searcher(self, parameters: Any, k: int, threads: int = 1) -> Search:
        import faiss

        # The setting belongs to the calling thread.
        faiss.omp_set_num_threads(threads)
        index, angular = self._index, self._angular

        def search(queries: Float32) -> Ids:
            _, ids = index.search(unit(queries) if angular else queries, k, params=parameters)
            return np.asarray(ids)

        return search

    def index_bytes(self) -> int:
        import faiss

        # In parts: a copy of the whole may not fit in memory.
        sizes: list[int] = []
        faiss.write_index(self._index, faiss.PyCallbackIOWriter(lambda part: sizes.append(len(part))))
        return sum(sizes)
