"""Rows inserted into an indexed table: one by one with a commit each, by one and by many clients; and by COPY.

All sides begin with the same rows and get the same others, one way after the other, so each way finds a few more
rows than the one before. Before each a checkpoint is made: the log begins with images of the pages that are changed,
and its bytes are told with and without them. A client that does not wait for the disk (synchronous_commit off) shows
what is left of the time without it. Nothing is pinned to a core.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from devserver import Server
from pagehop_bench.datasets import Dataset
from pagehop_bench.engines import Float32
from pagehop_bench.measure import K
from pagehop_bench.postgres import sets, tables
from pagehop_bench.postgres.changed import metered
from pagehop_bench.postgres.loadgen import ask
from pagehop_bench.postgres.scale import Scale
from pagehop_bench.postgres.servers import Running, memory_for, running
from pagehop_bench.postgres.tables import HALFVEC, PAGEHOP, SIDES, VECTOR, Side
from pagehop_bench.report import Report, Row, columns

# Rows of each way that are asked for afterwards: each should find itself.
_CHECKED = 200

Runs = dict[str, dict[str, dict[str, Any]]]


def run(report: Report, scale: Scale, server: Server, name: str) -> None:
    """Measures one set; its last rows are those inserted."""
    begun = time.perf_counter()
    dataset = sets.load(name, scale)
    ways = {"1 client": (1, True), "1, not waiting": (1, False), f"{scale.clients} clients": (scale.clients, True)}
    kept = len(dataset.base) - (len(ways) + 1) * scale.inserted
    if kept < K:
        raise ValueError(f"{name} has {len(dataset.base):,} rows, too few to insert {scale.inserted:,} in each way")
    report.say(f"insert {name}: {kept:,} rows, and {scale.inserted:,} more in each way")
    runs: Runs = {}
    with running(server, **memory_for(dataset.base)) as served:
        about = served.about()
        for side in SIDES:
            tables.fill(served.connection, side, dataset.base[:kept])
            tables.build(served.connection, side, 2)
            runs[side.name] = told = {}
            for number, (way, (clients, waiting)) in enumerate(ways.items()):
                rows = _part(dataset, kept, scale, number)
                told[way] = _by_clients(served, side, scale, rows, clients, waiting=waiting)
                told[way] |= _look(served, side, rows)
                _tell(report, side, way, told[way])
            rows = _part(dataset, kept, scale, len(ways))
            told["COPY"] = _by_copy(served, side, len(dataset.base), rows)
            told["COPY"] |= _look(served, side, rows)
            _tell(report, side, "COPY", told["COPY"])
    report.extra[f"insert {name}"] = {"server": about, "rows_before": kept, "runs": runs}
    _say_all(report, name, runs)
    for way in [*ways, "COPY"]:
        _compare(report, name, runs, way)
    report.say(f"insert {name}: {time.perf_counter() - begun:.0f} s")


def _part(dataset: Dataset, kept: int, scale: Scale, number: int) -> Float32:
    first = kept + number * scale.inserted
    return np.asarray(dataset.base[first : first + scale.inserted])


def _by_clients(
    served: Running, side: Side, scale: Scale, rows: Float32, clients: int, *, waiting: bool
) -> dict[str, Any]:
    """Each row is a statement and a transaction of its own. The generator inserts a few more before its clock."""
    queries = sets.export_rows("inserted", rows, scale)
    before = tables.count(served.connection, side)
    with metered(served, len(rows)) as spent:
        asked = ask(
            served.cluster,
            side.insert,
            count=len(rows),
            queries=queries,
            settings={} if waiting else {"synchronous_commit": "off"},
            connections=clients,
            rows=1,
        )
    added = tables.count(served.connection, side) - before
    if added < len(rows):
        raise RuntimeError(f"{side.name}: {added:,} rows came into the table, {len(rows):,} were inserted")
    # By the generator's clock, which runs while it inserts and not while it connects.
    return spent | {
        "rows_per_s": asked.qps,
        "wall_s": asked.elapsed_s,
        "cpu_us_per_row": asked.server_total_cpu_us,
        "client_cpu_us_per_row": asked.client_cpu_us,
        "latency_us": asked.latency_us,
        "other_busy_cores": asked.other_busy_cores,
        "load_average": asked.load_average,
        "added_by_the_way": added - len(rows),
    }


def _by_copy(served: Running, side: Side, first: int, rows: Float32) -> dict[str, Any]:
    # Beyond the ids that the clients got.
    with metered(served, len(rows)) as spent:
        tables.copy(served.connection, side, 2 * first, rows)
    return spent


def _look(served: Running, side: Side, rows: Float32) -> dict[str, int]:
    """How many of some rows come first when they are asked for, or one just like them."""
    checked = rows[:: max(1, len(rows) // _CHECKED)]
    nearest = f"SELECT embedding <-> %s::{side.type} FROM {side.table} ORDER BY embedding <-> %s::{side.type} LIMIT 1"
    found = 0
    for row in checked:
        answer = served.connection.execute(nearest, (str(row.tolist()), str(row.tolist()))).fetchone()
        # Components of a halfvec are rounded, those of what is asked for as well.
        found += answer is not None and answer[0] == 0
    return {"checked": len(checked), "found_themselves": found}


def _tell(report: Report, side: Side, way: str, run: dict[str, Any]) -> None:
    words = (
        "  {}, {}: {rows_per_s:,.0f} rows/s, {cpu_us_per_row:,.0f} CPU us, {wal_bytes_per_row:,.0f} bytes of log a row"
    )
    report.say(words.format(side.name, way, **run))
    if run["found_themselves"] < run["checked"]:
        report.say("  {}, {}: only {found_themselves} of {checked} rows find themselves".format(side.name, way, **run))


def _compare(report: Report, name: str, runs: Runs, way: str) -> None:
    ours = runs[PAGEHOP.name][way]
    for what, key, more in [
        ("insert, rows/s over pgvector", "rows_per_s", True),
        ("insert, bytes of log over pgvector", "wal_bytes_per_row", False),
    ]:
        peers = {side.name: float(runs[side.name][way][key]) for side in [VECTOR, HALFVEC]}
        peer = (max if more else min)(peers, key=lambda side: peers[side])
        figures = {PAGEHOP.name: float(ours[key])} | peers
        detail = f"over {peer}: " + ", ".join(f"{side} {figure:,.0f}" for side, figure in figures.items())
        report.add(Row(f"{what}, {name}", way, ours[key] / peers[peer], None, None, "x", more, detail))


def _say_all(report: Report, name: str, runs: Runs) -> None:
    lines = [["side", "way", "rows/s", "p50 us", "p99 us", "CPU us/row", "log B/row", "without images", "found"]]
    for side, ways in runs.items():
        for way, one in ways.items():
            latency = one.get("latency_us", {})
            lines.append(
                [
                    side,
                    way,
                    f"{one['rows_per_s']:,.0f}",
                    f"{latency['p50']:,.0f}" if latency else "-",
                    f"{latency['p99']:,.0f}" if latency else "-",
                    f"{one['cpu_us_per_row']:,.0f}",
                    f"{one['wal_bytes_per_row']:,.0f}",
                    f"{one['wal_record_bytes_per_row']:,.0f}",
                    f"{one['found_themselves']} of {one['checked']}",
                ]
            )
    report.say(f"\ninsert {name}\n{columns(lines)}\n")
