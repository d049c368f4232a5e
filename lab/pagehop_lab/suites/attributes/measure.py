"""One document by its key, and one of its attributes: documents are made, queried and dropped."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from devserver import DevServerError
from pagehop_lab.analysis.records import Profiled
from pagehop_lab.measure import profile
from pagehop_lab.measure.clients import Rows
from pagehop_lab.measure.steps import State, Step, carry_out, per_second, percentiles, raw_of
from pagehop_lab.suites.attributes import bson_documents, sql_documents
from pagehop_lab.suites.attributes.cases import PROFILED
from pagehop_lab.suites.attributes.records import DocumentRecord, OutOfLine

# Name of a table or collection of documents.
TABLE = sql_documents.TABLE
_PROFILE_S = 1.5


class Server(Protocol):
    """A server that keeps documents."""

    @property
    def pid(self) -> int | None: ...

    def settle(self) -> None: ...

    def data_bytes(self) -> int: ...


class Documents(Protocol):
    @property
    def rows(self) -> Rows:
        """The documents, for clients."""

    def create(self) -> None:
        """Makes a place for them."""

    def fill(self) -> None:
        """Inserts the documents. MeasureError if that fails."""

    def plan(self) -> tuple[str, bool]:
        """The server's plan for one document, and whether it uses the key."""

    def out_of_line(self) -> OutOfLine:
        """Facts about values that are stored outside of the rows."""

    def drop(self) -> None: ...


def measure(
    server: Server, model: str, count: int, layout: str, rows: int, seconds: float, seed: int
) -> DocumentRecord:
    """Queries a second for y of one of `rows` documents with `count` other attributes.

    The costs are part of it.
    """
    kind = bson_documents.of if model == "bson" else sql_documents.of
    documents: Documents = kind(server, model, count, layout, rows, seed)
    empty_bytes = server.data_bytes()
    begun = time.monotonic()
    documents.create()
    try:
        documents.fill()
        server.settle()
        load_s = time.monotonic() - begun
        bytes_per_row, out_of_line = (server.data_bytes() - empty_bytes) / rows, documents.out_of_line()
        plan, index_used = documents.plan()
        raw = _asked(server, documents, rows, seconds)
        if count in PROFILED:
            raw = {**raw, **_profile(server, documents, rows)}
    finally:
        # If the server died, the error of the measurement is raised, not that of the drop.
        with contextlib.suppress(DevServerError):
            documents.drop()
    return {
        **raw, "bytes_per_row": bytes_per_row, **out_of_line, "load_s": load_s, "plan": plan, "index_used": index_used,
    }  # fmt: skip


def _asked(server: Server, documents: Documents, rows: int, seconds: float) -> DocumentRecord:
    moved = carry_out(server.pid, documents.rows, State(0, rows), Step(seconds, asks=True))
    starts, ends, given = moved.asked[:, 0], moved.asked[:, 1], moved.asked[:, 2]
    return {
        **DocumentRecord(),
        **raw_of(moved, len(moved.asked)),
        "rows_short_count": int((given != 1).sum()),
        "latency_ms": percentiles((ends - starts) * 1e3),
        "per_second": {"asked": per_second(ends, moved.spent.begun_s, 1)},
    }


def _profile(server: Server, documents: Documents, rows: int) -> Profiled:
    """Repeats the queries, and samples where the server's time goes."""
    reason = profile.NOT_OURS if server.pid is None else profile.missing()
    if reason is not None:
        return {"profile": [], "no_profile": reason}
    with tempfile.TemporaryDirectory(prefix="pagehop-profile-") as folder:
        out = Path(folder) / "perf.data"

        @contextlib.contextmanager
        def during(members: Sequence[int]) -> Iterator[None]:
            with profile.profiled(members, out):
                yield

        carry_out(server.pid, documents.rows, State(0, rows), Step(_PROFILE_S, asks=True), during)
        return {"profile": profile.top(out)}
