"""MariaDB's vector index, in a private server: load, then ALTER TABLE ... ADD VECTOR INDEX."""

from __future__ import annotations

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
_MIB = 2**20
_DISTANCES = {"euclidean": "EUCLIDEAN", "angular": "COSINE"}


class MariaDbVector(Served):
    """`VECTOR INDEX` with the modified HNSW of MariaDB."""

    description: ClassVar = Description(
        "mariadb", "MariaDB", "main",
        build={"m": 6},
        search={"ef_search": (10, 20, 30, 40, 80, 120, 200)},
        source="defaults of MariaDB; the sweep is that of published comparisons",
    )  # fmt: skip

    def __init__(self, folder: Path, url: str | None = None) -> None:
        super().__init__(folder, url)
        self._instance: Any = None
        self._metric = ""

    @classmethod
    def version(cls, url: str | None = None) -> str:
        from devserver import DevServerError, mariadb

        try:
            return mariadb.install().version
        except DevServerError as error:
            raise NotInstalled(str(error)) from None

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> Built:
        from devserver import mariadb

        self._metric = metric
        need = base.nbytes // _MIB
        self._check_disk(_LOG_MIB + 4 * need)
        settings = _SETTINGS | {
            "innodb_buffer_pool_size": f"{512 + 4 * need}M",
            "mhnsw_max_cache_size": f"{1024 + 4 * need}M",
        }
        self._instance = mariadb.Instance(mariadb.install(), settings)
        self._instance.start()
        sql = self._instance.sql
        self.on_phase("load")
        begun = time.perf_counter()
        sql(f"CREATE TABLE items (id int PRIMARY KEY, v vector({base.shape[1]}) NOT NULL)")
        self._load(base)
        loaded = time.perf_counter()
        self.on_phase("index")
        distance = _DISTANCES[metric].lower()
        sql(f"ALTER TABLE items ADD VECTOR INDEX nearest (v) M={options['m']} DISTANCE={distance}")
        built = time.perf_counter()
        sql("ANALYZE TABLE items")
        index_bytes, table_bytes = (self._bytes(name) for name in ("items#i#01", "items"))
        said = sql("SELECT " + ", ".join(f"@@{name}" for name in _SHOWN)).split("\t")
        about = dict(zip(_SHOWN, said, strict=True))
        return Built(loaded - begun, built - loaded, index_bytes, table_bytes, about)

    def question(self, options: Options, k: int, matching: float = 1.0) -> Question:
        where = f"WHERE {condition(matching)} " if matching < 1 else ""
        return Question(
            "mysql",
            self._instance.url(),
            f"SELECT id FROM items {where}ORDER BY VEC_DISTANCE_{_DISTANCES[self._metric]}(v, ?) LIMIT {k}",
            f"SELECT id FROM items ORDER BY id LIMIT {k}",
            {"mhnsw_ef_search": str(options["ef_search"])},
            "nearest",
        )

    def pid(self) -> int | None:
        return int(self._instance.pid) if self._instance is not None else None

    def has_died(self) -> bool:
        return self._instance is not None and not self._instance.running

    def close(self) -> None:
        if self._instance is not None:
            self._instance.remove()

    def _check_disk(self, needed_mib: int) -> None:
        """If the disk is too small, the server's message is only a number among many lines."""
        free_mib = shutil.disk_usage(self.folder).free // _MIB
        if free_mib < needed_mib:
            raise EngineError(f"its log, rows and index need {needed_mib:,} MiB in TMPDIR, where {free_mib:,} are free")

    def _load(self, base: Float32) -> None:
        """Loads the rows from files of hexadecimal digits: LOAD DATA cannot read plain bytes."""
        from devserver.processes import server_owner

        path = self._instance.folder / "rows"
        for first in range(0, len(base), _ROWS_AT_ONCE):
            part = np.ascontiguousarray(base[first : first + _ROWS_AT_ONCE], dtype="<f4")
            path.write_text("".join(f"{first + number}\t{row.tobytes().hex()}\n" for number, row in enumerate(part)))
            server_owner().own(path)
            self._instance.sql(f"LOAD DATA INFILE '{path}' INTO TABLE items (id, @digits) SET v = UNHEX(@digits)")
        path.unlink()

    def _bytes(self, name: str) -> int:
        said = self._instance.sql(
            f"SELECT file_size FROM information_schema.innodb_sys_tablespaces WHERE name = 'lab/{name}'"
        )
        if not said:
            raise EngineError(f"the server has no tablespace {name}")
        return int(said)
