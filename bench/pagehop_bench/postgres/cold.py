"""The first queries after a start: nothing in shared_buffers, which are small, nothing in the kernel's cache.

Each side searches with the least setting that reaches the wanted recall. The load generator asks the first query six
times before its clock, so one query of those counted finds its pages in memory, on all sides.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import Any

from devserver import Server
from pagehop_bench import machine
from pagehop_bench.curve import bracket, ladder
from pagehop_bench.measure import K, Spread
from pagehop_bench.postgres import sets, tables
from pagehop_bench.postgres.loadgen import ask
from pagehop_bench.postgres.scale import Scale
from pagehop_bench.postgres.servers import (
    Running,
    connected,
    fingerprint,
    forget_files,
    memory_for,
    on_one_core,
    running,
)
from pagehop_bench.postgres.sets import Files
from pagehop_bench.postgres.tables import EF_SEARCH, HALFVEC, PAGEHOP, SIDES, SLACK, VECTOR, Side
from pagehop_bench.report import Report, Row, columns

# Queries that decide which setting has the wanted recall.
_SEARCHED_QUERIES = 1_000


@dataclass(frozen=True)
class Chosen:
    """The setting of a side, and the recall that it has."""

    settings: dict[str, str]
    shown: str
    recall: float


def run(report: Report, scale: Scale, server: Server, name: str, method: str) -> None:
    """Measures one set on one server, with that io_method."""
    begun = time.perf_counter()
    dataset = sets.load(name, scale)
    files = sets.export(dataset, scale, K)
    what = f"{name}, {method}"
    report.say(f"cold {what}: Postgres {server.version}, shared_buffers {scale.cold_buffers}")
    if refused := forget_files():
        report.say(f"cold {what}: left out, {refused}")
        report.extra[f"cold {what}"] = refused
        return
    with running(server, **memory_for(dataset.base), io_method=method) as served:
        for side in SIDES:
            tables.fill(served.connection, side, dataset.base)
            tables.build(served.connection, side, 2)
        chosen = {side.name: _choose(served, side, scale, files) for side in SIDES}
        sizes = {side.name: tables.index_bytes(served.connection, side) for side in SIDES}
        served.connection.close()
        served.cluster.configure({"shared_buffers": scale.cold_buffers})
        runs: dict[str, list[dict[str, Any]]] = {side.name: [] for side in SIDES}
        for repeat in range(scale.repeats):
            for side in SIDES if repeat % 2 == 0 else SIDES[::-1]:
                if setting := chosen[side.name]:
                    runs[side.name].append(_started(served, side, scale, files, setting))
            report.say(f"  repeat {repeat + 1} of {scale.repeats} done")
        with connected(served.cluster) as connection:
            about = Running(served.cluster, connection).about()
    report.extra[f"cold {what}"] = {
        "server": about | {"extension": fingerprint(server)},
        "chosen": {side: setting and [setting.shown, setting.recall] for side, setting in chosen.items()},
        "index_bytes": sizes,
        "runs": runs,
    }
    _say_all(report, what, chosen, runs)
    for title, key in [("cold blocks a query", "read_blocks"), ("cold mean us of first queries", "mean_us")]:
        _compare(report, f"{title}, {what}", scale, runs, key)
    report.say(f"cold {what}: {time.perf_counter() - begun:.0f} s")


def _choose(served: Running, side: Side, scale: Scale, files: Files) -> Chosen | None:
    """The least setting with the wanted recall."""
    family, unit = (SLACK, 1000) if side.engine == "pagehop" else (EF_SEARCH, 1)

    @functools.cache
    def recall_of(effort: int) -> float:
        asked = ask(
            served.cluster,
            side.search,
            count=min(scale.queries, _SEARCHED_QUERIES),
            queries=files.queries,
            truth=files.truth,
            settings=family.settings(effort / unit),
            index=side.index,
        )
        return asked.recall or 0.0

    found = bracket(scale.cold_recall, ladder(K)[:-6], recall_of)
    if found is None:
        return None
    value = found.high / unit
    return Chosen(family.settings(value), family.shown(value), recall_of(found.high))


def _started(served: Running, side: Side, scale: Scale, files: Files, setting: Chosen) -> dict[str, Any]:
    """Starts the server with nothing in memory, and asks its first queries."""
    # Its counters outlive it.
    with connected(served.cluster) as connection:
        connection.execute("SELECT pg_stat_reset()")
    served.cluster.stop()
    if refused := forget_files():
        raise RuntimeError(refused)
    served.cluster.start()
    disk = machine.device_bytes_read(served.cluster.folder)
    with on_one_core(served.cluster):
        asked = ask(
            served.cluster,
            side.search,
            count=scale.cold_queries,
            queries=files.queries,
            truth=files.truth,
            settings=setting.settings,
            index=side.index,
        )
    now = machine.device_bytes_read(served.cluster.folder)
    told = asked.as_json() | {"mean_us": asked.latency_us["mean"], "p50_us": asked.latency_us["p50"]}
    # With what was read to start and to connect.
    told["disk_bytes"] = None if disk is None or now is None else now - disk
    with connected(served.cluster) as connection:
        told |= _blocks(connection, side)
    return told


def _blocks(connection: tables.Connection, side: Side) -> dict[str, int]:
    """Blocks of the index and of the table that were read since the server started, by its own counters."""
    index, heap = (
        int(tables.one(connection, f"SELECT {column} FROM {view} WHERE {where}"))
        for column, view, where in [
            ("idx_blks_read", "pg_statio_user_indexes", f"indexrelname = '{side.index}'"),
            ("heap_blks_read", "pg_statio_user_tables", f"relname = '{side.table}'"),
        ]
    )
    return {"index_blocks_read": index, "table_blocks_read": heap}


def _compare(report: Report, what: str, scale: Scale, runs: dict[str, list[dict[str, Any]]], key: str) -> None:
    at = f"recall@10 {scale.cold_recall:g}"
    medians = {side: Spread.of([float(one[key]) for one in found]).median for side, found in runs.items() if found}
    peers = {side.name: medians[side.name] for side in [VECTOR, HALFVEC] if side.name in medians}
    detail = ", ".join(f"{side} {figure:,.1f}" for side, figure in medians.items())
    if PAGEHOP.name not in medians or not peers:
        report.add(Row(what, at, None, None, None, "x", more_is_better=False, detail=f"not reached: {detail}"))
        return
    least = min(peers, key=lambda side: peers[side])
    ratio = medians[PAGEHOP.name] / peers[least]
    report.add(Row(what, at, ratio, None, None, "x", more_is_better=False, detail=f"over {least}: {detail}"))


def _say_all(
    report: Report, what: str, chosen: dict[str, Chosen | None], runs: dict[str, list[dict[str, Any]]]
) -> None:
    lines = [
        ["side", "setting", "recall@10", "read/query", "of index", "of table", "p50 us", "mean us", "max us", "disk MB"]
    ]
    for side, found in runs.items():
        setting = chosen[side]
        if setting is None:
            lines.append([side, "recall not reached", *["-"] * 8])
            continue
        for one in found:
            count = one["count"]
            lines.append(
                [
                    side,
                    setting.shown,
                    f"{setting.recall:.4f}",
                    f"{one['read_blocks']:,.1f}",
                    f"{one['index_blocks_read'] / count:,.1f}",
                    f"{one['table_blocks_read'] / count:,.1f}",
                    f"{one['p50_us']:,.0f}",
                    f"{one['mean_us']:,.0f}",
                    f"{one['latency_us']['max']:,.0f}",
                    "-" if one["disk_bytes"] is None else f"{one['disk_bytes'] / 1e6:,.1f}",
                ]
            )
    report.say(f"\ncold {what}\n{columns(lines)}\n")
