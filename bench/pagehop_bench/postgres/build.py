"""CREATE INDEX over a table that is in shared_buffers: seconds, CPU seconds of the whole server, size."""

from __future__ import annotations

import time
from typing import Any

from devserver import Server
from pagehop_bench.measure import Spread
from pagehop_bench.postgres import sets, tables
from pagehop_bench.postgres.scale import Scale
from pagehop_bench.postgres.servers import Running, memory_for, running
from pagehop_bench.postgres.tables import HALFVEC, PAGEHOP, SIDES, VECTOR, Side
from pagehop_bench.report import Report, Row, columns

WORKERS = (0, 1, 2)


def run(report: Report, scale: Scale, server: Server, name: str) -> None:
    """Measures one set."""
    begun = time.perf_counter()
    dataset = sets.load(name, scale)
    runs: list[dict[str, Any]] = []
    with running(server, **memory_for(dataset.base)) as served:
        report.say(f"build {name}: {len(dataset.base):,} x {dataset.dim}")
        for side in SIDES:
            tables.fill(served.connection, side, dataset.base)
        for repeat in range(scale.build_repeats):
            for workers in WORKERS:
                for side in SIDES if repeat % 2 == 0 else SIDES[::-1]:
                    runs.append(_built(served, side, workers) | {"repeat": repeat})
                    told = "  {side}, {workers} workers: {wall_s:.1f} s, {cpu_s:.1f} CPU s, {index_bytes:,} bytes"
                    report.say(told.format(**runs[-1]))
        report.extra[f"build {name}"] = {"server": served.about(), "runs": runs}
    _say_all(report, name, runs)
    for workers in WORKERS:
        report.add(_compared(f"build, seconds over pgvector, {name}", runs, workers, "wall_s"))
    report.add(_compared(f"build, CPU seconds over pgvector, {name}", runs, 0, "cpu_s"))
    report.add(_compared(f"index bytes over pgvector, {name}", runs, 0, "index_bytes"))
    report.say(f"build {name}: {time.perf_counter() - begun:.0f} s")


def _built(served: Running, side: Side, workers: int) -> dict[str, Any]:
    # The checkpoint of the last build is over when this begins: `build` makes one itself, before its clock starts.
    served.connection.execute("CHECKPOINT")
    before, wal = served.usage(), served.wal_position()
    wall = tables.build(served.connection, side, workers)
    return {
        "side": side.name,
        "workers": workers,
        "wall_s": wall,
        "cpu_s": served.usage().cpu_s - before.cpu_s,
        "wal_bytes": int(tables.one(served.connection, f"SELECT pg_current_wal_insert_lsn() - '{wal}'")),
        "index_bytes": tables.index_bytes(served.connection, side),
        "table_bytes": tables.table_bytes(served.connection, side),
    }


def figures(runs: list[dict[str, Any]], side: Side, workers: int, key: str) -> list[float]:
    """A figure of one side, once for each repeat."""
    chosen = [run for run in runs if run["side"] == side.name and run["workers"] == workers]
    return [float(run[key]) for run in sorted(chosen, key=lambda run: int(run["repeat"]))]


def _compared(what: str, runs: list[dict[str, Any]], workers: int, key: str) -> Row:
    """Ours over theirs with the type for which theirs is the least."""
    ours = figures(runs, PAGEHOP, workers, key)
    theirs = {side.name: figures(runs, side, workers, key) for side in [VECTOR, HALFVEC]}
    least = min(theirs, key=lambda side: Spread.of(theirs[side]).median)
    ratio = Spread.of([a / b for a, b in zip(ours, theirs[least], strict=True)])
    medians = {side: Spread.of(found).median for side, found in [(PAGEHOP.name, ours), *theirs.items()]}
    detail = f"over {least}: " + ", ".join(f"{side} {figure:,.1f}" for side, figure in medians.items())
    at = "serial" if workers == 0 else f"{workers} parallel worker{'s' if workers > 1 else ''}"
    return Row(what, at, ratio.median, None, None, "x", more_is_better=False, detail=detail)


def _say_all(report: Report, name: str, runs: list[dict[str, Any]]) -> None:
    lines = [["side", "workers", "seconds", "CPU seconds", "index MB", "table MB", "WAL MB"]]
    for one in runs:
        sizes = [f"{one[key] / 1e6:,.1f}" for key in ("index_bytes", "table_bytes", "wal_bytes")]
        lines.append([one["side"], str(one["workers"]), f"{one['wall_s']:.2f}", f"{one['cpu_s']:.2f}", *sizes])
    report.say(f"\nbuild {name}\n{columns(lines)}\n")
