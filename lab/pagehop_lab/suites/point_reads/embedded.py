"""A store in a process of its own, which loads rows, or reads them by key until it is ended.

It reports progress. Clients are threads if the library releases the interpreter during reads, and
processes if not.

This program runs in an environment that has the store's library and nothing of the lab. It prints
the same lines as `oltp.lua`. A row's key is its number. Its text is the same as in the servers'
tables.

    python embedded.py version STORE
    python embedded.py load STORE FOLDER OPTIONS ROWS ROW_BYTES
    python embedded.py read STORE FOLDER OPTIONS ROWS CLIENTS SEED
    python embedded.py ceiling STORE FOLDER OPTIONS ROWS CLIENTS SEED
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_SAY_S = 0.1
_BATCH = 10_000
# LMDB's file only grows to this.
_MAP_BYTES = 1 << 36
# DuckDB needs more memory for loading than it will hold later.
_LOADING_MIB = 1024


def text_of(row: int, size: int) -> str:
    """The text of a row: hexadecimal digits, twice, so that compression halves it."""
    return "".join(hashlib.md5(f"{row}.{part}".encode()).hexdigest() for part in range(size // 64)) * 2


def key_of(row: int) -> bytes:
    return row.to_bytes(8, "big")


class Lmdb:
    """A B-tree in a file that is mapped into memory; its pages are those of the machine."""

    in_threads = True

    def __init__(self, folder: str, options: dict[str, Any], clients: int, loading: bool) -> None:  # noqa: ARG002
        import lmdb

        # No other process writes, and the loaded data were flushed once.
        self._env = lmdb.open(
            folder, map_size=_MAP_BYTES, readonly=not loading, readahead=True, lock=loading, max_readers=1024,
            sync=False,
        )  # fmt: skip

    @staticmethod
    def version() -> str:
        import lmdb

        return ".".join(map(str, lmdb.version()))

    def put(self, rows: list[tuple[bytes, bytes]]) -> None:
        with self._env.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(rows, append=True)

    def done(self) -> None:
        self._env.sync(True)
        self._env.close()

    def reader(self) -> Callable[[bytes], Any]:
        return lambda key: self._get(key)

    def _get(self, key: bytes) -> Any:
        with self._env.begin() as transaction:
            return transaction.get(key)


class Rocks:
    """Sorted files of compressed blocks; each client has its share of the cache of blocks."""

    in_threads = False

    def __init__(self, folder: str, options: dict[str, Any], clients: int, loading: bool) -> None:
        import rocksdict

        made, blocks = rocksdict.Options(raw_mode=True), rocksdict.BlockBasedOptions()
        blocks.set_block_size(int(options["page_bytes"]))
        blocks.set_block_cache(rocksdict.Cache((int(options["cache_mib"]) << 20) // clients))
        blocks.set_bloom_filter(10, False)
        blocks.set_cache_index_and_filter_blocks(False)
        made.create_if_missing(loading)
        made.set_block_based_table_factory(blocks)
        made.set_compression_type(getattr(rocksdict.DBCompressionType, str(options["compression"]))())
        made.set_use_direct_reads(options["access"] == "direct")
        made.set_allow_mmap_reads(options["access"] == "mmap")
        made.set_advise_random_on_open(False)
        if loading:
            made.set_disable_auto_compactions(True)
            made.prepare_for_bulk_load()
        access = rocksdict.AccessType.read_write() if loading else rocksdict.AccessType.read_only()
        self._rocks, self._db = rocksdict, rocksdict.Rdict(folder, made, access_type=access)

    @staticmethod
    def version() -> str:
        from importlib.metadata import version

        return f"rocksdict {version('rocksdict')}"

    def put(self, rows: list[tuple[bytes, bytes]]) -> None:
        batch = self._rocks.WriteBatch(raw_mode=True)
        for key, value in rows:
            batch.put(key, value)
        self._db.write(batch)

    def done(self) -> None:
        self._db.flush()
        self._db.compact_range(None, None)
        self._db.close()

    def reader(self) -> Callable[[bytes], Any]:
        get: Callable[[bytes], Any] = self._db.get
        return get


class Sqlite:
    """A B-tree in a file; each connection has a cache of its own, or maps the file."""

    in_threads = True

    def __init__(self, folder: str, options: dict[str, Any], clients: int, loading: bool) -> None:
        import sqlite3

        self._sqlite3, self._path = sqlite3, f"{folder}/items.sqlite"
        mapped = os.path.getsize(self._path) if options["access"] == "mmap" and not loading else 0  # noqa: PTH202
        self._pragmas = (
            f"PRAGMA cache_size = -{(int(options['cache_mib']) << 10) // (1 if loading else clients)}",
            f"PRAGMA mmap_size = {mapped}",
        )
        if loading:
            self._db = self._connect()
            self._db.execute(f"PRAGMA page_size = {options['page_bytes']}")
            self._db.execute("PRAGMA journal_mode = OFF")
            self._db.execute("PRAGMA synchronous = OFF")
            self._db.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, c TEXT NOT NULL)")

    def _connect(self) -> Any:
        db = self._sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        for pragma in self._pragmas:
            db.execute(pragma)
        return db

    @staticmethod
    def version() -> str:
        import sqlite3

        return sqlite3.sqlite_version

    def put(self, rows: list[tuple[bytes, bytes]]) -> None:
        self._db.execute("BEGIN")
        made = ((int.from_bytes(key, "big"), value.decode()) for key, value in rows)
        self._db.executemany("INSERT INTO items VALUES (?, ?)", made)
        self._db.execute("COMMIT")

    def done(self) -> None:
        self._db.close()

    def reader(self) -> Callable[[bytes], Any]:
        db = self._connect()

        def get(key: bytes) -> Any:
            return db.execute("SELECT c FROM items WHERE id = ?", (int.from_bytes(key, "big"),)).fetchone()

        return get


class Duck:
    """Columns in blocks, and a tree of the keys, whose used part is held in memory.

    One cache for all.
    """

    in_threads = True

    def __init__(self, folder: str, options: dict[str, Any], clients: int, loading: bool) -> None:  # noqa: ARG002
        import duckdb

        made = {
            "memory_limit": f"{_LOADING_MIB if loading else int(options['cache_mib'])}MiB",
            "default_block_size": int(options["page_bytes"]), "temp_directory": f"{folder}/temporary",
            # Each client executes its statements itself.
            "threads": 1,
        }  # fmt: skip
        self._db = duckdb.connect(f"{folder}/items.duckdb", read_only=not loading, config=made)
        if loading:
            names = {"none": "uncompressed", "auto": "auto"}
            self._db.execute(f"SET force_compression = '{names[options['compression']]}'")
            self._db.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, c TEXT NOT NULL)")

    @staticmethod
    def version() -> str:
        import duckdb

        return str(duckdb.__version__)

    def put(self, rows: list[tuple[bytes, bytes]]) -> None:
        ids, texts = [int.from_bytes(key, "big") for key, _ in rows], [value.decode() for _, value in rows]
        self._db.execute("INSERT INTO items SELECT unnest(?::INTEGER[]), unnest(?::TEXT[])", [ids, texts])

    def done(self) -> None:
        self._db.execute("CHECKPOINT")
        self._db.close()

    def reader(self) -> Callable[[bytes], Any]:
        db = self._db.cursor()

        def get(key: bytes) -> Any:
            return db.execute("SELECT c FROM items WHERE id = ?", [int.from_bytes(key, "big")]).fetchone()

        return get


STORES: dict[str, Any] = {"lmdb": Lmdb, "rocksdb": Rocks, "sqlite": Sqlite, "duckdb": Duck}


def load(kind: Any, folder: str, options: dict[str, Any], rows: int, size: int) -> None:
    """Rows 1 to `rows`, in order."""
    store = kind(folder, options, 1, True)
    for first in range(1, rows + 1, _BATCH):
        numbers = range(first, min(first + _BATCH, rows + 1))
        store.put([(key_of(row), text_of(row, size).encode()) for row in numbers])
    store.done()


def read(
    get_reader: Callable[[], Callable[[bytes], Any]], rows: int, clients: int, seed: int, in_threads: bool
) -> None:
    """Reads until the process is ended; a missing row ends it."""
    counts = memoryview(mmap.mmap(-1, 8 * clients)).cast("q")

    def work(client: int) -> None:
        get, draw = get_reader(), random.Random(seed * 1000 + client)
        while True:
            # Not randrange, which takes as long as a read of some stores.
            row = int(draw.random() * rows) + 1
            if get(key_of(row)) is None:
                print(f"row {row} is not there", file=sys.stderr, flush=True)
                os.killpg(0, signal.SIGTERM)
            counts[client] += 1

    processes = []
    for client in range(clients):
        if in_threads:
            threading.Thread(target=work, args=(client,), daemon=True).start()
            continue
        processes.append(os.fork())
        if not processes[-1]:
            work(client)
    try:
        while True:
            time.sleep(_SAY_S)
            if processes and os.waitpid(-1, os.WNOHANG)[0]:
                sys.exit("a client ended: it was killed, or its memory did not suffice")
            for client, count in enumerate(counts):
                sys.stdout.write(f"tell {client} {time.monotonic():.6f} {count} {count}\n")
            sys.stdout.flush()
    finally:
        # This also works if no process listens any more.
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Runs the command line."""
    what, name, *rest = arguments
    kind = STORES[name]
    if what == "version":
        print(kind.version())
        return
    folder, options, rows, *more = rest
    if what == "load":
        load(kind, folder, json.loads(options), int(rows), int(more[0]))
        return
    clients, seed = map(int, more)
    if what == "ceiling":
        read(lambda: lambda key: key, int(rows), clients, seed, True)
    made = json.loads(options)
    if kind.in_threads:
        read(kind(folder, made, clients, False).reader, int(rows), clients, seed, True)
    # Each process opens the store for itself.
    read(lambda: kind(folder, made, clients, False).reader(), int(rows), clients, seed, False)


if __name__ == "__main__":
    main(sys.argv[1:])
