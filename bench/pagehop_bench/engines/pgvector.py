"""pgvector's HNSW index on a table of ids and vectors, m = 16, ef_construction = 64 (its defaults).

Rows go in through one connection, a transaction for each batch, by binary COPY or by one prepared
INSERT of many rows; nothing is written as text, and the client spends next to nothing.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pagehop_bench.engines import Float32, Int64

M = 16
EF_CONSTRUCTION = 64

Way = Literal["copy", "insert"]
WAYS: tuple[Way, ...] = ("copy", "insert")

COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"

_INT8_OID = 20
_COPIED_AT_ONCE = 1000


class PgVector:
    """The table and its index, in the database that `connection` is connected to."""

    name = f"pgvector HNSW m={M} ef_construction={EF_CONSTRUCTION}"

    def __init__(self, connection: Any, dim: int) -> None:
        self._connection = connection
        self._dim = dim
        self._prepared: set[int] = set()
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        self._vector_oid = int(self._one("SELECT 'vector'::regtype::oid"))

    def build(self, base: Float32) -> None:
        """A new table with all of `base`, ids from 0, and the index over it; ends with a checkpoint."""
        self._connection.execute("DROP TABLE IF EXISTS items")
        self._connection.execute(f"CREATE TABLE items (id bigint, embedding vector({self._dim}))")
        for start in range(0, len(base), _COPIED_AT_ONCE):
            stop = min(len(base), start + _COPIED_AT_ONCE)
            self.add(np.arange(start, stop), np.asarray(base[start:stop]), "copy")
        self._connection.execute(
            "CREATE INDEX items_embedding ON items USING hnsw (embedding vector_l2_ops) "
            f"WITH (m = {M}, ef_construction = {EF_CONSTRUCTION})"
        )
        self.checkpoint()

    def add(self, ids: Int64, vectors: Float32, way: Way) -> None:
        """Adds a batch in one transaction; it is durable on return."""
        if way == "copy":
            with self._connection.cursor() as cursor, cursor.copy("COPY items FROM STDIN (FORMAT binary)") as copy:
                copy.write(COPY_HEAD + copy_rows(ids, vectors) + COPY_END)
        else:
            self._insert(ids, vectors)

    def search(self, queries: Float32, k: int, effort: int) -> Int64:
        """The ids found for each query with `hnsw.ef_search` at `effort`; -1 where fewer than `k` were."""
        self._connection.execute(f"SET hnsw.ef_search = {effort}")
        ids = np.full((len(queries), k), -1, dtype=np.int64)
        for number, query in enumerate(queries):
            asked = "SELECT id FROM items ORDER BY embedding <-> %s::vector LIMIT %s"
            found = self._connection.execute(asked, (str(query.tolist()), k)).fetchall()
            ids[number, : len(found)] = [row[0] for row in found]
        return ids

    def index_ids(self) -> None:
        """An index over the ids, so that a delete finds its rows without a scan."""
        self._connection.execute("CREATE UNIQUE INDEX items_id ON items (id)")
        self._connection.execute("ANALYZE items")

    def delete(self, ids: Int64) -> None:
        """Deletes a batch in one transaction; a scan of the table finds the rows unless ids are indexed."""
        self._connection.execute("DELETE FROM items WHERE id = ANY (%s)", (ids.tolist(),))

    def vacuum(self) -> None:
        """Takes deleted rows out of the table and the index."""
        self._connection.execute("VACUUM items")

    def checkpoint(self) -> None:
        """Writes every changed page to its file."""
        self._connection.execute("CHECKPOINT")

    def wal_bytes(self) -> int:
        """Bytes of write-ahead log so far."""
        return int(self._one("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))

    def sizes(self) -> dict[str, int]:
        """Bytes of the index, and of the table with its long values."""
        return {
            "index_bytes": int(self._one("SELECT pg_relation_size('items_embedding')")),
            "table_bytes": int(self._one("SELECT pg_table_size('items')")),
        }

    def must_have(self, rows: int) -> None:
        """Fails unless the table has the ids from 0 to `rows`, each once."""
        counted = self._connection.execute(
            "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM items"
        ).fetchone()
        if counted != (rows, rows, 0, rows - 1):
            raise RuntimeError(f"ids 0 to {rows} should be in the table; count, distinct, min, max are {counted}")

    def version(self) -> str:
        """The version of the extension."""
        return str(self._one("SELECT extversion FROM pg_extension WHERE extname = 'vector'"))

    def _insert(self, ids: Int64, vectors: Float32) -> None:
        plain, count = self._connection.pgconn, len(ids)
        name = f"insert{count}".encode()
        if count not in self._prepared:
            values = ", ".join(f"(${2 * row + 1}, ${2 * row + 2})" for row in range(count))
            _expect(plain.prepare(name, f"INSERT INTO items VALUES {values}".encode(), self._types(count)))
            self._prepared.add(count)
        written, size = copy_rows(ids, vectors), _row_type(self._dim).itemsize
        parameters = []
        for start in range(0, len(written), size):
            # The values are the same bytes in both formats, and lie behind their lengths.
            parameters += [written[start + 6 : start + 14], written[start + 18 : start + size]]
        _expect(plain.exec_prepared(name, parameters, [1] * len(parameters)))

    def _types(self, count: int) -> list[int]:
        return [_INT8_OID, self._vector_oid] * count

    def _one(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]


def copy_rows(ids: Int64, vectors: Float32, component: str = ">f4") -> bytes:
    """Rows in the binary format of COPY, without head and end; `>f2` for components of a halfvec."""
    dim = vectors.shape[1]
    rows = np.zeros(len(ids), dtype=_row_type(dim, component))
    rows["fields"], rows["id_bytes"], rows["id"] = 2, 8, ids
    rows["vector_bytes"] = rows.dtype["vector"].itemsize
    rows["vector"]["dim"] = dim
    rows["vector"]["values"] = vectors
    return rows.tobytes()


def _row_type(dim: int, component: str = ">f4") -> np.dtype[np.void]:
    vector = [("dim", ">i2"), ("unused", ">i2"), ("values", component, (dim,))]
    return np.dtype(
        [("fields", ">i2"), ("id_bytes", ">i4"), ("id", ">i8"), ("vector_bytes", ">i4"), ("vector", vector)]
    )


def _expect(result: Any) -> None:
    """A plain libpq result must be one of success."""
    # PGRES_COMMAND_OK
    if result.status != 1:
        raise RuntimeError(result.error_message.decode(errors="replace").strip())
