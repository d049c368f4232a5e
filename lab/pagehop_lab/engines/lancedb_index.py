"""LanceDB: a table in files, and IVF lists, of codes or each with an HNSW graph over bytes."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import Description, Float32, Ids, Library, Options, Search
from pagehop_lab.machine.place import drop_page_cache

# Rows that are in memory as vectors at once.
_AT_ONCE = 10_000
_SOURCE = "docs.lancedb.com/indexing/vector-index"


class _Lists(Library):
    """A table with an IVF index of one type."""

    index_type: ClassVar[str]

    @classmethod
    def version(cls) -> str:
        import lancedb  # noqa: F401

        return importlib.metadata.version("lancedb")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import lancedb
        import pyarrow as pa

        dim = base.shape[1]
        schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), dim))])

        def batches() -> Any:
            for start in range(0, len(base), _AT_ONCE):
                part = np.ascontiguousarray(base[start : start + _AT_ONCE], dtype=np.float32)
                vectors = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), dim)
                yield pa.RecordBatch.from_arrays([pa.array(range(start, start + len(part))), vectors], schema=schema)

        self.on_phase("load")
        begun = time.perf_counter()
        database = lancedb.connect(self.folder / "lance")
        self._table: Any = database.create_table("items", data=batches(), schema=schema)
        self.load_s = time.perf_counter() - begun
        self.on_phase("index")
        self._table.create_index(
            metric={"euclidean": "l2", "angular": "cosine"}[metric],
            index_type=self.index_type, vector_column_name="vector", **options,
        )  # fmt: skip
        first = np.asarray(base[0], dtype=np.float32)
        self._plan = str(self._table.search(first).limit(1).explain_plan())

    def searcher(self, options: Options, k: int) -> Search:
        table, nprobes, refine = self._table, options["nprobes"], options["refine_factor"]
        # It takes this number of candidates for the full comparison, and fails if it keeps fewer.
        ef = max(options["ef"], k * max(refine, 1)) if "ef" in options else None

        def answer(query: Float32) -> Ids:
            asked = table.search(query).select(["id", "_distance"]).limit(k).nprobes(nprobes)
            asked = asked.refine_factor(refine) if refine else asked
            found = (asked.ef(ef) if ef else asked).to_arrow()["id"].to_numpy()
            return np.concatenate([found, np.full(k - len(found), -1)])

        if self.threads == 1:
            return lambda queries: np.array([answer(query) for query in queries], dtype=np.int64)
        # LanceDB answers one query a call. The calls release Python's lock.
        workers = ThreadPoolExecutor(self.threads)
        return lambda queries: np.array(list(workers.map(answer, queries)), dtype=np.int64)

    def cool(self) -> None:
        import lancedb

        # It caches what it read of the index.
        self._table = None
        for file in self._files():
            drop_page_cache(file)
        begun = time.perf_counter()
        self._table = lancedb.connect(self.folder / "lance").open_table("items")
        self.opened_s = time.perf_counter() - begun

    def _files(self) -> Iterator[Path]:
        return (file for file in (self.folder / "lance").rglob("*") if file.is_file())

    def index_bytes(self) -> int:
        """The whole table: rows and index."""
        return sum(file.stat().st_size for file in self._files())

    def index_used(self) -> bool:
        """Whether the engine's own plan of a search reads the index."""
        return "ANNSubIndex" in self._plan or "ANNIvf" in self._plan


class LanceDb(_Lists):
    """`IVF_HNSW_SQ` of `lancedb.Table.create_index`."""

    index_type = "IVF_HNSW_SQ"
    description: ClassVar = Description(
        "lancedb", "LanceDB", "lancedb",
        build={"num_partitions": 1, "m": 20, "ef_construction": 300},
        search={"ef": (20, 40, 80, 160, 320), "nprobes": (1,), "refine_factor": (2,)},
        source=_SOURCE,
        halves=True,
        call_threads=True,
    )  # fmt: skip


class LanceDbIvfPq(_Lists):
    """`IVF_PQ` of the same, compared again with the rows in the table."""

    index_type = "IVF_PQ"
    description: ClassVar = Description(
        "lancedb-ivfpq", "LanceDB IVF-PQ", "lancedb",
        build={"num_partitions": 1000, "num_sub_vectors": 96},
        search={"nprobes": (5, 10, 20, 40, 80), "refine_factor": (10,)},
        source=_SOURCE,
        halves=True,
        call_threads=True,
    )  # fmt: skip
