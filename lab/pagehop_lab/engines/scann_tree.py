"""ScaNN: a tree of partitions and anisotropic codes. The best candidates are compared in full."""

from __future__ import annotations

import importlib.metadata
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import Description, Float32, Ids, Library, Options, Search


class ScannTree(Library):
    """`scann.scann_ops_pybind`."""

    description: ClassVar = Description(
        "scann", "ScaNN", "scann",
        build={"num_leaves": 0, "dims_per_block": 2, "anisotropic_threshold": 0.2},
        search={"leaves": (1, 2, 4, 8, 16, 32, 64, 128), "reorder": (100,)},
        source="github.com/google-research/google-research/blob/master/scann/docs/algorithms.md",
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import scann  # noqa: F401

        return importlib.metadata.version("scann")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import scann

        self._angular = metric == "angular"
        data = unit(np.asarray(base)) if self._angular else np.ascontiguousarray(base)
        leaves = options["num_leaves"] or max(4, int(len(base) ** 0.5))
        distance = "dot_product" if self._angular else "squared_l2"
        builder = scann.scann_ops_pybind.builder(data, 10, distance).tree(
            num_leaves=leaves, num_leaves_to_search=leaves, training_sample_size=min(len(base), 250_000)
        )
        # Squared L2 has no anisotropic loss.
        threshold = options["anisotropic_threshold"] if self._angular else float("nan")
        codes = {"anisotropic_quantization_threshold": threshold} if self._angular else {}
        self._index: Any = builder.score_ah(options["dims_per_block"], **codes).reorder(100).build()

    def searcher(self, options: Options, k: int) -> Search:
        index, angular = self._index, self._angular
        leaves, reorder = options["leaves"], max(options["reorder"], k)

        def search(queries: Float32) -> Ids:
            ids = np.full((len(queries), k), -1, dtype=np.int64)
            for number, query in enumerate(unit(queries) if angular else queries):
                found, _ = index.search(
                    query, final_num_neighbors=k, pre_reorder_num_neighbors=reorder, leaves_to_search=leaves
                )
                ids[number, : len(found)] = found
            return ids

        return search

    def index_bytes(self) -> int:
        target = self.folder / "saved"
        target.mkdir()
        self._index.serialize(str(target))
        return sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
