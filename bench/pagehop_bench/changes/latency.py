"""How long single searches take while rows are added: alone, beside a writing thread, beside a writing process.

Each search is one query, k = 10, default options, timed around the call from Python, everything in memory,
two cores. The writer adds durable batches without pause. Every figure begins with a copy of the same
file; what the writer managed meanwhile is told, for a search is easily fast while nothing is written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import pagehop
from pagehop_bench import machine
from pagehop_bench.changes import vectors
from pagehop_bench.changes.meter import median_of, percentiles, spread
from pagehop_bench.changes.scale import Scale
from pagehop_bench.changes.writer import Writer, flat_out
from pagehop_bench.engines import Float32
from pagehop_bench.engines.pagehop_file import HOT
from pagehop_bench.measure import K
from pagehop_bench.report import Report, Row

CORES = 2
# Which index is searched, and who writes meanwhile.
MODES = ["idle reader", "idle writer", "writing thread", "writing process"]
_QUERIES = 4_000

Run = dict[str, Any]


def run(report: Report, scale: Scale) -> None:
    """Measures every mode `repeats` times, the order alternating."""
    base = vectors.rows(scale, scale.rows + scale.added)
    asked = vectors.queries(scale, min(_QUERIES, scale.searches))
    runs: dict[str, list[Run]] = {mode: [] for mode in MODES}
    with machine.limited(CORES):
        source = vectors.built(scale, base[: scale.rows])
        for repeat in range(scale.repeats):
            for mode in MODES if repeat % 2 == 0 else MODES[::-1]:
                path = vectors.copied(source, scale.new("latency.pagehop"))
                done = measured(scale, mode, path, base, asked)
                runs[mode].append(done)
                report.say(f"latency: {mode}: p50 {done['p50']:.0f} us, p99 {done['p99']:.0f} us{_wrote(done)}")
    report.extra["latency"] = runs
    for mode in MODES:
        _add_rows(report, scale, mode, runs)


def measured(scale: Scale, mode: str, path: Path, base: Float32, asked: Float32) -> Run:
    """One figure: microseconds of `searches` searches, and what was written meanwhile."""
    begin = {
        "idle reader": _nobody,
        "idle writer": _nobody,
        "writing thread": _thread,
        "writing process": _process,
    }[mode]
    write = mode in ("idle writer", "writing thread")
    with pagehop.open(path, cache=HOT, write=write) as index:
        index.search(asked, k=K)
        with begin(scale, index, path, base) as wrote:
            cpu, wall = machine.cpu_seconds(), time.perf_counter()
            taken = _searches(index, asked, scale.searches)
            wall, cpu = time.perf_counter() - wall, machine.cpu_seconds() - cpu
        return percentiles(taken) | {"searches": len(taken), "wall_s": wall, "cpu_s": cpu, "wrote": wrote}


def _searches(index: pagehop.Index, asked: Float32, count: int) -> list[float]:
    clock, taken = time.perf_counter_ns, []
    for number in range(count):
        query = asked[number % len(asked)]
        begun = clock()
        hits = index.search(query, k=K)
        taken.append((clock() - begun) / 1e3)
        if len(hits.ids) != K:
            raise RuntimeError(f"a search found {len(hits.ids)} rows instead of {K}")
    return taken


@contextmanager
def _nobody(_scale: Scale, _index: pagehop.Index, _path: Path, _base: Float32) -> Iterator[Run]:
    yield {}


@contextmanager
def _thread(scale: Scale, index: pagehop.Index, _path: Path, base: Float32) -> Iterator[Run]:
    """A thread of this process adds to the index that is searched."""
    stop, wrote, failed = threading.Event(), Run(), list[BaseException]()
    rows = np.array(base[scale.rows :])

    def write() -> None:
        try:
            wrote.update(flat_out(index, rows, scale.rows, scale.batch, stop.is_set))
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield wrote
    finally:
        stop.set()
        writer.join()
    if failed:
        raise failed[0]


@contextmanager
def _process(scale: Scale, index: pagehop.Index, path: Path, base: Float32) -> Iterator[Run]:
    """Another process adds to the file; the index that is searched was opened for reading."""
    wrote, rows = Run(), len(index)
    assert isinstance(base, np.memmap)
    with Writer("add", path, base.filename, scale.rows, scale.batch) as writer:
        writer.line()
        yield wrote
        wrote.update(writer.ended())
    wrote["seen_by_the_reader"] = index.info().rows - rows


def _wrote(done: Run) -> str:
    wrote = done["wrote"]
    return f", {wrote['rows_per_s']:,.0f} rows a second added meanwhile" if wrote else ""


def _add_rows(report: Report, scale: Scale, mode: str, runs: dict[str, list[Run]]) -> None:
    taken = runs[mode]
    wrote = [run["wrote"] for run in taken if run["wrote"]]
    detail = f"p50 {spread(taken, 'p50')}; p99 {spread(taken, 'p99')}; p99.9 {median_of(taken, 'p999'):,.0f} us"
    if wrote:
        idle = runs["idle writer" if mode == "writing thread" else "idle reader"]
        detail += (
            f"; {median_of(taken, 'p99') / median_of(idle, 'p99'):.2f} times the idle p99"
            f"; {median_of(wrote, 'rows_per_s'):,.0f} rows a second added meanwhile"
        )
        if any(run["ran_out"] for run in wrote):
            detail += "; the WRITER RAN OUT of rows before the searches ended"
    for name in ["p50", "p99"]:
        report.add(
            Row(
                f"one search, {mode}, {name}",
                f"{scale.rows:,} x {scale.dim}, {CORES} cores",
                median_of(taken, name),
                None,
                None,
                " us",
                more_is_better=False,
                detail=detail if name == "p99" else "",
            )
        )
