"""The load of a plan of writers, its steps, and the figures that its aims may name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pagehop_lab.analysis.aims import Figure
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.server_records import number_if_any
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.suites.compared import CREATE_INDEX, DATA, INDEX, MISSED, Compared
from pagehop_lab.suites.vector_writers.records import WritersRecord

# Timed steps need room for this number of rows per second, at most.
ROWS_PER_S_MAX = 8000
# A note on searches: each server has its own load, which is greater the faster it writes.
_BESIDE = "writers at a share of their own full rate"


@dataclass(frozen=True)
class WritersLoad(ServersLoad):
    """The length of each step, and its number of rows. Each step begins with the same table."""

    rows: int = 20_000
    """Rows in the table before each step; the index was created over them."""
    clients: int = 8
    """Of steps with many writers."""
    seconds: float = 7.0
    dataset: str = "generated-384"
    dataset_rows: int = 0
    """Number of rows of the set, from the first on; 0 for all of them."""
    queries: int = 1000
    k: int = 10
    copy_rows: int = 10_000
    log_rows: int = 20_000
    """Rows of the step that counts bytes of log for a number of rows."""
    log_seconds: float = 300.0
    """Seconds between two checkpoints, in the step that counts bytes of log over an interval."""
    dead_share: float = 0.2
    """Share of the rows before the step that are deleted for autovacuum."""
    vacuum_seconds: float = 60.0
    """Most seconds for which autovacuum is watched."""
    search_rate: float = 100.0
    """Searches a second, on a schedule."""
    search_seconds: float = 20.0
    write_share: float = 0.5
    """Share of their full rate at which writers insert beside searches."""
    recall_rows: int = 100_000
    recall_lists: tuple[int, ...] = (40, 80, 160)
    """Candidate lists at which recall is compared."""


def cases(load: WritersLoad) -> tuple[Case, ...]:
    """The steps; `range` is the number of writers."""
    many = load.clients
    return (
        Case("write-one", "writes", "write", 1),
        Case("write-many", "writes", "write", many),
        Case("copy", "writes", "copy", 1),
        Case("log-rows", "log", "log_rows", many),
        Case("log-interval", "log", "log_interval", many),
        Case("vacuum", "beside", "vacuum", many),
        Case("search", "beside", "search", many),
        Case("recall", "recall", "recall", many),
    )


def fixed_rows(load: WritersLoad, case: Case) -> int:
    """Fewest rows that a step takes, with those that exist before it."""
    more = {"copy": load.copy_rows, "log_rows": load.log_rows, "recall": load.recall_rows}
    return load.rows + more.get(case.script, 0)


def rows_max(load: WritersLoad, names: Sequence[str]) -> int:
    """Most rows of a table after any of some steps."""
    timed = {
        "write": load.seconds, "log_interval": load.log_seconds, "vacuum": 2 * load.seconds + load.vacuum_seconds,
        "search": load.seconds + load.search_seconds,
    }  # fmt: skip
    wanted = [case for case in cases(load) if case.name in names]
    return max(fixed_rows(load, case) + int(timed.get(case.script, 0) * ROWS_PER_S_MAX) for case in wanted)


COUNTED = ("copy", "log-rows", "recall")
"""Steps of a number of rows. Where time ends a step, bytes of log a row depend on its speed."""

FIGURES: Mapping[str, Figure] = {
    "rows_per_s": Figure("rows/s", True),
    "cpu_us": Figure("CPU us a row", False),
    "log_bytes": Figure("bytes of log a row", False, is_counted=True, counted_in=COUNTED),
    "vacuum_share": Figure("of the rows/s before", True),
    "search_p50_ms": Figure("ms, p50 of a search", False),
    "search_p99_ms": Figure("ms, p99 of a search", False),
    "p50_over_idle": Figure("times p50 without writers", False),
    "p99_over_idle": Figure("times p99 without writers", False),
    "recall": Figure("recall", True),
    "recall_gain": Figure("recall, minus that of one build", True),
}
"""Names in the raw files."""


def vacuum_share(found: WritersRecord) -> float | None:
    """The rate beside autovacuum over that before it, which every server has.

    Older files have a share over the mean of before and after, where autovacuum ended.
    """
    return None if "vacuum_s" not in found else found["rows_beside_per_s"] / found["rows_before_per_s"]


def vacuum_s(found: WritersRecord) -> float | None:
    """Seconds of autovacuum; infinite if it still ran when the writers were stopped. Older files do
    not say whether it ended. If it did not end, there is no rate after it.
    """
    is_over = found.get("vacuum_ended", found.get("rows_after_per_s") is not None)
    return float(found["vacuum_s"]) if is_over else math.inf


def compared(case: str) -> Sequence[Compared[WritersRecord]]:
    """The figures by which servers may be compared in a step: none that a schedule decides."""
    if case == "search":
        names = ("search_p50_ms", "search_p99_ms", "p50_over_idle", "p99_over_idle")
        return [replace(one, words=f"{one.unit}, beside {_BESIDE}") for one in map(_compared, names)]
    if case == "vacuum":
        share = replace(_compared("vacuum_share"), of=vacuum_share)
        return [_compared("rows_per_s"), _compared("cpu_us"), share]
    written = [_compared(name, is_counted=case in COUNTED) for name in ("rows_per_s", "cpu_us", "log_bytes")]
    return [*written, MISSED] if case == "recall" else written


def _compared(name: str, *, is_counted: bool = False) -> Compared[WritersRecord]:
    figure = FIGURES[name]
    return Compared(
        figure.unit,
        lambda found: number_if_any(found, name),
        figure.unit,
        figure.more_is_better,
        figure.is_counted and is_counted,
    )


COMPARED_LOADS = (CREATE_INDEX, INDEX, DATA)
