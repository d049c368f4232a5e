"""A table with an index in PostgreSQL: in a private server, or in a running one by its URL.

Every engine in PostgreSQL is this with another access method. Vectors stay in their rows (STORAGE
PLAIN), unless the build option `storage` says otherwise: "external" is pgvector's own, by which a
row of more than 2 kB has its vector in TOAST. Rows are loaded by binary COPY, then the index is
created. Build seconds are those of CREATE INDEX alone. Shared buffers hold table and index, unless
`shared_buffers_mib` says how many there are; then the kernel's cache holds the rest.
"""

from __future__ import annotations

import os
import re
import time
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import (
    FILTER_PARTS,
    Built,
    EngineError,
    Float32,
    Inserter,
    NotInstalled,
    Options,
    OptionValue,
    Question,
    Served,
    condition,
)  # fmt: skip
from pagehop_lab.engines.history import EXTENSION, at_commit
from pagehop_lab.machine.place import forget_files

# Durable as it is by default. Nothing begins by itself while something is measured.
_SETTINGS = {"max_wal_size": "64GB", "checkpoint_timeout": "1h", "autovacuum": "off", "track_io_timing": "off"}
_COPY_HEAD, _COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_COPIED_AT_ONCE = 1000
_MIB = 2**20
COMPONENTS = {"vector": ">f4", "halfvec": ">f2"}
_DIM_MAX = {"vector": 2000, "halfvec": 4000}
STORAGES = ("plain", "external", "extended", "main")
_OPERATORS = {"euclidean": "<->", "angular": "<=>"}
_CLASSES = {"euclidean": "l2_ops", "angular": "cosine_ops"}
_SHOWN = (
    "server_version", "shared_buffers", "maintenance_work_mem", "max_parallel_maintenance_workers", "fsync",
    "synchronous_commit", "io_method", "jit", "huge_pages_status",
)  # fmt: skip


# Options of all these engines: with -1 and empty values the server's settings stay, and no distance
# is requested.
BUILD = {"io_method": ""}
MORE_BUILD: dict[str, OptionValue] = {"shared_buffers_mib": 64, "storage": "external"}
SEARCH: dict[str, tuple[OptionValue, ...]] = {"effective_io_concurrency": (-1,), "within": (-1.0,)}


class PostgresServer(Served):
    """Common parts of the engines in PostgreSQL."""

    extension: ClassVar[str]
    type: ClassVar[str] = "vector"

    def __init__(self, folder: Path, url: str | None = None) -> None:
        super().__init__(folder, url)
        self._table = f"pagehop_lab_{os.getpid()}"
        self._index = f"{self._table}_embedding"
        self._cluster: Any = None
        self._connection: Any = None
        self._metric = ""

    @abstractmethod
    def using(self, operators: str, options: Options) -> str:
        """The access method, the column and the options, in the form of CREATE INDEX ... USING."""

    @abstractmethod
    def settings(self, options: Options, k: int) -> Mapping[str, str]:
        """Settings of a session that searches."""

    def settings_filtered(self) -> Mapping[str, str]:
        """Further settings of a session that filters."""
        return {}

    @classmethod
    def version(cls, url: str | None = None) -> str:
        if url is not None:
            with connect(url) as connection:
                found = connection.execute(
                    "SELECT default_version FROM pg_available_extensions WHERE name = %s", (cls.extension,)
                ).fetchone()
                if found is None:
                    raise NotInstalled(f"the server has no extension {cls.extension}")
                server = connection.execute("SHOW server_version").fetchone()[0].split()[0]
                return f"{cls.extension} {found[0]} in PostgreSQL {server}"
        server = _install()
        if cls.extension == "pagehop":
            _install_ours(server)
        control = (server.extension_folder / f"{cls.extension}.control").read_text()
        found = re.search(r"default_version\s*=\s*'([^']+)'", control)
        version = found[1] if found else "?"
        if cls.extension == "pagehop":
            version = at_commit(version, *EXTENSION)
        return f"{cls.extension} {version} in PostgreSQL {server.version}"

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> Built:
        if base.shape[1] > _DIM_MAX[self.type]:
            raise EngineError(f"an index over {self.type} has at most {_DIM_MAX[self.type]} dimensions")
        storage = str(options.get("storage", "plain"))
        if storage not in STORAGES:
            raise EngineError(f"storage = {storage!r}: there are {', '.join(STORAGES)}")
        self._metric = metric
        self._open(base, options)
        connection = self._connection
        connection.execute(f"CREATE EXTENSION IF NOT EXISTS {self.extension} CASCADE")
        self.on_phase("load")
        begun = time.perf_counter()
        connection.execute(
            f"CREATE TABLE {self._table} (id integer PRIMARY KEY, "
            f"embedding {self.type}({base.shape[1]}) STORAGE {storage} NOT NULL)"
        )
        copy_rows(connection, self._table, 0, base, COMPONENTS[self.type])
        connection.execute(f"VACUUM (ANALYZE, FREEZE) {self._table}")
        loaded = time.perf_counter()
        # The process that creates the index works, too.
        connection.execute(f"SET max_parallel_maintenance_workers = {threads - 1}")
        with suppress(Exception):
            connection.execute("CHECKPOINT")
        self.on_phase("index")
        started = time.perf_counter()
        using = self.using(f"{self.type}_{_CLASSES[metric]}", options)
        connection.execute(f"CREATE INDEX {self._index} ON {self._table} USING {using}")
        built = time.perf_counter()
        sizes = [f"pg_relation_size('{self._index}')", f"pg_table_size('{self._table}')"]
        index_bytes, table_bytes = (int(self._one(f"SELECT {size}")) for size in sizes)
        about = {name: str(self._one(f"SELECT current_setting('{name}', true)")) for name in _SHOWN}
        return Built(loaded - begun, built - started, index_bytes, table_bytes, about)

    def question(self, options: Options, k: int, matching: float = 1.0) -> Question:
        distance, within = f"embedding {_OPERATORS[self._metric]} $1", options["within"]
        conditions = [f"{distance} < {within:g}"] if within >= 0 else []
        more: Mapping[str, str] = {}
        if matching < 1:
            self._describe_filter()
            conditions.append(condition(matching))
            more = self.settings_filtered()
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        return Question(
            "postgres",
            self._loadgen_url(),
            f"SELECT id FROM {self._table} {where}ORDER BY {distance} LIMIT {k}",
            f"SELECT id FROM {self._table} ORDER BY id LIMIT {k}",
            {**self.settings(options, k), **_read_ahead(options), **more},
            self._index,
            self.type,
            local=self.url is None,
        )

    def cool(self) -> None:
        if self._cluster is None:
            raise EngineError("its caches cannot be emptied: it is not the lab's server")
        # The kernel's file cache keeps half of the limit, and the server's processes a quarter.
        buffers = f"SET shared_buffers = '{self.memory_mib // 4}MB'" if self.memory_mib else "RESET shared_buffers"
        self._connection.execute(f"ALTER SYSTEM {buffers}")
        self._connection.close()
        self._cluster.stop()
        if refused := forget_files():
            raise EngineError(refused)
        self._cluster.start()
        self._connection = connect(self._cluster.dsn())

    def pid(self) -> int | None:
        return int(self._cluster.pid) if self._cluster is not None else None

    def has_died(self) -> bool:
        return self._cluster is not None and not self._cluster.running

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.execute(f"DROP TABLE IF EXISTS {self._table}")
            self._connection.close()
        if self._cluster is not None:
            self._cluster.remove()

    def inserter(self) -> Inserter:
        return _Inserter(connect(self.url or self._cluster.dsn()), self._table, COMPONENTS[self.type])

    # ---- steps ----

    def _open(self, base: Float32, options: Options) -> None:
        if self.url is not None:
            if "shared_buffers_mib" in options:
                raise EngineError("shared_buffers_mib: a server that runs already has its own shared buffers")
            self._connection = connect(self.url)
            return
        from devserver import Cluster

        more = {"io_method": options["io_method"]} if options["io_method"] else {}
        if "shared_buffers_mib" in options:
            more["shared_buffers"] = f"{options['shared_buffers_mib']}MB"
        self._cluster = Cluster(_install(), {**_SETTINGS, **_memory_for(base), **more})
        self._cluster.start()
        self._connection = connect(self._cluster.dsn())

    def _describe_filter(self) -> None:
        """Gives the planner the share of rows that meet a filter, as it has it for a column."""
        name = f"{self._table}_filter"
        if self._one(f"SELECT count(*) FROM pg_statistic_ext WHERE stxname = '{name}'") == 0:
            self._connection.execute(f"CREATE STATISTICS {name} ON (id % {FILTER_PARTS}) FROM {self._table}")
            self._connection.execute(f"ANALYZE {self._table}")

    def _one(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]

    def _loadgen_url(self) -> str:
        if self._cluster is None:
            return re.sub(r"^postgresql:", "postgres:", str(self.url))
        return f"postgres://postgres@/postgres?host={self._cluster.folder}&port={self._cluster.port}"


def _memory_for(base: Float32) -> dict[str, str]:
    """Memory that holds table and index over these rows, and any build of one.

    Builds do not get much more: pgvector's parallel build clears all memory that it may use, a
    second for each 4 GB here.
    """
    return {
        "shared_buffers": f"{512 + 11 * base.nbytes // _MIB}MB",
        "maintenance_work_mem": f"{512 + 2 * base.nbytes // _MIB}MB",
    }


def _read_ahead(options: Options) -> dict[str, str]:
    """The number of concurrent reads, if a plan sets it."""
    depth = options["effective_io_concurrency"]
    return {} if depth < 0 else {"effective_io_concurrency": str(depth)}


class _Inserter(Inserter):
    """COPY on a connection of its own."""

    def __init__(self, connection: Any, table: str, component: str) -> None:
        self._connection, self._table, self._component = connection, table, component

    def insert(self, first: int, rows: Float32) -> None:
        copy_rows(self._connection, self._table, first, rows, self._component)

    def close(self, first: int) -> None:
        self._connection.execute(f"DELETE FROM {self._table} WHERE id >= {first}")
        self._connection.execute(f"VACUUM {self._table}")
        self._connection.close()


def copy_rows(connection: Any, table: str, first: int, rows: Float32, component: str = ">f4") -> None:
    """Loads rows with ids from `first` in one transaction.

    `component` is a number's form on the wire.
    """
    into = f"COPY {table} (id, embedding) FROM STDIN (FORMAT binary)"
    with connection.cursor() as cursor, cursor.copy(into) as copying:
        copying.write(_COPY_HEAD)
        for start in range(0, len(rows), _COPIED_AT_ONCE):
            copying.write(_rows_in_binary(first + start, np.asarray(rows[start : start + _COPIED_AT_ONCE]), component))
        copying.write(_COPY_END)


def _rows_in_binary(first: int, vectors: Float32, component: str) -> bytes:
    """Rows with ids from `first`, integers of four bytes, in the binary format of COPY."""
    dim = vectors.shape[1]
    vector = [("dim", ">i2"), ("unused", ">i2"), ("values", component, (dim,))]
    kind = [("fields", ">i2"), ("id_bytes", ">i4"), ("id", ">i4"), ("vector_bytes", ">i4"), ("vector", vector)]
    rows = np.zeros(len(vectors), dtype=np.dtype(kind))
    rows["fields"], rows["id_bytes"], rows["id"] = 2, 4, np.arange(first, first + len(vectors))
    rows["vector_bytes"] = rows.dtype["vector"].itemsize
    rows["vector"]["dim"] = dim
    rows["vector"]["values"] = vectors
    return rows.tobytes()


def connect(where: str) -> Any:
    """A connection where each statement is a transaction."""
    import psycopg

    try:
        return psycopg.connect(where, autocommit=True)
    except psycopg.Error as error:
        raise NotInstalled(f"cannot connect: {str(error).strip()}") from None


def _install() -> Any:
    from devserver import DEFAULT, DevServerError, install

    try:
        return install(os.environ.get("PAGEHOP_LAB_POSTGRES", DEFAULT))
    except DevServerError as error:
        raise NotInstalled(str(error)) from None


def _install_ours(server: Any) -> None:
    from devserver import DevServerError, install_extension

    try:
        install_extension(server)
    except DevServerError as error:
        raise NotInstalled(str(error)) from None
