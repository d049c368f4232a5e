"""usearch, HNSW over float32 or narrower numbers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import LADDER, Description, EngineError, Float32, Ids, Library, Options, Search


class UsearchHnsw(Library):
    """`usearch.index.Index`."""

    description: ClassVar = Description(
        "usearch", "usearch", "usearch",
        build={"m": 32, "ef_construction": 200, "dtype": "f32"},
        search={"ef_search": LADDER},
        source="unum-cloud.github.io/usearch (connectivity, expansion_add, expansion_search)",
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import usearch

        return str(usearch.__version__)

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        from usearch.index import Index

        if options["dtype"] not in ("f32", "bf16", "f16", "i8"):
            raise EngineError(f"dtype = {options['dtype']}: usearch knows f32, bf16, f16 and i8")
        space = {"euclidean": "l2sq", "angular": "cos"}[metric]
        self._index: Any = Index(
            ndim=base.shape[1], metric=space, dtype=options["dtype"],
            connectivity=options["m"], expansion_add=options["ef_construction"],
        )  # fmt: skip
        self._index.add(np.arange(len(base)), np.ascontiguousarray(base), threads=threads)

    def searcher(self, options: Options, k: int) -> Search:
        index = self._index
        index.expansion_search = options["ef_search"]

        def search(queries: Float32) -> Ids:
            # One query gives a single row, several a matrix.
            found = index.search(queries, k, threads=1)
            return np.asarray(found.keys, dtype=np.int64).reshape(len(queries), -1)

        return search

    def index_bytes(self) -> int:
        return int(self._index.serialized_length)
