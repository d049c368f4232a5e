"""faiss inverted lists of 4-bit product codes, scanned by SIMD.

The best candidates are compared in full. As in faiss's wiki: about 4 sqrt(rows) lists, two
dimensions a code, ten refined candidates for each neighbor.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pagehop_lab.engines.engine import Description, EngineError, Options
from pagehop_lab.engines.faiss_index import FaissIndex


class FaissIvfPq(FaissIndex):
    """`IndexIVFPQFastScan` within `IndexRefineFlat`."""

    description: ClassVar = Description(
        "faiss-ivfpq", "faiss IVF-PQ fast scan", "faiss",
        build={"nlist": 0, "dims_per_code": 2},
        search={"nprobe": (1, 2, 4, 8, 16, 32, 64, 128), "refine_factor": (10,)},
        source="github.com/facebookresearch/faiss/wiki/Fast-accumulation-of-PQ-and-AQ-codes-(FastScan)",
    )  # fmt: skip

    def make(self, rows: int, dim: int, options: Options, seed: int) -> Any:
        import faiss

        lists = options["nlist"] or max(16, min(int(4 * rows**0.5), rows // 40))
        codes, left = divmod(dim, options["dims_per_code"])
        if left:
            raise EngineError(f"dims_per_code = {options['dims_per_code']} does not divide {dim} dimensions")
        index = faiss.index_factory(dim, f"IVF{lists},PQ{codes}x4fs,RFlat")
        faiss.downcast_index(index.base_index).cp.seed = seed
        return index

    def parameters(self, options: Options) -> Any:
        import faiss

        return faiss.IndexRefineSearchParameters(
            k_factor=options["refine_factor"],
            base_index_params=faiss.SearchParametersIVF(nprobe=options["nprobe"]),
        )
