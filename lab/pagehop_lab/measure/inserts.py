"""The steps of the Insert Benchmark on any table: loads, writes, and queries beside writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagehop_lab.analysis.server_records import LoadedRecord, StepRecord
from pagehop_lab.measure.clients import Rows
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.steps import Moved, State, Step, carry_out, per_second, percentiles, raw_of

# Rows of a commit while loading, and beside queries.
_LOAD_ROWS = 100
BESIDE_ROWS = 10


def fill(server: int | None, rows: Rows, count: int, timeout_s: float) -> LoadedRecord:
    """Rows without an index, 100 in a commit (l.i0)."""
    state = State(0, 0)
    moved = carry_out(server, rows, state, Step(timeout_s, _LOAD_ROWS, until_rows=count, deletes=False))
    if state.high < count:
        raise MeasureError(f"{count:,} rows were not loaded in {timeout_s:g} s, but {state.high:,}")
    load_s = float(moved.inserted[-1, 1] - moved.inserted[0, 0])
    share = raw_of(moved, state.high)["client_share_of_machine"]
    return {"load_s": load_s, "load_rows_per_s": state.high / load_s, "load_client_share": share, "rows": state.high}


def write(server: int | None, rows: Rows, state: State, commit_rows: int, seconds: float) -> StepRecord:
    """Inserts and deletes as fast as they go (l.i1, l.i2)."""
    moved = carry_out(server, rows, state, Step(seconds, commit_rows))
    return {
        **StepRecord(),
        **raw_of(moved, len(moved.inserted) * commit_rows),
        # A writer also reads old files of the log, and no state of caches was declared.
        "storage_reads_per_query": None,
        "rows_per_s": moved.inserted_per_s,
        "deleted_per_s": moved.deleted_per_s,
        "deadlocks_count": moved.deadlocks,
        "commit_ms": percentiles((moved.inserted[:, 1] - moved.inserted[:, 0]) * 1e3),
        "per_second": {"inserted": per_second(moved.inserted[:, 1], moved.spent.begun_s, commit_rows)},
    }


def query(
    server: int | None, rows: Rows, state: State, rate: float, seconds: float, commit_rows: int = BESIDE_ROWS
) -> tuple[StepRecord, Moved]:
    """Queries at full speed beside a fixed rate of inserted and deleted rows.

    The clients' results are part of it.
    """
    moved = carry_out(server, rows, state, Step(seconds, commit_rows if rate else 0, rate, asks=True))
    starts, ends = moved.asked[:, 0], moved.asked[:, 1]
    raw: StepRecord = {
        **StepRecord(),
        **raw_of(moved, len(moved.asked)),
        "write_target": rate,
        "rows_per_s": moved.inserted_per_s,
        "deleted_per_s": moved.deleted_per_s,
        "deadlocks_count": moved.deadlocks,
        "latency_ms": percentiles((ends - starts) * 1e3),
        "per_second": {
            "asked": per_second(ends, moved.spent.begun_s, 1),
            "inserted": per_second(moved.inserted[:, 1], moved.spent.begun_s, commit_rows),
        },
    }
    return raw, moved


def arrays_of(moved: Moved) -> dict[str, np.ndarray[Any, Any]]:
    """Everything that clients wrote down."""
    return {"asked": moved.asked, "inserted": moved.inserted, "deleted": moved.deleted}
