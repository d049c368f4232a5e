"""Tables of vectors, for clients that insert rows in batches and query the nearest ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pagehop_lab.engines.postgres_server import copy_rows
from pagehop_lab.measure.wires import BYTES, WHOLE, MysqlPrepared, MysqlWire, PostgresWire, Where

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class VectorRows:
    """The place of the table, and of its rows and queries."""

    where: Where
    table: str
    base: Path
    """A .npy of rows; row `id` is the one at `id` modulo their number."""
    queries: Path
    settings: Mapping[str, str]
    """Of a session that searches."""
    k: int

    @property
    def kept(self) -> int:
        """Number of ids that are kept of an answer; -1 fills missing ones."""
        return self.k

    def open(self) -> PostgresVectors | MysqlVectors:
        return MysqlVectors(self) if self.where.is_mysql else PostgresVectors(self)


class PostgresVectors:
    """A client's connection to PostgreSQL: rows come by COPY."""

    def __init__(self, rows: VectorRows) -> None:
        self._rows = rows
        self._base = np.load(rows.base, mmap_mode="r")
        self._wire = PostgresWire(rows.where.dsn)

    def insert(self, first: int, count: int) -> None:
        copy_rows(self._wire.connection, self._rows.table, first, _batch(self._base, first, count))

    def delete(self, first: int, count: int) -> None:
        self._wire.execute(_delete(self._rows.table, first, count))

    @cached_property
    def _parameters(self) -> list[bytes]:
        """The queries; the first use makes this a session that searches."""
        self._wire.set(self._rows.settings)
        statement = f"SELECT id FROM {self._rows.table} ORDER BY embedding <-> $1 LIMIT {self._rows.k}"
        self._wire.prepare(b"nearest", statement)
        return [_binary(query) for query in np.load(self._rows.queries)]

    def ask(self, number: int, _low: int, _high: int) -> list[int]:
        parameter = self._parameters[number % len(self._parameters)]
        result = self._wire.execute_prepared(b"nearest", [parameter])
        found = [int.from_bytes(result.get_value(row, 0), "big") for row in range(result.ntuples)]
        return found + [-1] * (self._rows.k - len(found))


class MysqlVectors:
    """A client's connection to MariaDB: one prepared INSERT for many rows, vectors as bytes."""

    def __init__(self, rows: VectorRows) -> None:
        self._rows = rows
        self._base = np.load(rows.base, mmap_mode="r")
        self._wire = MysqlWire(dict(rows.where.mysql))
        self._inserts: dict[int, MysqlPrepared] = {}

    def insert(self, first: int, count: int) -> None:
        statement = self._inserts.get(count)
        if statement is None:
            text = f"INSERT INTO {self._rows.table} (id, embedding) VALUES {', '.join(['(?, ?)'] * count)}"
            statement = self._inserts[count] = self._wire.prepared(text, [WHOLE, BYTES] * count)
        statement.rows(_values(first, _batch(self._base, first, count)))

    def delete(self, first: int, count: int) -> None:
        self._wire.execute(_delete(self._rows.table, first, count))

    @cached_property
    def _asking(self) -> tuple[MysqlPrepared, list[bytes]]:
        """The statement and its parameters.

        The first use also sets this session up for searches.
        """
        for name, value in self._rows.settings.items():
            self._wire.execute(f"SET SESSION {name} = {value}".encode())
        distance = "VEC_DISTANCE_EUCLIDEAN(embedding, ?)"
        text = f"SELECT id FROM {self._rows.table} ORDER BY {distance} LIMIT {self._rows.k}"
        queries = np.load(self._rows.queries).astype("<f4")
        return self._wire.prepared(text, [BYTES]), [_length(query.nbytes) + query.tobytes() for query in queries]

    def ask(self, number: int, _low: int, _high: int) -> list[int]:
        statement, parameters = self._asking
        # Two bytes of a row show that nothing is null.
        found = [int.from_bytes(row[2:], "little") for row in statement.rows(parameters[number % len(parameters)])]
        return found + [-1] * (self._rows.k - len(found))


def _batch(base: Float32, first: int, count: int) -> Float32:
    return np.asarray(base[np.arange(first, first + count) % len(base)], dtype=np.float32)


def _delete(table: str, first: int, count: int) -> bytes:
    return f"DELETE FROM {table} WHERE id >= {first} AND id < {first + count}".encode()


def _binary(query: Float32) -> bytes:
    """A parameter in the binary format of `vector`."""
    return len(query).to_bytes(2, "big") + bytes(2) + query.astype(">f4").tobytes()


def _values(first: int, vectors: Float32) -> bytes:
    """Ids from `first` and vectors, as parameters of MySQL's protocol."""
    length = _length(4 * vectors.shape[1])
    kind = [("id", "<i8"), ("length", f"V{len(length)}"), ("vector", "<f4", (vectors.shape[1],))]
    rows = np.zeros(len(vectors), dtype=np.dtype(kind))
    rows["id"], rows["vector"] = np.arange(first, first + len(vectors)), vectors
    rows["length"] = np.frombuffer(length, dtype=f"V{len(length)}")[0]
    return rows.tobytes()


def _length(count: int) -> bytes:
    """A length as MySQL's protocol writes it before bytes."""
    if count < 251:
        return bytes([count])
    return b"\xfc" + count.to_bytes(2, "little") if count < 1 << 16 else b"\xfd" + count.to_bytes(3, "little")
