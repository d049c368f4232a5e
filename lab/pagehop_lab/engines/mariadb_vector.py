"""MariaDB's vector index: load, then ALTER TABLE ... ADD VECTOR INDEX.

In a private server, or in a running one by its URL, which keeps its own settings. An index there
that is larger than its `mhnsw_max_cache_size` is read from its tables again and again.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import (
    Built,
    Description,
    EngineError,
    Float32,
    NotInstalled,
    Options,
    Question,
    Served,
    condition,
)  # fmt: skip

# The buffers hold the table, and the index's own cache holds the index. New threads of a connection
# run on the core of the first one.
_LOG_MIB = 2048
_SETTINGS = {"innodb_log_file_size": f"{_LOG_MIB}M", "thread_cache_size": "0"}
_SHOWN = [
    "version", "innodb_buffer_pool_size", "mhnsw_max_cache_size", "innodb_page_size", "innodb_flush_log_at_trx_commit",
    "thread_handling",
]  # fmt: skip
_ROWS_AT_ONCE = 5_000
_INSERTED_AT_ONCE = 500
_MIB = 2**20
_DISTANCES = {"euclidean": "EUCLIDEAN", "angular": "COSINE"}


class MariaDbVector(Served):
    """`VECTOR INDEX` with the modified HNSW of MariaDB."""

    description: ClassVar = Description(
        "mariadb", "MariaDB", "main",
        build={"m": 6},
        search={"ef_search": (10, 20, 30, 40, 80, 120, 200)},
        source="defaults of MariaDB; the sweep is that of published comparisons",
        takes_url=True,
    )  # fmt: skip

    def __init__(self, folder: Path, url: str | None = None) -> None:
        super().__init__(folder, url)
        self._table = f"pagehop_lab_{os.getpid()}"
        self._server: Any = None
        self._metric = ""

    @classmethod
    def version(cls, url: str | None = None) -> str:
        from devserver import DevServerError, mariadb, running

        try:
            return mariadb.install().version if url is None else str(running.of_url(url, "").version())
        except DevServerError as error:
            # A server that does not answer is a failure, and one that is not here is left out.
            raise (NotInstalled if url is None else EngineError)(str(error)) from None

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> Built:
        from devserver import DevServerError

        self._metric = metric
        try:
            self._server = self._private(base) if self.url is None else self._running(self.url)
            return self._built(base, metric, options)
        except DevServerError as error:
            raise EngineError(str(error)) from None

    def _built(self, base: Float32, metric: str, options: Options) -> Built:
        execute, table = self._server.execute, self._table
        self.on_phase("load")
        begun = time.perf_counter()
        execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v vector({base.shape[1]}) NOT NULL)")
        if self.url is None:
            self._load(base)
        else:
            self._insert(base)
        loaded = time.perf_counter()
        self.on_phase("index")
        distance = _DISTANCES[metric].lower()
        execute(f"ALTER TABLE {table} ADD VECTOR INDEX nearest (v) M={options['m']} DISTANCE={distance}")
        built = time.perf_counter()
        execute(f"ANALYZE TABLE {table}")
        index_bytes, table_bytes = (self._bytes(name) for name in (f"{table}#i#01", table))
        (said,) = execute("SELECT " + ", ".join(f"@@{name}" for name in _SHOWN))
        about = dict(zip(_SHOWN, map(str, said), strict=True))
        return Built(loaded - begun, built - loaded, index_bytes, table_bytes, about)

    def _private(self, base: Float32) -> Any:
        """A server of its own, whose buffers and whose index's cache have room for all."""
        from devserver import mariadb

        need = base.nbytes // _MIB
        self._check_disk(_LOG_MIB + 4 * need)
        settings = _SETTINGS | {
            "innodb_buffer_pool_size": f"{512 + 4 * need}M",
            "mhnsw_max_cache_size": f"{1024 + 4 * need}M",
        }
        server = mariadb.Instance(mariadb.install(), settings)
        server.start()
        return server

    def _running(self, url: str) -> Any:
        """A server that runs already, of which nothing but the lab's table changes."""
        from devserver import running

        server = running.of_url(url, self._table)
        if not isinstance(server, running.Mysql):
            raise EngineError(f"{server.shown}: this engine takes a URL that begins with mysql://")
        server.start()
        return server

    def question(self, options: Options, k: int, matching: float = 1.0) -> Question:
        where = f"WHERE {condition(matching)} " if matching < 1 else ""
        return Question(
            "mysql",
            self.url or self._server.url(),
            f"SELECT id FROM {self._table} {where}ORDER BY VEC_DISTANCE_{_DISTANCES[self._metric]}(v, ?) LIMIT {k}",
            f"SELECT id FROM {self._table} ORDER BY id LIMIT {k}",
            {"mhnsw_ef_search": str(options["ef_search"])},
            "nearest",
            local=self.url is None,
        )

    def pid(self) -> int | None:
        return int(self._server.pid) if self._server is not None and self.url is None else None

    def has_died(self) -> bool:
        return self._server is not None and not self._server.running

    def close(self) -> None:
        if self._server is not None:
            self._server.remove()

    def _check_disk(self, needed_mib: int) -> None:
        """If the disk is too small, the server's message is only a number among many lines."""
        free_mib = shutil.disk_usage(self.folder).free // _MIB
        if free_mib < needed_mib:
            raise EngineError(f"its log, rows and index need {needed_mib:,} MiB in TMPDIR, where {free_mib:,} are free")

    def _load(self, base: Float32) -> None:
        """Loads the rows from files of hexadecimal digits: LOAD DATA cannot read plain bytes."""
        from devserver.processes import server_owner

        path = self._server.folder / "rows"
        for first in range(0, len(base), _ROWS_AT_ONCE):
            part = np.ascontiguousarray(base[first : first + _ROWS_AT_ONCE], dtype="<f4")
            path.write_text("".join(f"{first + number}\t{row.tobytes().hex()}\n" for number, row in enumerate(part)))
            server_owner().own(path)
            self._server.execute(
                f"LOAD DATA INFILE '{path}' INTO TABLE {self._table} (id, @digits) SET v = UNHEX(@digits)"
            )
        path.unlink()

    def _insert(self, base: Float32) -> None:
        """Loads the rows by INSERT, since a running server may read no files of ours."""
        for first in range(0, len(base), _INSERTED_AT_ONCE):
            part = np.ascontiguousarray(base[first : first + _INSERTED_AT_ONCE], dtype="<f4")
            values = ", ".join(f"({first + number}, x'{row.tobytes().hex()}')" for number, row in enumerate(part))
            self._server.execute(f"INSERT INTO {self._table} VALUES {values}")

    def _bytes(self, name: str) -> int:
        sizes = "SELECT file_size FROM information_schema.innodb_sys_tablespaces WHERE name = "
        found = self._server.execute(f"{sizes}concat(database(), '/{name}')")
        if not found:
            raise EngineError(f"the server has no tablespace {name}")
        return int(found[0][0])
