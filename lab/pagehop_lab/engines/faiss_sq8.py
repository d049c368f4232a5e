"""faiss HNSW over vectors of one byte a component, and the best candidates compared in full."""

from __future__ import annotations

from typing import Any, ClassVar

from pagehop_lab.engines.engine import LADDER, Description, Options
from pagehop_lab.engines.faiss_index import FaissIndex


class FaissSq8(FaissIndex):
    """`IndexHNSWSQ` within `IndexRefineFlat`."""

    description: ClassVar = Description(
        "faiss-sq8", "faiss HNSW SQ8", "faiss",
        build={"m": 32, "ef_construction": 200},
        search={"ef_search": LADDER, "refine_factor": (2,)},
        source="github.com/facebookresearch/faiss/wiki/Guidelines-to-choose-an-index",
    )  # fmt: skip

    def make(self, rows: int, dim: int, options: Options, seed: int) -> Any:
        import faiss

        index = faiss.index_factory(dim, f"HNSW{options['m']}_SQ8,RFlat")
        inner = faiss.downcast_index(index.base_index)
        inner.hnsw.efConstruction = options["ef_construction"]
        inner.hnsw.rng = faiss.RandomGenerator(seed)
        return index

    def parameters(self, options: Options) -> Any:
        import faiss

        return faiss.IndexRefineSearchParameters(
            k_factor=options["refine_factor"],
            base_index_params=faiss.SearchParametersHNSW(efSearch=options["ef_search"]),
        )
