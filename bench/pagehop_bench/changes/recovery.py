"""A writer killed with a full log: seconds until the file is open again, and until its first answer.

The writer is a process of its own, killed with SIGKILL in the middle of its work once its log since the last
checkpoint is nearly as long as wanted. What it left is kept as an image, and every figure begins with a copy of
the image, so recovering it once does not help the next. Nothing of the copy is in the page cache. What the
writer had been told is durable must be there: the last such row is asked for.

A kill is not a loss of power: the page cache survives it. Power loss is for the store's own tests.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

import pagehop
from pagehop_bench import machine
from pagehop_bench.changes import vectors
from pagehop_bench.changes.meter import median_of, spread
from pagehop_bench.changes.scale import Scale, bytes_of, files_of
from pagehop_bench.changes.writer import Writer
from pagehop_bench.engines import Float32
from pagehop_bench.engines.pagehop_file import HOT
from pagehop_bench.measure import K
from pagehop_bench.report import Report, Row

# Of the log: beyond this part of it a checkpoint may begin before the writer is killed.
_FULL = 0.95
WAYS = {"writer": True, "reader": False}

Run = dict[str, Any]


def run(report: Report, scale: Scale) -> None:
    """Kills one writer, and opens what it left `repeats` times as a writer and as a reader."""
    base = vectors.rows(scale, scale.rows + scale.added)
    image = scale.new("killed.pagehop")
    shutil.copyfile(vectors.built(scale, base[: scale.rows]), image)
    left = killed(scale, image, base)
    report.say("recovery: killed with {logged:,} bytes of log, {durable:,} rows durable".format(**left))
    runs: dict[str, list[Run]] = {way: [] for way in WAYS}
    for _ in range(scale.repeats):
        for way in WAYS:
            path = vectors.copied(image, scale.new("recovered.pagehop"))
            runs[way].append(opened(path, base, left["durable"], write=WAYS[way]))
            if way == "writer" and not runs[way][-1]["complete"]:
                raise RuntimeError(f"of {left['durable']:,} durable rows not all are there: {runs[way][-1]}")
    report.extra["recovery"] = {"left": left, "runs": runs}
    for way, taken in runs.items():
        full = "" if left["full"] else f"; the log was NEVER FULL, at most {left['logged']:,} bytes"
        full += "" if all(run["complete"] for run in taken) else "; it does NOT see all that is durable"
        report.add(
            Row(
                f"open after kill -9, as a {way}",
                f"{left['logged'] / 2**20:,.0f} MiB of log",
                median_of(taken, "open_s"),
                None,
                None,
                " s",
                more_is_better=False,
                detail=(
                    f"{spread(taken, 'open_s')}; {median_of(taken, 'cpu_s'):.2f} CPU s; "
                    f"first answer after {median_of(taken, 'answer_s'):.3f} s{full}"
                ),
            )
        )


def killed(scale: Scale, path: Path, base: Float32) -> Run:
    """Lets a process add to `path` until its log is full, and kills it; what it had said by then.

    Where a checkpoint comes before the log is full, or rows run out, the last words tell it: not `full`.
    """
    assert isinstance(base, np.memmap)
    wanted = int(_FULL * scale.log_bytes)
    with Writer("fill", path, base.filename, scale.rows, scale.batch, wanted) as writer:
        said = writer.line()
        while not said["full"]:
            following = writer.line()
            if "ran_out" in following:
                break
            said = following
        said = next((late for late in reversed(writer.killed()) if "durable" in late), said)
    return said | {"wanted_log_bytes": wanted, "all_bytes": bytes_of(path)}


def opened(path: Path, base: Float32, durable: int, *, write: bool) -> Run:
    """Opens what a killed writer left, and asks for the last row it had been told is durable.

    `complete` says whether that row and as many as were durable are there. A writer must have them; a reader that
    opens before any writer may have only what was checkpointed.
    """
    for file in files_of(path):
        machine.drop_page_cache(file)
    query = np.array(base[durable - 1])
    cpu, begun = machine.cpu_seconds(), time.perf_counter()
    with pagehop.open(path, cache=HOT, write=write) as index:
        after_open = time.perf_counter()
        hits = index.search(query, k=K)
        after_answer = time.perf_counter()
        cpu = machine.cpu_seconds() - cpu
        rows, found = len(index), _found(hits, durable - 1)
    return {
        "open_s": after_open - begun,
        "answer_s": after_answer - begun,
        "cpu_s": cpu,
        "rows": rows,
        "complete": rows >= durable and found,
    }


def _found(hits: pagehop.Hits, row: int) -> bool:
    """Whether the row is among the answers, or rows at its very distance are: some vectors repeat."""
    return row in hits.ids or float(hits.distances[-1]) == float(hits.distances[0])
