"""Libraries: sessions are threads of this process, each asks one query at a time.

The first search of every session is made before the clock. Requests come from one counter: in a closed loop each
session takes the next when it has its answer; at a rate a request is due at a fixed time and its latency counts from
then.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pagehop_bench import machine
from pagehop_lab.data import Dataset
from pagehop_lab.engines.engine import Float32, Ids, Library, Options, Search
from pagehop_lab.measure import usage
from pagehop_lab.measure.answers import Answers, summary
from pagehop_lab.measure.load import Ask

# A measurement that only fails is cut.
_ERRORS_MAX = 100
_CEILING_S, _CEILINGS = 0.03, 5


@dataclass
class _Kept:
    """What one session did."""

    numbers: list[int] = field(default_factory=list)
    latencies: list[int] = field(default_factory=list)
    ids: list[Ids] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Phase:
    elapsed_s: float
    kept: list[_Kept]

    @property
    def count(self) -> int:
        return sum(len(one.numbers) for one in self.kept)


def measure(
    engine: Library, dataset: Dataset, options: Options, ask: Ask, scan_us: float
) -> tuple[dict[str, Any], Answers]:
    """Asks the queries of a set; `scan_us` is what a comparison with every row takes here."""
    rows = [dataset.queries[number : number + 1] for number in range(len(dataset.queries))]
    # Threads that a library starts for a search share the core, too.
    with machine.pinned() if ask.one_core and ask.sessions == 1 else nullcontext():
        if ask.cold_queries is not None:
            engine.cool()
            engine.on_phase("search")
        searches = [engine.searcher(options, ask.k) for _ in range(ask.sessions)]
        count = ask.cold_queries or _warmed(searches, rows, ask)
        gc.collect()
        gc.disable()
        others = engine.processes()
        before = usage.of_processes(others)
        phase = _phase(searches, rows, count, ask.rate, ask.seconds_max)
        used = usage.of_processes(others) - before
        gc.enable()
        ceiling_qps = ceiling(ask)
    answers = _answers(phase, len(rows), ask.k)
    errors = [text for one in phase.kept for text in one.errors]
    done = max(phase.count, 1)
    # One thread with nothing to wait for: what the clock has more than the CPU, others took.
    alone = ask.sessions == 1 and not ask.rate and not others and ask.cold_queries is None
    raw: dict[str, Any] = {
        "count": phase.count + len(errors),
        "errors": len(errors),
        "first_error": errors[0] if errors else None,
        "elapsed_s": phase.elapsed_s,
        "qps": phase.count / phase.elapsed_s,
        "unsent_count": max(count - phase.count - len(errors), 0) if ask.rate else 0,
        "index_used": engine.index_used(),
        "client_share": phase.count / phase.elapsed_s / ceiling_qps,
        "ceiling_qps": ceiling_qps,
        "storage_reads_per_query": used.bytes_read / usage.PAGE_BYTES / done,
        "bytes_read_per_query": used.bytes_read / done,
        "engine_cpu_us_per_query": used.cpu_s * 1e6 / done,
        "switches_per_query": used.switches / done,
        "memory_bytes": machine.memory("RssAnon") + sum(usage.memory_bytes(one) or 0 for one in others),
        "memory_peak_bytes": machine.memory("VmHWM"),
        "waited": phase.elapsed_s / used.cpu_s if alone and used.cpu_s else None,
        "scan_us_per_query": scan_us,
    }
    return raw | summary(answers, dataset, ask.k), answers


def _warmed(searches: Sequence[Search], rows: Sequence[Float32], ask: Ask) -> int:
    """Warms up, with other queries than those that are measured first; how many are to be measured."""
    for search in searches:
        search(rows[0])
    middle = [*rows[len(rows) // 2 :], *rows[: len(rows) // 2]]
    warmed = _phase(searches, middle, None, None, ask.warmup_s)
    return ask.count(warmed.count / warmed.elapsed_s, len(rows))


def ceiling(ask: Ask) -> float:
    """QPS of this very loop with a search that does nothing but leave the interpreter to others, as libraries do."""
    nothing = np.arange(ask.k, dtype=np.int64)[None]
    row = np.zeros((1, 1), dtype=np.float32)
    leave = ctypes.CDLL(None).sched_yield

    def search(_: Float32) -> Ids:
        leave()
        return nothing

    # The best of a few: what others take of the machine is no limit of the client.
    phases = [_phase([search] * ask.sessions, [row] * 1000, None, None, _CEILING_S) for _ in range(_CEILINGS)]
    return max(phase.count / phase.elapsed_s for phase in phases)


def scan_us(dataset: Dataset) -> float:
    """Microseconds of a comparison of one query with every row, by a matrix product; the best of three.

    More than 100,000 rows are not compared but extrapolated to.
    """
    rows = np.array(dataset.base[:100_000])
    query = dataset.queries[:1].T
    best = math.inf
    with machine.pinned():
        for _ in range(3):
            begun = time.perf_counter()
            np.argpartition((rows @ query).ravel(), min(10, len(rows) - 1))
            best = min(best, time.perf_counter() - begun)
    return best * 1e6 * len(dataset.base) / len(rows)


def _phase(
    searches: Sequence[Search], rows: Sequence[Float32], count: int | None, rate: float | None, seconds_max: float
) -> _Phase:
    """So many requests, or as many as fit into the time."""
    kept = [_Kept() for _ in searches]
    tickets = itertools.count()
    most = math.inf if count is None else count
    start = time.perf_counter_ns() + (1_000_000 if len(searches) > 1 else 0)
    deadline = start + int(seconds_max * 1e9)
    interval = 1e9 / rate if rate else 0.0

    def session(search: Search, mine: _Kept) -> None:
        clock, amount = time.perf_counter_ns, len(rows)
        while clock() < start:
            pass
        for number in tickets:
            if number >= most or clock() >= deadline or len(mine.errors) > _ERRORS_MAX:
                break
            row, due = rows[number % amount], 0
            if interval:
                due = start + int(number * interval)
                while (early := due - clock()) > 0:
                    time.sleep(early / 1e9)
            begun = due or clock()
            try:
                ids = search(row)
            except Exception as error:
                mine.errors.append(f"query {number % amount}: {type(error).__name__}: {error}")
                continue
            mine.latencies.append(clock() - begun)
            mine.numbers.append(number)
            mine.ids.append(ids)

    if len(searches) == 1:
        session(searches[0], kept[0])
    else:
        threads = [threading.Thread(target=session, args=pair) for pair in zip(searches, kept, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return _Phase((time.perf_counter_ns() - start) / 1e9, kept)


def _answers(phase: _Phase, amount: int, k: int) -> Answers:
    """All sessions together, in the order of their requests."""
    number = np.array([number for one in phase.kept for number in one.numbers], dtype=np.int64)
    latency = np.array([latency for one in phase.kept for latency in one.latencies], dtype=np.int64)
    ids = np.full((len(number), k), -1, dtype=np.int64)
    for at, answer in enumerate(answer for one in phase.kept for answer in one.ids):
        found = np.asarray(answer).reshape(-1)[:k]
        ids[at, : len(found)] = found
    # Unsigned ids of libraries say nothing found with their greatest number.
    ids[ids > 2**62] = -1
    order = np.argsort(number)
    return Answers(number[order] % max(amount, 1), latency[order], ids[order])
