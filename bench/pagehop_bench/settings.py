"""What recall as a setting is worth: `./dev python -m pagehop_bench.settings [SET...]`.

For each set, in lines of JSON: what calibration takes of a build's CPU time; for each recall that is asked for, what
queries find that calibration has never seen, and how many are answered per second beside a search of a fixed list that
finds as much; the same recalls when 30% of the rows were replaced, before and after the index was calibrated again; and
what an audit takes.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

import pagehop
from pagehop_bench import datasets, fashion, truth
from pagehop_bench.generate import Generator

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

K = 10
RECALLS = [0.9, 0.95, 0.98, 0.99]
REPLACED = 0.3
LISTS = [*range(10, 40, 2), *range(40, 100, 5), *range(100, 400, 20), *range(400, 2000, 100)]
REPEATS = 3


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore", pagehop.RecallWarning)
    for name in names or list(SETS):
        rows, queries = SETS[name]()
        with tempfile.TemporaryDirectory() as folder:
            measure(name, rows, queries, Path(folder) / "items.pagehop")


def measure(name: str, rows: Float32, queries: Float32, path: Path) -> None:
    count = int(len(rows) / (1 + REPLACED))
    base, more = rows[:count], rows[count:]
    began: dict[str, float] = {}

    def progress(phase: str, _done: int, _total: int) -> None:
        began.setdefault(phase, time.process_time())

    # Not by the clock on the wall: the file is synced at the end.
    start = time.process_time()
    index = pagehop.build(path, base, threads=1, progress=progress, write=True)
    end = time.process_time()
    share = (end - began["scan"]) / (end - start)
    say(name, "build", rows=count, dim=rows.shape[1], cpu_seconds=end - start, calibration=share)
    right = truth.compute(base, queries, K).ids
    for recall in RECALLS:
        compare(name, index, queries, right, recall)
    start = time.perf_counter()
    report = index.recall(K, 1000, recall=0.95, threads=2)
    seconds = time.perf_counter() - start
    say(name, "audit", samples=report.samples, recall=report.recall, interval=report.interval, seconds=seconds)
    replaced = np.random.default_rng(1).permutation(count)[: len(more)]
    index.add(replaced, more)
    now = np.array(base)
    now[replaced] = more
    right = truth.compute(now, queries, K).ids
    say(name, "replaced", **{f"at {recall}": found(index, queries, right, recall) for recall in RECALLS})
    start = time.perf_counter()
    index.calibrate(threads=2)
    seconds = time.perf_counter() - start
    again = {f"at {recall}": found(index, queries, right, recall) for recall in RECALLS}
    say(name, "calibrated again", seconds=seconds, **again)
    index.close()


def compare(name: str, index: pagehop.Index, queries: Float32, right: Int64, recall: float) -> None:
    """A search that is asked for a recall, beside one of the shortest fixed list that finds as much."""
    achieved = found(index, queries, right, recall)
    fixed = next(n for n in LISTS if share_of(index.search(queries, K, search_list=n).ids, right) >= achieved)
    # In turns, as the machine may be busy with something else.
    rates = [(rate(index, queries, recall=recall), rate(index, queries, search_list=fixed)) for _ in range(REPEATS)]
    tuned, plain = (max(pair) for pair in zip(*rates, strict=True))
    hops = index.search(queries, K, recall=recall).stats.hops / len(queries)
    fixed_hops = index.search(queries, K, search_list=fixed).stats.hops / len(queries)
    say(
        name, "search", asked=recall, found=achieved, qps=tuned, hops=hops, list=fixed, list_qps=plain,
        list_hops=fixed_hops, faster=tuned / plain,
    )  # fmt: skip


def rate(index: pagehop.Index, queries: Float32, recall: float | None = None, search_list: int | None = None) -> float:
    start = time.perf_counter()
    index.search(queries, K, search_list, threads=1, recall=recall)
    return len(queries) / (time.perf_counter() - start)


def found(index: pagehop.Index, queries: Float32, right: Int64, recall: float) -> float:
    return share_of(index.search(queries, K, recall=recall).ids, right)


def share_of(ids: Int64, right: Int64) -> float:
    return float((ids[:, :, np.newaxis] == right[:, np.newaxis, :]).sum() / right.size)


def say(name: str, what: str, **numbers: float) -> None:
    rounded = {key: value if isinstance(value, int) else float(f"{value:.4g}") for key, value in numbers.items()}
    print(json.dumps({"set": name, "what": what, **rounded}), flush=True)


def generated(dim: int, rows: int) -> Callable[[], tuple[Float32, Float32]]:
    return lambda: (Generator(dim).base(0, rows), Generator(dim).queries(0, 4000))


SETS: dict[str, Callable[[], tuple[Float32, Float32]]] = {
    "fashion-mnist": lambda: fashion.load(datasets.DATA),
    "generated-384": generated(384, 65_000),
    "generated-768": generated(768, 65_000),
    "generated-1536": generated(1536, 32_500),
}

if __name__ == "__main__":
    main(sys.argv[1:])
