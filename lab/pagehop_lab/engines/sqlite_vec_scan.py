"""sqlite-vec: a table of vectors in SQLite. It has no index: every row is compared, by design."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import Description, Float32, Ids, Library, Options, Search

_METRICS = {"euclidean": "l2", "angular": "cosine"}


class SqliteVecScan(Library):
    """A `vec0` table in a file; each session has a connection."""

    description: ClassVar = Description(
        "sqlite-vec", "sqlite-vec", "sqlite_vec", {}, {}, "alexgarcia.xyz/sqlite-vec/python.html", exact=True
    )

    @classmethod
    def version(cls) -> str:
        import apsw
        import sqlite_vec

        return f"{sqlite_vec.__version__.strip('v')} in SQLite {apsw.sqlite_lib_version()}"

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        self._path = self.folder / "rows.sqlite"
        connection = self._connect()
        kind = f"float[{base.shape[1]}] distance_metric={_METRICS[metric]}"
        connection.execute(f"CREATE VIRTUAL TABLE items USING vec0(id INTEGER PRIMARY KEY, embedding {kind})")
        rows = ((number, np.ascontiguousarray(row).tobytes()) for number, row in enumerate(base))
        with connection:
            connection.cursor().executemany("INSERT INTO items (id, embedding) VALUES (?, ?)", rows)
        connection.close()

    def searcher(self, options: Options, k: int) -> Search:
        connection = self._connect()

        def search(queries: Float32) -> Ids:
            ids = np.full((len(queries), k), -1, dtype=np.int64)
            for number, query in enumerate(queries):
                asked = "SELECT id FROM items WHERE embedding MATCH ? AND k = ? ORDER BY distance"
                found = connection.execute(asked, (query.tobytes(), k)).fetchall()
                ids[number, : len(found)] = [row[0] for row in found]
            return ids

        return search

    def index_bytes(self) -> int:
        return self._path.stat().st_size

    def index_used(self) -> bool:
        return False

    def _connect(self) -> Any:
        """By apsw: many builds of Python have a SQLite that loads no extension."""
        import apsw
        import sqlite_vec

        connection = apsw.Connection(str(self._path))
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        return connection
