"""What an index is worth after many changes: recall, pages a query and bytes, beside a fresh build of the same rows.

`rounds` deletes a random part of the rows, adds them back under the same ids and vectors, vacuums, and does
so again. `replace` gives every row another vector, one small batch after another in random order, with a
vacuum now and then. Searches before and after have the same settings; nothing is tuned in between.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pagehop
from pagehop_bench import datasets, machine
from pagehop_bench.changes import vectors
from pagehop_bench.changes.meter import spent
from pagehop_bench.changes.scale import Scale, bytes_of
from pagehop_bench.datasets import Dataset
from pagehop_bench.engines import Int64
from pagehop_bench.engines.pagehop_file import HOT, knobs, shown
from pagehop_bench.measure import K, counted
from pagehop_bench.report import Report, Row
from pagehop_bench.truth import Truth

# The default of a search, and settings around it: slack 0.02, 0.05, 0.1, 0.2, then a list walked to its end.
EFFORTS = (20, 50, 100, 200, 400)
_DEFAULT = 200
# A vacuum after each such part of the rows was replaced.
_VACUUM_SHARE = 0.1

State = dict[str, Any]


def run(report: Report, scale: Scale) -> None:
    """The rounds, on every set."""
    for name in scale.sets:
        dataset = vectors.dataset(scale, name)
        path = scale.new("rounds.pagehop")
        told = rounds(dataset, path, scale.rounds, scale.share, scale.batch, report)
        report.extra.setdefault("rounds", {})[dataset.name] = told
        _add_rows(report, dataset, f"{scale.rounds} rounds of {scale.share:.0%}", told["fresh"], told["rounds"][-1])


def run_replace(report: Report, scale: Scale) -> None:
    """Replacing, on every set; on generated rows also by rows of another surface."""
    for name in scale.sets:
        for what, before, after in _replacements(scale, name):
            told = replace(before, after, scale.new("replace.pagehop"), scale.batch)
            report.extra.setdefault("replace", {})[f"{after.name}, {what}"] = told
            report.say(f"replace: {after.name}, {what}: {told['rows_per_s']:,.0f} rows a second")
            _add_rows(report, after, f"every row replaced, {what}", told["fresh"], told["replaced"])


def rounds(
    dataset: Dataset, path: Path, count: int, share: float, batch: int, report: Report | None = None
) -> dict[str, Any]:
    """Deletes and adds back `share` of the rows `count` times; the state of the index before and after each time."""
    base = np.asarray(dataset.base)
    random = np.random.default_rng(5)
    fresh, after = _fresh(dataset, path), []
    with pagehop.open(path, cache=HOT, write=True) as index:
        for number in range(count):
            chosen = random.choice(len(base), size=int(share * len(base)), replace=False)
            before = spent(index)
            gone = index.delete(chosen)
            if gone.deleted != len(chosen):
                raise RuntimeError(f"{len(chosen)} rows were to be deleted, {gone.deleted} were")
            for some in _parts(chosen, batch):
                index.add(some, base[some])
            vacuumed = index.vacuum()
            cost = spent(index).since(before)
            index.checkpoint()
            told = state(index, dataset, path) | {
                "wall_s": cost.wall_s,
                "cpu_s": cost.cpu_s,
                "freed": vacuumed.freed,
                "waiting": vacuumed.waiting,
                "repaired": vacuumed.repaired,
            }
            after.append(told)
            if report is not None:
                report.say(f"rounds: {dataset.name}: round {number + 1}: {_words(told)}")
        index.check()
    return {"fresh": fresh, "rounds": after}


def replace(before: Dataset, after: Dataset, path: Path, batch: int) -> dict[str, Any]:
    """Builds `before`, gives each id its vector of `after`; the state then, and that of a fresh build of `after`."""
    fresh = _fresh(after, path)
    pagehop.build(path, before.base, threads=machine.cores(), overwrite=True).close()
    target = np.asarray(after.base)
    order = np.random.default_rng(6).permutation(len(target))
    vacuum_after, waiting = max(batch, int(_VACUUM_SHARE * len(target))), 0
    with pagehop.open(path, cache=HOT, write=True) as index:
        wall, cpu, vacuum_s = time.perf_counter(), machine.cpu_seconds(), 0.0
        for done, some in enumerate(_parts(order, batch)):
            index.add(some, target[some])
            waiting += len(some)
            if waiting >= vacuum_after or (done + 1) * batch >= len(order):
                begun = time.perf_counter()
                index.vacuum()
                vacuum_s, waiting = vacuum_s + time.perf_counter() - begun, 0
        wall, cpu = time.perf_counter() - wall, machine.cpu_seconds() - cpu
        index.checkpoint()
        if len(index) != len(target):
            raise RuntimeError(f"{len(target)} rows were replaced, the index has {len(index)}")
        replaced = state(index, after, path)
        index.check()
    times = {"wall_s": wall, "cpu_s": cpu, "vacuum_s": vacuum_s, "rows_per_s": len(target) / wall}
    return {"fresh": fresh, "replaced": replaced, **times}


def state(index: pagehop.Index, dataset: Dataset, path: Path) -> State:
    """Recall and pages a query at each setting, and what the file takes."""
    settings = {}
    for effort in EFFORTS:
        hits = index.search(dataset.queries, k=K, **knobs(effort))
        asked = len(dataset.queries)
        settings[str(effort)] = counted(dataset, hits.ids) | {
            "pages_per_query": hits.stats.pages_read / asked,
            "hops_per_query": hits.stats.hops / asked,
            "distances_per_query": hits.stats.distances / asked,
        }
    info = index.info()
    return {
        "settings": settings,
        "rows": info.rows,
        "dead_rows": info.dead_rows,
        "free_slots": info.free_slots,
        "pages": info.pages,
        "file_bytes": path.stat().st_size,
        "all_bytes": bytes_of(path),
    }


def _fresh(dataset: Dataset, path: Path) -> State:
    pagehop.build(path, dataset.base, threads=machine.cores(), overwrite=True).close()
    with pagehop.open(path, cache=HOT, write=True) as index:
        return state(index, dataset, path)


def _replacements(scale: Scale, name: str) -> Iterator[tuple[str, Dataset, Dataset]]:
    """What is replaced by what. Of a set without further rows, each row takes the vector of another."""
    first = vectors.dataset(scale, name)
    if name != vectors.GENERATED:
        yield "by each other", first, shuffled(first)
        return
    more = np.asarray(vectors.rows(scale, 2 * scale.rows)[scale.rows :])
    yield "by others alike", first, vectors.with_truth(scale, f"{first.name}-more", more, first.queries)
    other = vectors.rows(scale, scale.rows, vectors.OTHER_SEED)
    asked = vectors.queries(scale, len(first.queries), vectors.OTHER_SEED)
    yield "by others unlike", first, vectors.with_truth(scale, f"{first.name}-other", other, asked)


def shuffled(dataset: Dataset) -> Dataset:
    """The same vectors under other ids; the truth follows them."""
    order = np.random.default_rng(7).permutation(len(dataset.base))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    truth = Truth(place[dataset.truth.ids], dataset.truth.distances)
    return datasets.Dataset(f"{dataset.name}-shuffled", np.asarray(dataset.base)[order], dataset.queries, truth)


def _parts(ids: Int64, size: int) -> list[Int64]:
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def _words(told: State) -> str:
    at = told["settings"][str(_DEFAULT)]
    mib = told["file_bytes"] / 2**20
    return f"recall {at['recall']:.4f}, {at['pages_per_query']:.1f} pages a query, {mib:.1f} MiB"


def _add_rows(report: Report, dataset: Dataset, what: str, fresh: State, now: State) -> None:
    for effort in EFFORTS:
        old, new = fresh["settings"][str(effort)], now["settings"][str(effort)]
        default = " (default)" if effort == _DEFAULT else ""
        report.add(
            Row(
                f"recall@{K} lost, {dataset.name}",
                f"{what}, {shown(effort)}{default}",
                100 * (old["recall"] - new["recall"]),
                1.0,
                0.0,
                " points",
                more_is_better=False,
                detail=(
                    f"{old['recall']:.4f} to {new['recall']:.4f}; pages a query {old['pages_per_query']:.1f} to "
                    f"{new['pages_per_query']:.1f}, {new['pages_per_query'] / old['pages_per_query']:.3f} times"
                ),
            )
        )
    report.add(
        Row(
            f"file bytes over a fresh build, {dataset.name}",
            what,
            now["file_bytes"] / fresh["file_bytes"],
            1.15,
            1.0,
            "x",
            more_is_better=False,
            detail=(
                f"{fresh['file_bytes']:,} to {now['file_bytes']:,}; {now['dead_rows']:,} dead rows, "
                f"{now['free_slots']:,} free slots"
            ),
        )
    )
