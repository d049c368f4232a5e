"""Taking deleted rows out: 1% of the rows, chosen at random, deleted and vacuumed again and again.

Told apart: the delete, and the vacuum. pgvector does the same to its table and index. The vacuum
should cost in proportion to what was deleted, so the same share of ten times the rows shows what it does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

import pagehop
from pagehop_bench import machine
from pagehop_bench.changes import vectors
from pagehop_bench.changes.meter import Spent, median_of, spent, spread
from pagehop_bench.changes.scale import Scale, bytes_of
from pagehop_bench.engines import Float32, Int64
from pagehop_bench.engines.pagehop_file import HOT
from pagehop_bench.engines.pgvector import PgVector
from pagehop_bench.engines.postgres import NotInstalled, Server
from pagehop_bench.report import Report, Row

Run = dict[str, Any]


def run(report: Report, scale: Scale) -> None:
    """Measures both engines, each over the same deletions."""
    base = vectors.rows(scale, scale.rows)
    runs = {"pagehop": _pagehop(scale, base)}
    if scale.peer:
        try:
            runs["pgvector"] = _pgvector(report, scale, base)
        except NotInstalled as error:
            report.say(f"pgvector is left out: {error}")
    report.extra["vacuum"] = runs
    for name, taken in runs.items():
        deleted = median_of(taken, "rows")
        report.add(
            Row(
                f"vacuum of {scale.vacuumed:.1%} deleted, {name}",
                f"{scale.rows:,} x {scale.dim}",
                median_of(taken, "vacuum_wall_s"),
                120.0 if name == "pagehop" else None,
                20.0 if name == "pagehop" else None,
                " s",
                more_is_better=False,
                detail=(
                    f"{spread(taken, 'vacuum_wall_s')}; {median_of(taken, 'vacuum_cpu_s'):.2f} CPU s, "
                    f"{1e6 * median_of(taken, 'vacuum_cpu_s') / deleted:,.0f} CPU us a row deleted; "
                    f"the delete before it {median_of(taken, 'delete_wall_s'):.2f} s, "
                    f"{median_of(taken, 'delete_cpu_s'):.2f} CPU s"
                ),
            )
        )


def deletions(scale: Scale) -> list[Int64]:
    """For each repeat other rows, `vacuumed` of them all."""
    size = max(1, int(scale.vacuumed * scale.rows))
    order = np.random.default_rng(8).permutation(scale.rows)
    return [order[size * repeat : size * (repeat + 1)] for repeat in range(scale.repeats)]


def _pagehop(scale: Scale, base: Float32) -> list[Run]:
    path, taken = vectors.built(scale, base), []
    with pagehop.open(path, cache=HOT, write=True, durability="commit") as index:
        index.search(np.asarray(base[::10]), k=10)
        for chosen in deletions(scale):
            figures, (gone, vacuumed) = _measured(partial(spent, index), partial(index.delete, chosen), index.vacuum)
            if gone.deleted != len(chosen):
                raise RuntimeError(f"{len(chosen)} rows were to be deleted, {gone.deleted} were")
            did = {"freed": vacuumed.freed, "waiting": vacuumed.waiting, "repaired": vacuumed.repaired}
            taken.append({"rows": len(chosen)} | figures | did | {"all_bytes": bytes_of(path)})
    return taken


def _pgvector(report: Report, scale: Scale, base: Float32) -> list[Run]:
    with Server(scale.folder / "postgres") as server, server.connect() as connection:
        table = PgVector(connection, scale.dim)
        table.build(base)
        # Deleting finds its rows through an index, as ours does.
        table.index_ids()
        report.extra["vacuum server"] = server.shown() | {"pgvector": table.version()}

        def totals() -> Spent:
            usage = server.usage()
            cpu = usage.cpu_s + machine.cpu_seconds()
            return Spent(time.perf_counter(), cpu, table.wal_bytes(), None, usage.handed_bytes, usage.written_bytes)

        taken = []
        for chosen in deletions(scale):
            figures, _ = _measured(totals, partial(table.delete, chosen), table.vacuum)
            taken.append({"rows": len(chosen)} | figures | table.sizes())
            report.say("vacuum: pgvector: {vacuum_wall_s:.1f} s".format(**figures))
        return taken


def _measured(
    totals: Callable[[], Spent], delete: Callable[[], Any], vacuum: Callable[[], Any]
) -> tuple[Run, tuple[Any, Any]]:
    """What the two steps cost, each under its name, and what they said."""
    figures: Run = {}
    said = []
    for name, work in [("delete", delete), ("vacuum", vacuum)]:
        before = totals()
        said.append(work())
        figures |= {f"{name}_{key}": value for key, value in asdict(totals().since(before)).items()}
    return figures, (said[0], said[1])
