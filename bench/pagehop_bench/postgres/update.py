"""One statement that updates another column of many rows, which is indexed: every new version goes into all indexes."""

from __future__ import annotations

import statistics
import time
from typing import Any

from devserver import Server
from pagehop_bench.measure import K
from pagehop_bench.postgres import sets, tables
from pagehop_bench.postgres.changed import metered
from pagehop_bench.postgres.loadgen import ask
from pagehop_bench.postgres.scale import Scale
from pagehop_bench.postgres.servers import Running, memory_for, running
from pagehop_bench.postgres.sets import Files
from pagehop_bench.postgres.tables import EF_SEARCH, HALFVEC, PAGEHOP, PAGEHOP_HALFVEC, SIDES, SLACK, VECTOR, Side
from pagehop_bench.report import Report, Row, columns

# A setting of each engine, to see that what was found before is found afterwards.
_LOOKED = {"pagehop": (SLACK, 0.1), "pgvector": (EF_SEARCH, 40)}
_SIDES = (*SIDES, PAGEHOP_HALFVEC)
# Tables of one type are compared: the new versions of their rows are as large.
_COMPARED = [(PAGEHOP, VECTOR), (PAGEHOP_HALFVEC, HALFVEC)]


def run(report: Report, scale: Scale, server: Server, name: str) -> None:
    """Measures one set."""
    begun = time.perf_counter()
    dataset = sets.load(name, scale)
    files = sets.export(dataset, scale, K)
    rounds = min(scale.repeats, len(dataset.base) // scale.updated)
    if rounds < 1:
        raise ValueError(f"{name} has {len(dataset.base):,} rows, too few to update {scale.updated:,}")
    report.say(f"update {name}: {scale.updated:,} of {len(dataset.base):,} rows, {rounds} times others")
    looked: dict[str, dict[str, Any]] = {}
    spent: dict[str, list[dict[str, Any]]] = {side.name: [] for side in _SIDES}
    with running(server, **memory_for(dataset.base)) as served:
        about = served.about()
        for side in _SIDES:
            tables.fill(served.connection, side, dataset.base)
            served.connection.execute(f"CREATE INDEX ON {side.table} (note)")
            tables.build(served.connection, side, 2)
            size = tables.index_bytes(served.connection, side)
            looked[side.name] = {"before": _look(served, side, scale, files), "bytes_before": size}
        for number in range(rounds):
            for side in _SIDES if number % 2 == 0 else _SIDES[::-1]:
                spent[side.name].append(_update(served, side, scale.updated, number))
                report.say("  {}: {wall_s:.2f} s, {cpu_s:.2f} CPU s".format(side.name, **spent[side.name][-1]))
        for side in _SIDES:
            size = tables.index_bytes(served.connection, side)
            looked[side.name] |= {"after": _look(served, side, scale, files), "bytes_after": size}
    runs = {side: _median(rounds) | looked[side] for side, rounds in spent.items()}
    report.extra[f"update {name}"] = {"server": about, "runs": runs, "rounds": spent}
    _say_all(report, name, runs)
    _compare(report, name, scale.updated, runs)
    report.say(f"update {name}: {time.perf_counter() - begun:.0f} s")


def _update(served: Running, side: Side, updated: int, number: int) -> dict[str, Any]:
    """Updates rows that no round before did."""
    first = number * updated
    with metered(served, updated) as spent:
        served.connection.execute(
            f"UPDATE {side.table} SET note = note + 1 WHERE id >= {first} AND id < {first + updated}"
        )
    return spent


def _median(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The middle of each figure."""
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def _look(served: Running, side: Side, scale: Scale, files: Files) -> dict[str, float | None]:
    """Recall and blocks of a search."""
    family, value = _LOOKED[side.engine]
    asked = ask(
        served.cluster,
        side.search,
        count=scale.queries,
        queries=files.queries,
        truth=files.truth,
        settings=family.settings(value),
        index=side.index,
    )
    return {"recall": asked.recall, "blocks": asked.hit_blocks + asked.read_blocks}


def _compare(report: Report, name: str, updated: int, runs: dict[str, dict[str, Any]]) -> None:
    for what, key in [("seconds", "wall_s"), ("bytes of log", "wal_bytes")]:
        for side, peer in _COMPARED:
            ours, theirs = float(runs[side.name][key]), float(runs[peer.name][key])
            report.add(
                Row(
                    f"update of another column, {what} over pgvector, {side.type}, {name}",
                    f"{updated:,} rows",
                    ours / theirs,
                    None,
                    None,
                    "x",
                    more_is_better=False,
                    detail=f"{side.name} {ours:,.2f}, {peer.name} {theirs:,.2f}",
                )
            )


def _say_all(report: Report, name: str, runs: dict[str, dict[str, Any]]) -> None:
    lines = [
        ["side", "seconds", "CPU seconds", "log B/row", "without images", "index grew MB", "recall", "blocks a query"]
    ]
    for side, one in runs.items():
        before, after = one["before"], one["after"]
        lines.append(
            [
                side,
                f"{one['wall_s']:.2f}",
                f"{one['cpu_s']:.2f}",
                f"{one['wal_bytes_per_row']:,.0f}",
                f"{one['wal_record_bytes_per_row']:,.0f}",
                f"{(one['bytes_after'] - one['bytes_before']) / 1e6:,.1f}",
                f"{before['recall']:.4f} to {after['recall']:.4f}",
                f"{before['blocks']:,.0f} to {after['blocks']:,.0f}",
            ]
        )
    report.say(f"\nupdate {name}\n{columns(lines)}\n")
