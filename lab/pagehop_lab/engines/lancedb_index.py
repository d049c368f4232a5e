"""LanceDB: a table in files, and IVF lists, each with an HNSW graph over one byte a component."""

from __future__ import annotations

import importlib.metadata
import time
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import Description, EngineError, Float32, Ids, Library, Options, Search

_AT_ONCE = 10_000


class LanceDb(Library):
    """`IVF_HNSW_SQ` or `IVF_PQ` of `lancedb.Table.create_index`."""

    description: ClassVar = Description(
        "lancedb", "LanceDB", "lancedb",
        build={"index_type": "IVF_HNSW_SQ", "num_partitions": 1, "m": 20, "ef_construction": 300},
        search={"ef": (20, 40, 80, 160, 320), "nprobes": (1,), "refine_factor": (2,)},
        source="docs.lancedb.com/indexing/vector-index",
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import lancedb  # noqa: F401

        return importlib.metadata.version("lancedb")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import lancedb
        import pyarrow as pa

        kind = options["index_type"]
        if kind not in ("IVF_HNSW_SQ", "IVF_PQ"):
            raise EngineError(f"index_type = {kind}: the lab knows IVF_HNSW_SQ and IVF_PQ")
        dim = base.shape[1]
        schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), dim))])

        def batches() -> Any:
            for start in range(0, len(base), _AT_ONCE):
                part = np.ascontiguousarray(base[start : start + _AT_ONCE])
                vectors = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), dim)
                yield pa.RecordBatch.from_arrays([pa.array(range(start, start + len(part))), vectors], schema=schema)

        self.on_phase("load")
        begun = time.perf_counter()
        database = lancedb.connect(self.folder / "lance")
        self._table: Any = database.create_table("items", data=batches(), schema=schema)
        self.load_s = time.perf_counter() - begun
        self.on_phase("index")
        more = {"m": options["m"], "ef_construction": options["ef_construction"]} if "HNSW" in kind else {}
        self._table.create_index(
            metric={"euclidean": "l2", "angular": "cosine"}[metric],
            index_type=kind, num_partitions=options["num_partitions"], vector_column_name="vector", **more,
        )  # fmt: skip
        self._plan = str(self._table.search(np.asarray(base[0])).limit(1).explain_plan())

    def searcher(self, options: Options, k: int) -> Search:
        table, nprobes, refine = self._table, options["nprobes"], options["refine_factor"]
        # It takes this number of candidates for the full comparison, and fails if it keeps fewer.
        ef = max(options["ef"], k * max(refine, 1))

        def search(queries: Float32) -> Ids:
            ids = np.full((len(queries), k), -1, dtype=np.int64)
            for number, query in enumerate(queries):
                asked = table.search(query).select(["id", "_distance"]).limit(k).nprobes(nprobes).ef(ef)
                found = (asked.refine_factor(refine) if refine else asked).to_arrow()["id"].to_numpy()
                ids[number, : len(found)] = found
            return ids

        return search

    def index_bytes(self) -> int:
        """The whole table: rows and index."""
        return sum(file.stat().st_size for file in (self.folder / "lance").rglob("*") if file.is_file())

    def index_used(self) -> bool:
        """Whether the engine's own plan of a search reads the index."""
        return "ANNSubIndex" in self._plan or "ANNIvf" in self._plan
