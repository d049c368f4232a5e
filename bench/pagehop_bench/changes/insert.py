"""Rows added one small durable batch after another: rate, CPU and bytes written, beside pgvector.

Both begin with a bulk-built index over the same rows and add the same rows in the same order and batches,
from one thread or one connection, each batch durable before the next. CPU seconds are those of all
processes concerned, the client's included. pgvector adds only for so long; rates are compared over the rows
that it managed. It gets the way of adding that is faster here, and its recall is told beside ours.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

import pagehop
from pagehop_bench import machine
from pagehop_bench.changes import vectors
from pagehop_bench.changes.meter import Spent, disk_sync_ms, median_of, percentiles, spent, spread
from pagehop_bench.changes.scale import Scale, bytes_of
from pagehop_bench.engines import Float32, Int64
from pagehop_bench.engines.pagehop_file import HOT
from pagehop_bench.engines.pgvector import WAYS, PgVector, Way
from pagehop_bench.engines.postgres import NotInstalled, Server
from pagehop_bench.measure import K, counted
from pagehop_bench.report import Report, Row

# A rate is told for each tenth of the added rows.
_STEPS = 10
_EF_SEARCH = (40, 100)

Run = dict[str, Any]


class Adder(Protocol):
    """What is measured: something that adds durably and says what it has spent."""

    def add(self, ids: Int64, rows: Float32) -> None:
        """Adds a batch; it is durable on return."""

    def spent(self) -> Spent:
        """Totals so far."""

    def checkpoint(self) -> None:
        """Writes what the log still holds into pages."""


class PagehopAdder:
    """An index open for writing."""

    def __init__(self, index: pagehop.Index) -> None:
        self._index = index

    def add(self, ids: Int64, rows: Float32) -> None:
        self._index.add(ids, rows)

    def spent(self) -> Spent:
        return spent(self._index)

    def checkpoint(self) -> None:
        self._index.checkpoint()


class PgVectorAdder:
    """A table in a server; the client's CPU and the server's together."""

    def __init__(self, server: Server, table: PgVector, way: Way) -> None:
        self._server, self._table, self._way = server, table, way

    def add(self, ids: Int64, rows: Float32) -> None:
        self._table.add(ids, rows, self._way)

    def spent(self) -> Spent:
        usage = self._server.usage()
        cpu = usage.cpu_s + machine.cpu_seconds()
        return Spent(time.perf_counter(), cpu, self._table.wal_bytes(), None, usage.handed_bytes, usage.written_bytes)

    def checkpoint(self) -> None:
        self._table.checkpoint()


def run(report: Report, scale: Scale, wanted: set[str]) -> None:
    """Measures both engines; `wanted` says which lines are told: `insert`, `bytes` or both."""
    base = vectors.rows(scale, scale.rows + scale.added)
    asked = vectors.queries(scale, scale.checked)
    report.extra["disk_sync_ms"] = disk_sync_ms(scale.folder)
    ours: list[Run] = []
    peers: list[Run] = []
    for repeat in range(scale.repeats):
        for measure in [_pagehop, _pgvector] if repeat % 2 == 0 else [_pgvector, _pagehop]:
            if measure is _pagehop:
                ours.append(_pagehop(report, scale, base, asked))
            elif scale.peer:
                try:
                    peers.append(_pgvector(report, scale, base, asked))
                except NotInstalled as error:
                    report.say(f"pgvector is left out: {error}")
                    report.extra["pgvector"] = str(error)
        report.say(f"insert: repeat {repeat + 1} of {scale.repeats} done")
    report.extra["insert"] = {"pagehop": ours, "pgvector": peers}
    if "insert" in wanted:
        _say_rates(report, scale, ours, peers)
    if "bytes" in wanted:
        _say_bytes(report, scale, ours, peers)


def added(
    engine: Adder, base: Float32, first: int, batch: int, *, seconds: float | None = None, steps: int = _STEPS
) -> Run:
    """Adds `base[first:]` in batches, for at most so many seconds; what it cost step by step, and in all.

    A step begun is ended early when the time is over. Vectors come into memory outside of what is timed.
    """
    stop = len(base)
    size = max(batch, -(-(stop - first) // steps))
    taken: list[dict[str, Any]] = []
    lasted: list[float] = []
    at = first
    while at < stop and (seconds is None or sum(step["wall_s"] for step in taken) < seconds):
        left = None if seconds is None else seconds - sum(step["wall_s"] for step in taken)
        rows = np.array(base[at : min(at + size, stop)])
        before = engine.spent()
        done = _step(engine, rows, at, batch, left, lasted)
        taken.append({"rows": done} | asdict(engine.spent().since(before)))
        at += done
    before = engine.spent()
    engine.checkpoint()
    last = asdict(engine.spent().since(before))
    return _summary(taken, last) | {"batch_ms": percentiles(lasted), "stopped_early": at < stop}


def _step(engine: Adder, rows: Float32, first: int, batch: int, seconds: float | None, lasted: list[float]) -> int:
    begun = time.perf_counter()
    for start in range(0, len(rows), batch):
        stop = min(start + batch, len(rows))
        before = time.perf_counter()
        engine.add(np.arange(first + start, first + stop), rows[start:stop])
        after = time.perf_counter()
        lasted.append(1e3 * (after - before))
        if seconds is not None and after - begun >= seconds:
            return stop
    return len(rows)


def _summary(steps: list[dict[str, Any]], checkpoint: dict[str, Any]) -> Run:
    rows = sum(step["rows"] for step in steps)
    wall, cpu = sum(step["wall_s"] for step in steps), sum(step["cpu_s"] for step in steps)

    def each(name: str) -> float | None:
        parts = [step[name] for step in [*steps, checkpoint]]
        return None if None in parts else sum(parts) / rows

    return {
        "rows": rows,
        "rows_per_s": rows / wall,
        "cpu_us_per_row": 1e6 * cpu / rows,
        "cpu_us_per_row_with_checkpoint": 1e6 * (cpu + checkpoint["cpu_s"]) / rows,
        "cpu_share": cpu / wall,
        "logged_bytes_per_row": each("logged_bytes"),
        "paged_bytes_per_row": each("paged_bytes"),
        "handed_bytes_per_row": each("handed_bytes"),
        "written_bytes_per_row": each("written_bytes"),
        "steps": [step | {"rows_per_s": step["rows"] / step["wall_s"]} for step in steps],
        "checkpoint": checkpoint,
    }


def over_first(run: Run, rows: int, name: str) -> float:
    """Seconds (`wall_s` or `cpu_s`) that the first `rows` rows of a run took; the last step in proportion."""
    total = 0.0
    for step in run["steps"]:
        part = min(rows, step["rows"])
        total += step[name] * part / step["rows"]
        rows -= part
    if rows > 0:
        raise ValueError(f"the run ended {rows} rows earlier")
    return total


def _on_disk(scale: Scale, before: int | None, done: Run) -> float | None:
    """Bytes a row that the disk took from everyone since `before`."""
    now = machine.device_bytes_written(scale.folder)
    return None if before is None or now is None else (now - before) / float(done["rows"])


def _pagehop(report: Report, scale: Scale, base: Float32, asked: Float32) -> Run:
    path = vectors.copied(vectors.built(scale, base[: scale.rows]), scale.new("insert.pagehop"))
    before = bytes_of(path)
    with pagehop.open(path, cache=HOT, write=True, durability="commit") as index:
        # pgvector's pages are in memory after its build; ours come there by searching.
        index.search(np.asarray(base[: scale.rows : 10]), k=K)
        disk = machine.device_bytes_written(scale.folder)
        done = added(PagehopAdder(index), base, scale.rows, scale.batch)
        done["device_bytes_per_row"] = _on_disk(scale, disk, done)
        if len(index) != scale.rows + done["rows"]:
            raise RuntimeError(f"{done['rows']:,} rows were added to {scale.rows:,}, the index has {len(index):,}")
        found = index.search(asked, k=K)
        done["info"] = index.info()._asdict()
    dataset = vectors.with_truth(scale, "insert", base[: scale.rows + done["rows"]], asked)
    done["recall"] = {"default": counted(dataset, found.ids)["recall"]}
    done["file_bytes"] = {"before": before, "after": bytes_of(path)}
    _tell(report, "pagehop", done)
    return done


def _pgvector(report: Report, scale: Scale, base: Float32, asked: Float32) -> Run:
    with Server(scale.folder / "postgres") as server, server.connect() as connection:
        table = PgVector(connection, scale.dim)
        chosen, tried = _faster_way(scale, server, table, base)
        wall, before = time.perf_counter(), server.usage()
        table.build(base[: scale.rows])
        build = {"wall_s": time.perf_counter() - wall, "cpu_s": server.usage().cpu_s - before.cpu_s}
        report.say("insert: pgvector built {:,} rows in {wall_s:.0f} s, {cpu_s:.0f} CPU s".format(scale.rows, **build))
        disk = machine.device_bytes_written(scale.folder)
        done = added(PgVectorAdder(server, table, chosen), base, scale.rows, scale.batch, seconds=scale.seconds)
        done["device_bytes_per_row"] = _on_disk(scale, disk, done)
        table.must_have(scale.rows + done["rows"])
        found = {effort: table.search(asked, K, effort) for effort in _EF_SEARCH}
        done["server"] = server.shown() | {"pgvector": table.version()}
        done["file_bytes"] = table.sizes()
    dataset = vectors.with_truth(scale, "insert", base[: scale.rows + done["rows"]], asked)
    done["recall"] = {f"ef_search {effort}": counted(dataset, ids)["recall"] for effort, ids in found.items()}
    done |= {"way": chosen, "ways_tried": tried, "build": build, "seconds_allowed": scale.seconds}
    _tell(report, f"pgvector by {chosen}", done)
    return done


def _faster_way(scale: Scale, server: Server, table: PgVector, base: Float32) -> tuple[Way, dict[str, Any]]:
    """Adds a few rows to a small table by each way, and says which took less CPU for a row."""
    rows = min(scale.rows, 5 * scale.tried)
    tried: dict[str, Any] = {}
    for way in WAYS:
        table.build(base[:rows])
        tried[way] = added(PgVectorAdder(server, table, way), base[: rows + scale.tried], rows, scale.batch, steps=1)
        table.must_have(rows + scale.tried)
    return min(WAYS, key=lambda way: float(tried[way]["cpu_us_per_row"])), tried


def _tell(report: Report, name: str, run: Run) -> None:
    words = "insert: {}: {rows:,} rows, {rows_per_s:,.0f} a second, {cpu_us_per_row:,.0f} CPU us a row, recall {recall}"
    report.say(words.format(name, **run))


def _say_rates(report: Report, scale: Scale, ours: list[Run], peers: list[Run]) -> None:
    at = f"{scale.rows:,} + {scale.added:,} x {scale.dim}, batches of {scale.batch}"
    for name, runs in [("pagehop", ours), ("pgvector", peers)]:
        if not runs:
            continue
        first, last = (median_of([run["steps"][step] for run in runs], "rows_per_s") for step in (0, -1))
        early = f"; stopped after {runs[0]['rows']:,} rows" if runs[0]["stopped_early"] else ""
        report.add(
            Row(
                f"rows added a second, {name}",
                at,
                median_of(runs, "rows_per_s"),
                None,
                None,
                "",
                more_is_better=True,
                detail=(
                    f"{spread(runs, 'rows_per_s')}; first tenth {first:,.0f}, last step {last:,.0f}; "
                    f"{median_of(runs, 'cpu_us_per_row'):,.0f} CPU us a row; "
                    f"recall@{K} {_recalls(runs)}{early}"
                ),
            )
        )
    if ours and peers:
        pairs = list(zip(ours, peers, strict=False))
        ratio = [_ratio(mine, theirs, "wall_s") for mine, theirs in pairs]
        by_cpu = [_ratio(mine, theirs, "cpu_s") for mine, theirs in pairs]
        told = [{"wall": wall, "cpu": cpu} for wall, cpu in zip(ratio, by_cpu, strict=True)]
        report.extra["insert"]["over pgvector"] = told
        report.add(
            Row(
                "rows added a second over pgvector",
                "the rows that both added",
                median_of(told, "wall"),
                3.0,
                10.0,
                "x",
                more_is_better=True,
                detail=f"{spread(told, 'wall')}; by CPU seconds {median_of(told, 'cpu'):.2f}",
            )
        )


def _ratio(mine: Run, theirs: Run, name: str) -> float:
    rows = min(mine["rows"], theirs["rows"])
    return over_first(theirs, rows, name) / over_first(mine, rows, name)


def _recalls(runs: list[Run]) -> str:
    return ", ".join(f"{value:.3f} ({name})" for name, value in runs[0]["recall"].items())


def _say_bytes(report: Report, scale: Scale, ours: list[Run], peers: list[Run]) -> None:
    plain = 8 + 4 * scale.dim
    for name, runs in [("pagehop", ours), ("pgvector", peers)]:
        if not runs:
            continue
        logged, paged, handed, written, disk = (
            median_of(runs, f"{part}_bytes_per_row") for part in ["logged", "paged", "handed", "written", "device"]
        )
        said = runs[0]["paged_bytes_per_row"] is not None
        figure = logged + paged if said else handed
        pages = f"{paged:,.0f}" if said else "not told"
        report.add(
            Row(
                f"bytes written a row added, {name}",
                f"{'log and pages' if said else 'handed to the kernel'}, a checkpoint included",
                figure,
                48_000.0 if said else None,
                16_000.0 if said else None,
                "",
                more_is_better=False,
                detail=(
                    f"log {logged:,.0f}, pages {pages}; kernel: handed {handed:,.0f}, write_bytes {written:,.0f}, "
                    f"disk (everyone's) {disk:,.0f}; {figure / plain:.1f} times the row's {plain:,} bytes"
                ),
            )
        )
