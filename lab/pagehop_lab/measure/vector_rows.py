"""A table of vectors in PostgreSQL, for clients: rows come by COPY, the nearest are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pagehop_lab.engines.postgres_server import copy_rows
from pagehop_lab.measure.wires import PostgresWire

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class VectorRows:
    """Where the table is, and what its rows and queries are."""

    dsn: str
    table: str
    base: Path
    """A .npy of rows; row `id` is the one at `id` modulo their number."""
    queries: Path
    settings: Mapping[str, str]
    """Of a session that searches."""
    k: int

    @property
    def kept(self) -> int:
        """Ids of the nearest, -1 for nothing."""
        return self.k

    def open(self) -> VectorConnection:
        return VectorConnection(self)


class VectorConnection:
    """A client's connection."""

    def __init__(self, rows: VectorRows) -> None:
        self._rows = rows
        self._base = np.load(rows.base, mmap_mode="r")
        self._wire = PostgresWire(rows.dsn)

    def insert(self, first: int, count: int) -> None:
        rows = np.asarray(self._base[np.arange(first, first + count) % len(self._base)])
        copy_rows(self._wire.connection, self._rows.table, first, rows)

    def delete(self, first: int, count: int) -> None:
        self._wire.execute(b"DELETE FROM %s WHERE id >= %d AND id < %d" % (
            self._rows.table.encode(), first, first + count,
        ))  # fmt: skip

    @cached_property
    def _parameters(self) -> list[bytes]:
        """The queries; once they are wanted, this is a session that searches."""
        self._wire.set(self._rows.settings)
        statement = f"SELECT id FROM {self._rows.table} ORDER BY embedding <-> $1 LIMIT {self._rows.k}"
        self._wire.prepare(b"nearest", statement)
        return [_binary(query) for query in np.load(self._rows.queries)]

    def ask(self, number: int, _low: int, _high: int) -> list[int]:
        parameter = self._parameters[number % len(self._parameters)]
        result = self._wire.execute_prepared(b"nearest", [parameter])
        found = [int.from_bytes(result.get_value(row, 0), "big") for row in range(result.ntuples)]
        return found + [-1] * (self._rows.k - len(found))


def _binary(query: Float32) -> bytes:
    """A parameter in the binary format of `vector`."""
    return len(query).to_bytes(2, "big") + bytes(2) + query.astype(">f4").tobytes()
