"""Milvus 2.3.5: its server from a wheel, on free loopback ports, and its own client over gRPC.

The client is Python and runs in the process that starts the server. Its time is in the figures, as
it is for users. All rows are one sealed segment, or several if there are more than the server takes
in one.

Its index DISKANN is not available: the wheel's libknowhere was built without it. The library has
the name of the index, but no symbol of it and no libaio to read by. The index node answers every
attempt with `C Runtime Exception: bad_function_call`, and the server retries forever, also with
`queryNode.enableDisk` set.
"""

from __future__ import annotations

import importlib.metadata
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import LADDER, Description, Float32, Ids, Library, Options, Search

_ROWS_AT_ONCE = 2_000
_TIMEOUT_S = 3_600
_METRICS = {"euclidean": "L2", "angular": "COSINE"}


class MilvusServer(Library):
    """A collection with an index `HNSW`."""

    description: ClassVar = Description(
        "milvus", "Milvus", "milvus",
        build={"m": 16, "ef_construction": 200},
        search={"ef": LADDER},
        source="milvus.io/docs/v2.3.x/index.md",
    )  # fmt: skip

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server: Any = None
        self._collection: Any = None
        self._metric = ""

    @classmethod
    def version(cls) -> str:
        import milvus
        import pymilvus  # noqa: F401

        return f"{milvus.__version__} by pymilvus {importlib.metadata.version('pymilvus')}"

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import milvus
        from pymilvus import Collection, CollectionSchema, DataType, FieldSchema, connections

        begun = time.perf_counter()
        self._server = milvus.MilvusServer(milvus.MilvusServerConfig(data_dir=str(self.folder / "data")))
        self._server.start()
        connections.connect(host="127.0.0.1", port=self._server.listen_port)
        fields = [
            FieldSchema("id", DataType.INT64, is_primary=True),
            FieldSchema("embedding", DataType.FLOAT_VECTOR, dim=base.shape[1]),
        ]
        self.on_phase("load")
        self._collection = Collection("items", CollectionSchema(fields))
        for start in range(0, len(base), _ROWS_AT_ONCE):
            part = np.ascontiguousarray(base[start : start + _ROWS_AT_ONCE])
            self._collection.insert([list(range(start, start + len(part))), part])
        self._collection.flush()
        self._metric = _METRICS[metric]
        self.load_s = time.perf_counter() - begun
        self.on_phase("index")
        given = {"M": options["m"], "efConstruction": options["ef_construction"]}
        parameters = {"index_type": "HNSW", "metric_type": self._metric, "params": given}
        self._collection.create_index("embedding", parameters, timeout=_TIMEOUT_S)
        self._collection.load(timeout=_TIMEOUT_S)

    def searcher(self, options: Options, k: int) -> Search:
        collection = self._collection
        parameters = {"metric_type": self._metric, "params": {"ef": max(options["ef"], k)}}

        def search(queries: Float32) -> Ids:
            ids = np.full((len(queries), k), -1, dtype=np.int64)
            for number, hits in enumerate(collection.search(list(queries), "embedding", parameters, limit=k)):
                ids[number, : len(hits.ids)] = hits.ids
            return ids

        return search

    def processes(self) -> list[int]:
        return [int(self._server.server_proc.pid)] if self._server is not None else []

    def has_died(self) -> bool:
        return self._server is not None and self._server.server_proc.poll() is not None

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
