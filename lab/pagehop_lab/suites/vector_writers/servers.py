"""PostgreSQL with a table of vectors: loaded once, and copied for each step.

So all steps begin with the same index.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from devserver import DevServerError, postgres
from devserver.configuration import Configuration
from pagehop_lab.analysis.server_records import LoadedRecord
from pagehop_lab.data import Dataset
from pagehop_lab.engines.engine import Float32, OptionValue
from pagehop_lab.engines.postgres_server import COMPONENTS, PostgresServer, connect, copy_rows
from pagehop_lab.plan.servers import ServerSpec
from pagehop_lab.run.servers import Wrapped
from pagehop_lab.suites.vector_inserts.servers import PostgresVectorProduct
from pagehop_lab.suites.vector_writers.clients import TABLE, Place
from pagehop_lab.suites.vector_writers.vectors import Vectors

INDEX = "items_embedding"
_LOADED, _STEP = "loaded", "step"
# A checkpoint comes only where a step makes one. Parallel builds are the server's default.
_SETTINGS = {
    "max_wal_size": "64GB", "checkpoint_timeout": "1h", "maintenance_work_mem": "1GB", "autovacuum_naptime": "1s",
    "full_page_writes": "on", "wal_compression": "off",
}  # fmt: skip
# The names by which each engine knows the length of its candidate list.
_LISTS = {"pagehop-postgres": "search_list", "pgvector": "ef_search", "pgvector-halfvec": "ef_search"}
PRODUCTS = tuple(_LISTS)


@dataclass(frozen=True)
class WritersProduct:
    """One of the lab's engines in PostgreSQL 18."""

    engine: PostgresVectorProduct

    def version(self, server: ServerSpec) -> str:
        return self.engine.version(server)

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return configuration.settings(postgres.PRODUCT, self.engine.program(server).version) | _SETTINGS

    def new(self, server: ServerSpec, configuration: Configuration) -> WriterServer:
        ours = postgres.Instance(self.engine.program(server), self.settings(server, configuration))
        return WriterServer(ours, self.engine.options(server), self.engine.method())


@dataclass(frozen=True)
class Log:
    """The contents of a part of the log, in bytes."""

    bytes: int
    record_bytes: int
    image_bytes: int
    """Images of whole pages."""


@dataclass(frozen=True)
class WriterServer(Wrapped):
    """A server; `options` are those of the index and its searches."""

    options: Mapping[str, OptionValue]
    method: PostgresServer

    @property
    def type(self) -> str:
        return self.method.type

    def settle(self) -> None:
        """Does nothing: each step begins with a copy, so nothing is left to clean up."""

    def load(self, dataset: Dataset, rows: Float32) -> LoadedRecord:
        """Rows, then the index: the table that every step begins with."""
        self.ours.execute(f"DROP DATABASE IF EXISTS {_LOADED} WITH (FORCE)", f"CREATE DATABASE {_LOADED}")
        with self.connection(_LOADED) as connection:
            connection.execute(f"CREATE EXTENSION IF NOT EXISTS {self.method.extension} CASCADE")
            kind = f"{self.type}({dataset.facts.dim}) STORAGE PLAIN NOT NULL"
            connection.execute(
                f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, embedding {kind}) WITH (autovacuum_enabled = false)"
            )
            begun = time.monotonic()
            self.copy(connection, 0, rows)
            connection.execute(f"VACUUM (ANALYZE, FREEZE) {TABLE}")
            load_s = time.monotonic() - begun
            index_s = self.index(connection)
            size = connection.execute(f"SELECT pg_relation_size('{INDEX}')").fetchone()[0]
        return {"load_s": load_s, "index_s": index_s, "index_bytes": int(size), "rows": len(rows)}

    def data_bytes(self) -> int:
        """Bytes of the table that every step begins with, and of its indexes."""
        return int(self.ours.execute(f"SELECT pg_database_size('{_LOADED}')")[0][0])

    def index(self, connection: Any) -> float:
        """Creates the index, which must not exist; returns the seconds that it took."""
        begun = time.monotonic()
        using = self.method.using(f"{self.type}_l2_ops", self.options)
        connection.execute(f"CREATE INDEX {INDEX} ON {TABLE} USING {using}")
        return time.monotonic() - begun

    def copy(self, connection: Any, first: int, rows: Float32) -> None:
        """Inserts rows with ids from `first`, by one COPY."""
        copy_rows(connection, TABLE, first, rows, COMPONENTS[self.type])

    def begin_step(self) -> None:
        """A new copy of the loaded table. All of it is in its files, and a checkpoint was made."""
        self.ours.execute(
            f"DROP DATABASE IF EXISTS {_STEP} WITH (FORCE)",
            f"CREATE DATABASE {_STEP} TEMPLATE {_LOADED} STRATEGY FILE_COPY",
            "CHECKPOINT",
        )

    def end_step(self) -> None:
        """Removes the copy, and its log."""
        self.ours.execute(f"DROP DATABASE IF EXISTS {_STEP} WITH (FORCE)", "CHECKPOINT")

    def connection(self, database: str = _STEP) -> Any:
        """A connection where each statement is a transaction."""
        return connect(self.ours.dsn(database))

    def place(self, vectors: Vectors, k: int, candidates: int | None = None) -> Place:
        """The table of a step, for clients.

        Searches use the plan's options, or another candidate list.
        """
        return Place(self.ours.dsn(_STEP), self.type, vectors, self.searching(k, candidates), k)

    def searching(self, k: int, candidates: int | None = None) -> dict[str, str]:
        """Settings of a session that searches."""
        known: dict[str, OptionValue] = dict(self.options)
        if candidates is not None:
            known[_LISTS[self.method.description.name]] = candidates
            known |= {name: 0.0 for name in ("slack", "recall") if name in known}
        return dict(self.method.settings(known, k))

    def is_index_used(self, query: Float32, k: int) -> bool:
        """Whether a search of the step's table uses the index."""
        vector = "[" + ",".join(f"{value:.6g}" for value in query) + "]"
        with self.connection() as connection:
            for name, value in self.searching(k).items():
                connection.execute(f"SET {name} = '{value}'")
            asked = f"EXPLAIN SELECT id FROM {TABLE} ORDER BY embedding <-> '{vector}' LIMIT {k}"
            return INDEX in "\n".join(row[0] for row in connection.execute(asked).fetchall())

    def autovacuum(self, on: bool) -> None:
        """Turns autovacuum of the server on or off."""
        self.ours.execute(f"ALTER SYSTEM SET autovacuum = {'on' if on else 'off'}", "SELECT pg_reload_conf()")

    # ---- the log ----

    def log_end(self) -> str:
        return str(self.ours.execute("SELECT pg_current_wal_insert_lsn()")[0][0])

    def log_between(self, start: str, end: str, is_split: bool) -> Log:
        """The log between two places. With `is_split`, its parts, by PostgreSQL's own reader."""
        grown = int(self.ours.execute(f"SELECT pg_wal_lsn_diff('{end}', '{start}')")[0][0])
        if not is_split:
            return Log(grown, 0, 0)
        # All of the log must be in files before they are read.
        self.ours.execute("SELECT pg_switch_wal()")
        command = [
            self.ours.server.bin / "pg_waldump", "--stats", f"--path={self.ours.data / 'pg_wal'}", f"--start={start}",
            f"--end={end}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
        if done.returncode:
            raise DevServerError(f"pg_waldump: {done.stderr.strip()[:300]}")
        return Log(grown, *parts_of(done.stdout))


def parts_of(said: str) -> tuple[int, int]:
    """Bytes of records and of page images, from the output of pg_waldump --stats."""
    found = re.search(r"^Total\s+\d+\s+(\d+) \[[\d.]+%\]\s+(\d+) \[[\d.]+%\]\s+\d+", said, re.MULTILINE)
    if found is None:
        raise DevServerError(f"pg_waldump says no total: {said.strip()[-300:]}")
    return int(found[1]), int(found[2])
