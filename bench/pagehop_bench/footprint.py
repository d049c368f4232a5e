"""Bytes on disk and bytes in memory, and a build of a million rows within a budget."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np

from pagehop_bench import datasets, machine
from pagehop_bench.datasets import DATA
from pagehop_bench.engines.pagehop_file import HOT, PagehopFile, shown
from pagehop_bench.measure import brackets
from pagehop_bench.report import Report, Row

_MIB = 2**20
_BYTES = (5000, 4100)
_RESIDENT_CACHE = "16MiB"
_RESIDENT = (16 + 96, 16 + 32)
_RESIDENT_QUERIES = 2000
_MILLION = "generated-768-1m"
_MILLION_MEMORY = "2GiB"
_MILLION_MINUTES = (20.0, 5.0)
# The interpreter, NumPy and chunks under way are not the build's.
_MEMORY_ASIDE = 64 * _MIB


def run(report: Report) -> None:
    """Bytes per vector, and what is resident during searches with a small cache."""
    dataset = datasets.load("fashion-mnist")
    ours = PagehopFile(DATA / "bench" / f"{dataset.name}.pagehop")
    ours.build(dataset.base, machine.cores())
    around = brackets(ours, dataset, [0.99])[0.99]
    ours.close()

    size = ours.path.stat().st_size / len(dataset.base)
    detail = f"file of {ours.path.stat().st_size:,} bytes over {len(dataset.base):,} rows"
    report.add(Row("index bytes a vector", "784 dims", size, *_BYTES, "", more_is_better=False, detail=detail))

    queries = DATA / "bench" / "resident-queries.npy"
    np.save(queries, dataset.queries[:_RESIDENT_QUERIES])
    effort = around.high if around else 100
    said = child("search", ours.path, queries, effort, _RESIDENT_CACHE)
    report.extra["resident"] = said
    peak = said["peak"] / _MIB
    report.add(
        Row(
            f"resident while searching, cache={_RESIDENT_CACHE}",
            shown(effort),
            peak,
            *_RESIDENT,
            " MiB",
            more_is_better=False,
            detail=f"the whole Python process; {said['before'] / _MIB:.1f} MiB of it before opening the index",
        )
    )


def million(report: Report) -> None:
    """A million rows of 768 dimensions, built within two gibibytes."""
    report.say("million: data and truth; the first time this writes 3 GB")
    dataset = datasets.load(_MILLION)
    ours = PagehopFile(DATA / "bench" / f"{_MILLION}.pagehop")
    ours.path.parent.mkdir(parents=True, exist_ok=True)
    report.say("million: building")
    said = child("build", ours.path, dataset.path, _MILLION_MEMORY)
    report.extra["million"] = said
    ours.open(HOT)
    around = brackets(ours, dataset, [0.95])[0.95]
    ours.close()
    within = said["peak"] - said["before"] <= 2 * 2**30 + _MEMORY_ASIDE
    minutes = said["wall_s"] / 60
    detail = f"{minutes:.1f} min, {said['cpu_s'] / 60:.1f} CPU min, at most {said['peak'] / 2**30:.2f} GiB of its own"
    detail += "" if within else ": OVER the budget"
    detail += f"; {shown(around.high)}" if around else ""
    report.add(
        Row(
            "1M x 768, build within 2 GiB",
            f"recall@10 0.95 {'' if around else 'NOT '}reachable",
            minutes if within and around else None,
            *_MILLION_MINUTES,
            " min",
            more_is_better=False,
            detail=detail,
        )
    )


def child(*arguments: object) -> dict[str, Any]:
    """Runs a task of `pagehop_bench.child` and gives what it says."""
    command = [sys.executable, "-m", "pagehop_bench.child", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said
