"""All engines, by the names that plans use."""

from __future__ import annotations

from pagehop_lab.engines.diskann_disk import DiskannDisk
from pagehop_lab.engines.diskann_memory import DiskannMemory
from pagehop_lab.engines.engine import Library, Served
from pagehop_lab.engines.faiss_hnsw import FaissHnsw
from pagehop_lab.engines.faiss_ivfpq import FaissIvfPq
from pagehop_lab.engines.faiss_ivfpq_disk import FaissIvfPqDisk
from pagehop_lab.engines.faiss_sq8 import FaissSq8
from pagehop_lab.engines.hnswlib_hnsw import HnswlibHnsw
from pagehop_lab.engines.lancedb_index import LanceDb, LanceDbIvfPq
from pagehop_lab.engines.mariadb_vector import MariaDbVector
from pagehop_lab.engines.milvus_server import MilvusServer
from pagehop_lab.engines.numpy_scan import NumpyScan
from pagehop_lab.engines.pagehop_file import PagehopFile
from pagehop_lab.engines.pagehop_postgres import PagehopPostgres
from pagehop_lab.engines.pgvector_halfvec import PgvectorHalfvec
from pagehop_lab.engines.pgvector_vector import PgvectorVector
from pagehop_lab.engines.postgres_any import PostgresAny
from pagehop_lab.engines.scann_tree import ScannTree
from pagehop_lab.engines.sqlite_vec_scan import SqliteVecScan
from pagehop_lab.engines.svs_vamana import SvsVamana
from pagehop_lab.engines.symphonyqg import SymphonyQg
from pagehop_lab.engines.usearch_hnsw import UsearchHnsw

ENGINES: tuple[type[Library | Served], ...] = (
    PagehopFile, PagehopPostgres, PgvectorVector, PgvectorHalfvec, PostgresAny, MariaDbVector,
    FaissHnsw, FaissIvfPq, FaissIvfPqDisk, FaissSq8, HnswlibHnsw, UsearchHnsw, SvsVamana, SymphonyQg, DiskannMemory,
    DiskannDisk, ScannTree, LanceDb, LanceDbIvfPq, MilvusServer, SqliteVecScan, NumpyScan,
)  # fmt: skip

CATALOG: dict[str, type[Library | Served]] = {engine.description.name: engine for engine in ENGINES}
NAMES = CATALOG.keys()
