"""One document by its key, and one of its attributes: a table of documents is made, asked, and dropped again."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from devserver import DevServerError
from pagehop_lab.analysis.attributes import PROFILED, names, wanted_name
from pagehop_lab.measure import profile
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.steps import State, Step, carry_out, per_second, percentiles, raw_of
from pagehop_lab.measure.wires import Numbers, Where

TABLE = "documents"
_STATEMENT_BYTES = 1 << 20
_VALUES = 1_000_000
_POOL_RANDOM = 65_536
_PROFILE_S = 1.5


class Server(Protocol):
    """A server that takes the table."""

    @property
    def pid(self) -> int: ...

    def execute(self, *statements: str) -> list[Any]: ...

    def settle(self) -> None: ...

    def data_bytes(self) -> int: ...


def measure(
    server: Server, model: str, count: int, layout: str, rows: int, seconds: float, seed: int
) -> dict[str, Any]:
    """Queries a second for y of one document among `rows` with `count` other attributes each, and what they cost."""
    where = Where.of(server)
    documents = Documents(where, model, count, layout, rows, seed)
    empty_bytes = server.data_bytes()
    begun = time.monotonic()
    server.execute(documents.create())
    try:
        _fill(where, documents)
        server.settle()
        load_s = time.monotonic() - begun
        sizes = {"bytes_per_row": (server.data_bytes() - empty_bytes) / rows, **_out_of_line(server, where, rows)}
        # MySQL has other forms by itself, which do not name the key of a row that is one.
        form = "FORMAT=TRADITIONAL " if where.is_mysql else ""
        plan = "\n".join(str(row) for row in server.execute(f"EXPLAIN {form}{documents.select().replace('$1', '1')}"))
        raw = _asked(server, documents, seconds)
        if count in PROFILED:
            raw |= _profile(server, documents)
    finally:
        # A server that died is told by what it was asked before.
        with contextlib.suppress(DevServerError):
            server.execute(f"DROP TABLE {TABLE}")
    return raw | sizes | {
        "load_s": load_s,
        "plan": plan,
        # Keys that could be used, and the one that is.
        "index_used": ("'PRIMARY', 'PRIMARY'" if where.is_mysql else f"using {TABLE}_pkey") in plan,
    }  # fmt: skip


def _fill(where: Where, documents: Documents) -> None:
    try:
        wire = where.open()
        for statement in documents.inserts():
            wire.execute(statement)
    except Exception as error:
        # Each library has errors of its own.
        raise MeasureError(f"the documents could not be loaded: {error}") from None


def _asked(server: Server, documents: Documents, seconds: float) -> dict[str, Any]:
    moved = carry_out(server.pid, documents, State(0, documents.rows), Step(seconds, asks=True))
    starts, ends, given = moved.asked[:, 0], moved.asked[:, 1], moved.asked[:, 2]
    return raw_of(moved, len(moved.asked)) | {
        "rows_short_count": int((given != 1).sum()),
        "latency_ms": percentiles((ends - starts) * 1e3),
        "per_second": {"asked": per_second(ends, moved.spent.begun_s, 1)},
    }


def _profile(server: Server, documents: Documents) -> dict[str, Any]:
    """Asks once more, and looks where the server's time goes."""
    reason = profile.missing()
    if reason is not None:
        return {"profile": [], "no_profile": reason}
    with tempfile.TemporaryDirectory(prefix="pagehop-profile-") as folder:
        out = Path(folder) / "perf.data"

        @contextlib.contextmanager
        def during(members: Sequence[int]) -> Iterator[None]:
            with profile.profiled(members, out):
                yield

        step = Step(_PROFILE_S, asks=True)
        carry_out(server.pid, documents, State(0, documents.rows), step, during)
        return {"profile": profile.top(out)}


def _out_of_line(server: Server, where: Where, rows: int) -> dict[str, float]:
    """What is not in the rows themselves: PostgreSQL's TOAST, where long values go, in pieces."""
    if where.is_mysql:
        return {}
    found = server.execute(f"SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE relname = '{TABLE}'")
    return {"toast_bytes_per_row": int(found[0][0] or 0) / rows}


@dataclass(frozen=True)
class Documents:
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

    def open(self) -> DocumentsConnection:
        return DocumentsConnection(self)

    def create(self) -> str:
        """What makes the table."""
        columns = [f"doc {self.model} NOT NULL"]
        if self.model == "columns":
            columns = [f"{name} integer NOT NULL" for name in names(self.count, self.layout)]
        return f"CREATE TABLE {TABLE} (id integer NOT NULL PRIMARY KEY, {', '.join(columns)})"

    def select(self) -> str:
        """Who has this key and this y, with both."""
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
            values = random.integers(_VALUES, size=len(listed)).tolist()
            values[at] = key
            texts.append(form % (key, *values))
            size += len(texts[-1])
            if size > _STATEMENT_BYTES or key == self.rows - 1:
                yield (head + ",".join(texts)).encode()
                texts, size = [], 0


class DocumentsConnection:
    """A client's connection: it only asks."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._wire = documents.where.open()

    def insert(self, first: int, count: int) -> None:
        raise NotImplementedError("documents are there before they are asked for")

    def delete(self, first: int, count: int) -> None:
        raise NotImplementedError("documents stay while they are asked for")

    def ask(self, number: int, _low: int, _high: int) -> list[int]:
        statement, keys = self._asking
        return [statement.ask(keys[number % _POOL_RANDOM])]

    @cached_property
    def _asking(self) -> tuple[Numbers, list[tuple[int, ...]]]:
        drawn = np.random.default_rng(self._documents.seed + 1).integers(self._documents.rows, size=_POOL_RANDOM)
        # The protocol of words wants a number for each place, the other one for each parameter.
        times = 2 if self._documents.where.is_mysql else 1
        return self._wire.numbers("y", self._documents.select(), 1), [(key,) * times for key in drawn.tolist()]
