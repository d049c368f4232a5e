"""faiss inverted lists of product codes of 4 bits, scanned by SIMD, and the best candidates compared in full.

As many lists as about 4 sqrt(rows), two dimensions a code, ten candidates refined for each neighbor: the wiki's choice.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import Description, EngineError, Float32, Ids, Library, Options, Search


class FaissIvfPq(Library):
    """`IndexIVFPQFastScan` within `IndexRefineFlat`."""

    description: ClassVar = Description(
        "faiss-ivfpq", "faiss IVF-PQ fast scan", "faiss",
        build={"nlist": 0, "dims_per_code": 2},
        search={"nprobe": (1, 2, 4, 8, 16, 32, 64, 128), "refine_factor": (10,)},
        source="github.com/facebookresearch/faiss/wiki/Fast-accumulation-of-PQ-and-AQ-codes-(FastScan)",
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import faiss

        return str(faiss.__version__)

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import faiss

        faiss.omp_set_num_threads(threads)
        self._angular = metric == "angular"
        rows, dim = base.shape
        lists = options["nlist"] or max(16, min(int(4 * rows**0.5), rows // 40))
        codes, left = divmod(dim, options["dims_per_code"])
        if left:
            raise EngineError(f"dims_per_code = {options['dims_per_code']} does not divide {dim} dimensions")
        data = unit(np.asarray(base)) if self._angular else np.ascontiguousarray(base)
        self._index: Any = faiss.index_factory(dim, f"IVF{lists},PQ{codes}x4fs,RFlat")
        inner = faiss.downcast_index(self._index.base_index)
        inner.cp.seed = seed
        self._index.train(data)
        self._index.add(data)
        faiss.omp_set_num_threads(1)

    def searcher(self, options: Options, k: int) -> Search:
        import faiss

        faiss.omp_set_num_threads(1)
        index, angular = self._index, self._angular
        parameters = faiss.IndexRefineSearchParameters(
            k_factor=options["refine_factor"],
            base_index_params=faiss.SearchParametersIVF(nprobe=options["nprobe"]),
        )

        def search(queries: Float32) -> Ids:
            _, ids = index.search(unit(queries) if angular else queries, k, params=parameters)
            return np.asarray(ids)

        return search

    def index_bytes(self) -> int:
        import faiss

        return len(faiss.serialize_index(self._index))
