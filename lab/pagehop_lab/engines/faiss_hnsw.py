"""faiss HNSW over full float32 vectors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import LADDER, Description, Kept, Options, Search
from pagehop_lab.engines.faiss_index import FaissIndex


class FaissHnsw(FaissIndex):
    """`IndexHNSWFlat`."""

    description: ClassVar = Description(
        "faiss-hnsw", "faiss HNSW", "faiss",
        build={"m": 32, "ef_construction": 200},
        search={"ef_search": LADDER},
        source="github.com/facebookresearch/faiss/wiki/Guidelines-to-choose-an-index (M=32)",
        metrics=("euclidean", "angular", "ip"),
        call_threads=True,
    )  # fmt: skip

    def make(self, rows: int, dim: int, options: Options, seed: int) -> Any:
        import faiss

        metric = faiss.METRIC_INNER_PRODUCT if self._metric == "ip" else faiss.METRIC_L2
        index = faiss.IndexHNSWFlat(dim, options["m"], metric)
        index.hnsw.efConstruction = options["ef_construction"]
        index.hnsw.rng = faiss.RandomGenerator(seed)
        return index

    def parameters(self, options: Options) -> Any:
        import faiss

        return faiss.SearchParametersHNSW(efSearch=options["ef_search"])

    def filtered(self, options: Options, k: int, kept: Kept) -> Search:
        import faiss

        parameters = self.parameters(options)
        parameters.sel = faiss.IDSelectorBitmap(np.packbits(kept, bitorder="little"))
        return self._searcher(parameters, k)
