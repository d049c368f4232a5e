"""The main job in one go: an index over Fashion-MNIST, and its 10,000 test queries answered, beside two peers."""

from __future__ import annotations

import time

from pagehop_bench import datasets, machine
from pagehop_bench.datasets import Dataset
from pagehop_bench.engines import Engine
from pagehop_bench.engines.pagehop_file import shown
from pagehop_bench.hot import engines
from pagehop_bench.measure import K, counted
from pagehop_bench.report import columns

_EFFORTS = {"effort": [10, 30, 60, 100, 200], "efSearch": [12, 16, 32, 64], "ef": [12, 16, 32, 64]}
_HEAD = ["engine", "effort", f"recall@{K}", "QPS, 1 thread", "pages a query"]


def run() -> None:
    """Builds and searches with each engine in turn."""
    started = time.perf_counter()
    print("Fashion-MNIST: reading, and finding the exact neighbors (kept for the next time)", flush=True)
    dataset = datasets.load("fashion-mnist")
    rows = []
    for engine in engines(dataset):
        print(f"{engine.name}: building over {len(dataset.base):,} x {dataset.dim}", end="", flush=True)
        wall, cpu = time.perf_counter(), machine.cpu_seconds()
        engine.build(dataset.base, machine.cores())
        wall, cpu = time.perf_counter() - wall, machine.cpu_seconds() - cpu
        print(f": {wall:.1f} s on {machine.cores()} cores ({cpu:.1f} CPU s); searching", flush=True)
        rows += _searches(engine, dataset)
    about = machine.describe()
    print(f"\n{len(dataset.queries):,} queries, k = {K}, {about['cpu']}, everything in memory\n")
    print(columns([_HEAD, *rows]))
    print(
        f"\n{time.perf_counter() - started:.0f} s in all; ./dev bench compares at equal recall, with repeats and spread"
    )


def _searches(engine: Engine, dataset: Dataset) -> list[list[str]]:
    rows = []
    engine.search(dataset.queries, K, K, machine.cores())
    for effort in _EFFORTS[engine.effort_name]:
        start = time.perf_counter()
        found = engine.search(dataset.queries, K, effort, 1)
        seconds = time.perf_counter() - start
        pages = "-" if found.pages_per_query is None else f"{found.pages_per_query:.1f}"
        recall = counted(dataset, found.ids)["recall"]
        label = shown(effort) if engine.effort_name == "effort" else f"{engine.effort_name} {effort}"
        qps = f"{len(dataset.queries) / seconds:,.0f}"
        rows.append([engine.name, label, f"{recall:.4f}", qps, pages])
    return rows
