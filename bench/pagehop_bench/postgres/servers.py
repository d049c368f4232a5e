"""The servers of the measurements: made, started and removed here, each with the extension and pgvector in it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg

from devserver import Cluster, Server, Setting
from devserver.processes import run
from pagehop_bench import machine
from pagehop_bench.engines.postgres import Usage, usage_of
from pagehop_bench.postgres.tables import Connection, one

# Durable as Postgres is by default. Nothing begins by itself while something is measured.
SETTINGS: dict[str, Setting] = {
    "max_wal_size": "64GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
    "track_io_timing": "off",
}
_SHOWN = [
    *SETTINGS, "server_version", "maintenance_work_mem", "shared_buffers", "effective_io_concurrency", "io_method",
    "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "huge_pages_status",
    "max_parallel_workers", "jit",
]  # fmt: skip
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_MIB = 2**20


@dataclass
class Running:
    """A server that runs, and a connection to it where each statement is a transaction."""

    cluster: Cluster
    connection: Connection

    def usage(self) -> Usage:
        """CPU and bytes written of all its processes so far."""
        return usage_of(self.cluster.pid)

    def about(self) -> dict[str, str]:
        """The settings that decide, as the server says them, and what is installed in it."""
        shown = {name: str(one(self.connection, f"SELECT current_setting('{name}', true)")) for name in _SHOWN}
        rows = self.connection.execute("SELECT extname, extversion FROM pg_extension").fetchall()
        return shown | {str(name): str(version) for name, version in rows}

    def wal_position(self) -> str:
        """Where the write-ahead log ends."""
        return str(one(self.connection, "SELECT pg_current_wal_insert_lsn()"))


@contextmanager
def running(server: Server, **settings: Setting) -> Iterator[Running]:
    """A new server, removed afterwards."""
    with Cluster(server, {**SETTINGS, **settings}) as cluster:
        cluster.psql("CREATE EXTENSION pagehop CASCADE")
        with connected(cluster) as connection:
            connection.add_notice_handler(_say_notice)
            yield Running(cluster, connection)


@contextmanager
def connected(cluster: Cluster) -> Iterator[Connection]:
    """A connection where each statement is a transaction."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        yield connection


class HasProcess(Protocol):
    """A server of any kind: its first thread makes what works for a connection."""

    @property
    def pid(self) -> int: ...


@contextmanager
def on_one_core(server: HasProcess) -> Iterator[None]:
    """Keeps this thread, what it starts, and new connections of the server on one core: neither wakes another."""
    before = os.sched_getaffinity(server.pid)
    with machine.pinned():
        os.sched_setaffinity(server.pid, os.sched_getaffinity(0))
        try:
            yield
        finally:
            os.sched_setaffinity(server.pid, before)


def memory_for(vectors: Any) -> dict[str, Setting]:
    """Memory that holds the tables and indexes of all sides over these vectors, and any build of one.

    Not much more for builds: pgvector's parallel one clears all that it may use, a second for each 4 GB here.
    """
    return {
        "shared_buffers": f"{512 + 11 * vectors.nbytes // _MIB}MB",
        "maintenance_work_mem": f"{512 + 2 * vectors.nbytes // _MIB}MB",
    }


def forget_files() -> str | None:
    """Makes the kernel forget what it holds of files; None, or why that cannot be."""
    os.sync()
    try:
        _DROP_CACHES.write_text("3")
    except OSError as error:
        return f"the kernel's caches cannot be dropped ({error.strerror}): be root"
    return None


def _say_notice(notice: psycopg.errors.Diagnostic) -> None:
    """Shows what pgvector says where a build has too little memory."""
    said = notice.message_primary or ""
    if not said.endswith("skipping"):
        print(f"  the server says: {said}", file=sys.stderr, flush=True)


def has_io_uring(server: Server) -> bool:
    """Whether the server was compiled with it."""
    return "--with-liburing" in run([server.pg_config, "--configure"])


def fingerprint(server: Server) -> str:
    """Tells one compiled extension from another."""
    return hashlib.sha256((server.library_folder / "pagehop.so").read_bytes()).hexdigest()[:16]
