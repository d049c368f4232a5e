"""The Insert Benchmark's own table: sales of shops, with three secondary indexes.

Queries use these indexes or the key.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pagehop_lab.analysis.server_records import LoadedRecord, StepRecord
from pagehop_lab.measure import inserts
from pagehop_lab.measure.steps import State
from pagehop_lab.measure.wires import Numbers, Where

TABLE = "sales"
_COLUMNS = "transactionid, dateandtime, cashregisterid, customerid, productid, price, data"
_CREATE = (
    f"CREATE TABLE {TABLE} (transactionid bigint NOT NULL PRIMARY KEY, dateandtime timestamp NOT NULL, "
    "cashregisterid integer NOT NULL, customerid integer NOT NULL, productid integer NOT NULL, price integer NOT NULL, "
    "data varchar(4000))"
)
INDEXES = {
    "marketsegment": ("productid", "customerid", "price"),
    "registersegment": ("cashregisterid", "customerid", "price"),
    "pdc": ("price", "dateandtime", "customerid"),
}
# Number of distinct values of each column.
_MOST = {"cashregisterid": 1_000, "customerid": 100_000, "productid": 10_000, "price": 500}
_DATA_BYTES = 10
ANSWER_ROWS = 10
# This number of different rows is used in a cycle, with new keys, so no step spends time on making
# rows.
_POOL_ROWS = 100_000
_POOL_RANDOM = 65_536


class Tables(Protocol):
    """A server that takes the table."""

    @property
    def pid(self) -> int | None: ...

    def execute(self, *statements: str) -> list[Any]: ...

    def settle(self) -> None: ...

    def data_bytes(self) -> int: ...


def load(tables: Tables, rows: int, seed: int, timeout_s: float) -> LoadedRecord:
    """Loads rows, 100 a commit (l.i0), then makes the three secondary indexes (l.x)."""
    tables.execute(_CREATE)
    said = inserts.fill(tables.pid, Sales(Where.of(tables), seed, "range"), rows, timeout_s)
    seconds: dict[str, float] = {}
    before = tables.data_bytes()
    for name, columns in INDEXES.items():
        begun = time.monotonic()
        tables.execute(f"CREATE INDEX {name} ON {TABLE} ({', '.join(columns)})")
        seconds[name] = time.monotonic() - begun
    index_bytes = tables.data_bytes() - before
    tables.settle()
    return said | {"index_s": sum(seconds.values()), "index_seconds": seconds, "index_bytes": index_bytes}


def window(tables: Tables) -> tuple[int, int]:
    """The first key and the one after the last."""
    asked = f"SELECT coalesce(min(transactionid), 0), coalesce(max(transactionid) + 1, 0) FROM {TABLE}"
    low, high = tables.execute(asked)[0]
    return int(low), int(high)


def write(tables: Tables, seed: int, state: State, commit_rows: int, seconds: float) -> StepRecord:
    """Inserts and deletes as fast as they go (l.i1, l.i2)."""
    # The inserted rows differ from the loaded ones.
    return inserts.write(tables.pid, Sales(Where.of(tables), seed + 1, "range"), state, commit_rows, seconds)


def query(
    tables: Tables, seed: int, state: State, kind: str, rate: float, seconds: float,
    commit_rows: int = inserts.BESIDE_ROWS,
) -> StepRecord:  # fmt: skip
    """Queries that an index covers (`range`, qr), or by key (`point`, qp), while rows change."""
    rows = Sales(Where.of(tables), seed + 2, kind)
    form = "FORMAT=JSON " if rows.where.is_mysql else ""
    plans = {
        name: "\n".join(str(row[0]) for row in tables.execute(f"EXPLAIN {form}{text}")) for name, text in rows.samples()
    }
    raw, moved = inserts.query(tables.pid, rows, state, rate, seconds, commit_rows)
    given = moved.asked[:, 2]
    return raw | {
        "rows_per_answer": float(given.mean()),
        "rows_short_count": int((given == 0).sum()),
        "index_used": all(_uses(plan, name) for name, plan in plans.items()),
        "plan": "\n\n".join(plans.values()),
        "arrays": inserts.arrays_of(moved),
    }


def _uses(plan: str, index: str) -> bool:
    """Whether a plan, in words of PostgreSQL or in JSON of the others, reads an index."""
    return re.search(rf'Scan using {index}\b|Scan on {index}\b|"(?:key|index_name)": "{index}"', plan) is not None


@dataclass(frozen=True)
class Sales:
    """The table, for clients."""

    where: Where
    seed: int
    kind: str
    """The kind of queries, `range` or `point`."""

    @property
    def kept(self) -> int:
        """Rows of an answer."""
        return 1

    def open(self) -> SalesConnection:
        return SalesConnection(self)

    def samples(self) -> list[tuple[str, str]]:
        """One query of each kind, by the index that it is to use."""
        if self.kind == "point":
            return [("PRIMARY" if self.where.is_mysql else f"{TABLE}_pkey", _by_key().replace("$", ""))]
        return [(name, _covered(columns).replace("$1", "1")) for name, columns in INDEXES.items()]


class SalesConnection:
    """A client's connection."""

    def __init__(self, rows: Sales) -> None:
        self._rows = rows
        self._wire = rows.where.open()
        self._random = np.random.default_rng(rows.seed)
        self._forms: dict[int, list[str]] = {}

    def insert(self, first: int, count: int) -> None:
        forms = self._forms.get(count) or self._forms.setdefault(count, _forms(self._random, count))
        form = forms[first // count % len(forms)]
        self._wire.execute((form % tuple(range(first, first + count))).encode())

    def delete(self, first: int, count: int) -> None:
        last = first + count - 1
        self._wire.execute(b"DELETE FROM sales WHERE transactionid BETWEEN %d AND %d" % (first, last))

    def ask(self, number: int, low: int, high: int) -> Sequence[int]:
        if self._rows.kind == "point":
            statement, shares = self._points
            at, width = number * ANSWER_ROWS % _POOL_RANDOM, high - low
            return [statement.ask(tuple([low + int(share * width) for share in shares[at : at + ANSWER_ROWS]]))]
        statement, pool = self._ranges[number % len(self._ranges)]
        return [statement.ask(pool[number % _POOL_RANDOM])]

    # The first use of these makes this a session that queries.

    @cached_property
    def _points(self) -> tuple[Numbers, list[float]]:
        shares = self._random.random(_POOL_RANDOM + ANSWER_ROWS).tolist()
        return self._wire.numbers(_by_key()), shares

    @cached_property
    def _ranges(self) -> list[tuple[Numbers, list[tuple[int]]]]:
        found = []
        for columns in INDEXES.values():
            # The last few values have fewer rows after them than a query returns.
            drawn = self._random.integers(_MOST[columns[0]] * 99 // 100, size=_POOL_RANDOM).tolist()
            found.append((self._wire.numbers(_covered(columns)), [(one,) for one in drawn]))
        return found


def _covered(columns: Sequence[str]) -> str:
    """The statement for the next rows of an index, which covers all columns."""
    listed = ", ".join(columns)
    return f"SELECT {listed} FROM {TABLE} WHERE {columns[0]} >= $1 ORDER BY {listed} LIMIT {ANSWER_ROWS}"


def _by_key() -> str:
    numbers = ", ".join(f"${number}" for number in range(1, ANSWER_ROWS + 1))
    return f"SELECT transactionid, productid, data FROM {TABLE} WHERE transactionid IN ({numbers})"


def _forms(random: np.random.Generator, count: int) -> list[str]:
    """Statements that insert `count` rows each and lack only the keys."""
    commits = max(_POOL_ROWS // count, 1)
    drawn = {name: random.integers(most, size=commits * count).tolist() for name, most in _MOST.items()}
    # Half of the text is the same in every row.
    texts = ["a" * (_DATA_BYTES // 2) + f"{one:05x}" for one in random.integers(16**5, size=commits * count).tolist()]
    rows = [
        f"(%d,CURRENT_TIMESTAMP,{register},{customer},{product},{price},'{text}')"
        for register, customer, product, price, text in zip(*drawn.values(), texts, strict=True)
    ]
    head = f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES "
    return [head + ",".join(rows[at : at + count]) for at in range(0, len(rows), count)]
