"""Documents in a table: as JSON, as JSONB, or each attribute as a column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.wires import Numbers, Where
from pagehop_lab.suites.attributes.cases import names, wanted_name
from pagehop_lab.suites.attributes.records import OutOfLine

TABLE = "documents"
_STATEMENT_BYTES = 1 << 20
VALUES = 1_000_000
POOL_RANDOM = 65_536


def of(server: Any, model: str, count: int, layout: str, rows: int, seed: int) -> SqlDocuments:
    """Documents of a server of SQL."""
    return SqlDocuments(server, Table(Where.of(server), model, count, layout, rows, seed))


@dataclass(frozen=True)
class SqlDocuments:
    """A table of documents in a server."""

    server: Any
    rows: Table

    def create(self) -> None:
        self.server.execute(self.rows.create())

    def fill(self) -> None:
        try:
            wire = self.rows.where.open()
            for statement in self.rows.inserts():
                wire.execute(statement)
        except Exception as error:
            # Each library has errors of its own.
            raise MeasureError(f"the documents could not be loaded: {error}") from None

    def plan(self) -> tuple[str, bool]:
        is_mysql = self.rows.where.is_mysql
        # By default MySQL has other forms, which do not name the key of a single row.
        form = "FORMAT=TRADITIONAL " if is_mysql else ""
        said = self.server.execute(f"EXPLAIN {form}{self.rows.select().replace('$1', '1')}")
        plan = "\n".join(map(str, said))
        # Keys that could be used, and the key that is used.
        return plan, ("'PRIMARY', 'PRIMARY'" if is_mysql else f"using {TABLE}_pkey") in plan

    def out_of_line(self) -> OutOfLine:
        """The size of PostgreSQL's TOAST table, which has long values, in pieces."""
        if self.rows.where.is_mysql:
            return {}
        asked = f"SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = '{TABLE}'::regclass"
        return {"toast_bytes_per_row": int(self.server.execute(asked)[0][0] or 0) / self.rows.rows}

    def drop(self) -> None:
        self.server.execute(f"DROP TABLE {TABLE}")


@dataclass(frozen=True)
class Table:
    """The table, for clients."""

    where: Where
    model: str
    """`json`, `jsonb` or `columns`."""
    count: int
    layout: str
    rows: int
    seed: int

    @property
    def kept(self) -> int:
        """Rows of an answer."""
        return 1

    def open(self) -> TableConnection:
        return TableConnection(self)

    def create(self) -> str:
        """What makes the table."""
        columns = [f"doc {self.model} NOT NULL"]
        if self.model == "columns":
            columns = [f"{name} integer NOT NULL" for name in names(self.count, self.layout)]
        return f"CREATE TABLE {TABLE} (id integer NOT NULL PRIMARY KEY, {', '.join(columns)})"

    def select(self) -> str:
        """The statement of a query for the document with this key and this y."""
        name = wanted_name(self.layout)
        wanted, compared = name, name
        if self.model != "columns":
            wanted = f"JSON_EXTRACT(doc, '$.{name}')" if self.where.is_mysql else f"doc->>'{name}'"
            compared = wanted if self.where.is_mysql else f"({wanted})::integer"
        return f"SELECT id, {wanted} FROM {TABLE} WHERE id = $1 AND {compared} = $1"

    def inserts(self) -> Iterator[bytes]:
        """Statements with all rows, about a megabyte each."""
        random = np.random.default_rng(self.seed)
        listed = names(self.count, self.layout)
        at = listed.index(wanted_name(self.layout))
        # Each row as one format: values are the key and then those of the attributes.
        each = ",".join(["%d"] * len(listed))
        if self.model != "columns":
            each = "'{" + ", ".join(f'"{name}": %d' for name in listed) + "}'"
        form = f"(%d,{each})"
        head, texts, size = f"INSERT INTO {TABLE} VALUES ", list[str](), 0
        for key in range(self.rows):
            values = random.integers(VALUES, size=len(listed)).tolist()
            values[at] = key
            texts.append(form % (key, *values))
            size += len(texts[-1])
            if size > _STATEMENT_BYTES or key == self.rows - 1:
                yield (head + ",".join(texts)).encode()
                texts, size = [], 0


class TableConnection:
    """A client's connection: it only asks."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._wire = table.where.open()

    def insert(self, first: int, count: int) -> None:
        raise NotImplementedError("documents are there before they are asked for")

    def delete(self, first: int, count: int) -> None:
        raise NotImplementedError("documents stay while they are asked for")

    def ask(self, number: int, _low: int, _high: int) -> list[int]:
        statement, keys = self._asking
        return [statement.ask(keys[number % POOL_RANDOM])]

    @cached_property
    def _asking(self) -> tuple[Numbers, list[tuple[int, ...]]]:
        drawn = np.random.default_rng(self._table.seed + 1).integers(self._table.rows, size=POOL_RANDOM)
        # MySQL's protocol takes a number for each place; the other protocol takes one for each
        # parameter.
        times = 2 if self._table.where.is_mysql else 1
        return self._wire.numbers(self._table.select()), [(key,) * times for key in drawn.tolist()]
