"""Libraries: sessions are threads of this process. Each searches one query at a time, or one batch.

Each session searches once before the clock starts. Requests come from one counter. In a closed loop
each session takes the next when it has its answer. At a rate, a request is due at a fixed time, and
its latency counts from then.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import os
import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np

from pagehop_lab.analysis.records import PointRecord, Profiled
from pagehop_lab.data import Dataset
from pagehop_lab.engines.engine import EngineError, Float32, Ids, Library, Options, Search
from pagehop_lab.machine import counters
from pagehop_lab.machine import place as places
from pagehop_lab.measure import profile, usage
from pagehop_lab.measure.answers import Answers, summary
from pagehop_lab.measure.limit import limited
from pagehop_lab.measure.load import Ask
from pagehop_lab.measure.processes import machine_busy_s

# A measurement with this number of errors is ended.
_ERRORS_MAX = 100
_CEILING_S, _CEILINGS = 0.03, 5
_TOLD_FROM_S = 0.5
_SCANNED_ROWS = 100_000


@dataclass
class _Kept:
    """What one session did."""

    numbers: list[int] = field(default_factory=list)
    """Of its calls."""
    latencies: list[int] = field(default_factory=list)
    ids: list[Ids] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Phase:
    elapsed_s: float
    kept: list[_Kept]

    @property
    def calls(self) -> int:
        return sum(len(one.numbers) for one in self.kept)


def measure(
    engine: Library, dataset: Dataset, options: Options, ask: Ask, scan_us: float
) -> tuple[PointRecord, Answers]:
    """Measures the queries of a set; `scan_us` is the time of a comparison with every row here."""
    if ask.insert_rate:
        raise EngineError("the lab inserts rows into servers only while they are searched")
    # Threads that a library starts for a search share the core, too.
    more: PointRecord = {}
    place = places.pinned() if ask.one_core and ask.sessions * ask.threads == 1 else nullcontext()
    engine.threads = ask.threads
    with place, limited(ask.memory_mib) as limit:
        if limit is not None:
            limit.enter([os.getpid()])
        searches, rows, count = _ready(engine, dataset, options, ask)
        gc.collect()
        gc.disable()
        others = engine.processes()
        before, own_s, busy_s = usage.of_processes(others), counters.cpu_seconds(), machine_busy_s()
        if ask.cache == "fresh" and ask.cold_queries is not None:
            phase, used, more = _fresh(engine, dataset, options, ask)
        else:
            phase = _phase(searches, rows, count, ask.rate, ask.seconds_max)
            used = usage.of_processes(others) - before
        own_s, busy_s = counters.cpu_seconds() - own_s, machine_busy_s() - busy_s
        gc.enable()
        limit_told = limit.told() if limit is not None else None
        profiled = _profile(searches, rows, others, ask) if ask.profile_s else Profiled()
        ceiling_calls_per_s = ceiling(ask)
    answers = _answers(phase, rows, ask.k)
    errors = [text for one in phase.kept for text in one.errors]
    queries = len(answers.query)
    done = max(queries, 1)
    # One thread that waits for nothing: the difference between the clock and its CPU is other work.
    alone = ask.sessions * ask.threads == 1 and not ask.rate and not others and ask.cold_queries is None
    raw: PointRecord = {
        "count": queries + len(errors),
        "errors": len(errors),
        "first_error": errors[0] if errors else None,
        "elapsed_s": phase.elapsed_s,
        "qps": queries / phase.elapsed_s,
        "unsent_count": max(count - phase.calls - len(errors), 0) if ask.rate else 0,
        "index_used": engine.index_used(),
        # If the engine runs in other processes, all CPU of this process is the client's, at most
        # one core: the interpreter has one lock. If it runs in this process, the loop without the
        # engine tells.
        "client_share": own_s / phase.elapsed_s if others else phase.calls / phase.elapsed_s / ceiling_calls_per_s,
        "client_cpu_us_per_query": own_s * 1e6 / done if others else None,
        "other_busy_cores": _others(busy_s - used.cpu_s, phase.elapsed_s) if ask.cold_queries is None else None,
        "ceiling_qps": ceiling_calls_per_s * ask.batch,
        "storage_reads_per_query": used.bytes_read / usage.PAGE_BYTES / done,
        "bytes_read_per_query": used.bytes_read / done,
        "engine_cpu_us_per_query": used.cpu_s * 1e6 / done,
        "switches_per_query": used.switches / done,
        "memory_bytes": counters.memory("RssAnon") + sum(usage.memory_bytes(one) or 0 for one in others),
        "memory_peak_bytes": counters.memory("VmHWM"),
        "waited": phase.elapsed_s / used.cpu_s if alone and used.cpu_s else None,
        "scan_us_per_query": scan_us,
        "work": _work(engine, dataset, options, ask),
    }
    raw |= more
    if limit_told is not None:
        raw["memory_limit"] = limit_told
    raw = {**raw, **profiled, **summary(answers, dataset, ask.k)}
    if ask.batch > 1:
        # The latency belongs to the call: none of its queries has one of its own.
        raw["latency_us"] = None
    return raw, answers


def _profile(searches: Sequence[Search], rows: Sequence[Float32], others: Sequence[int], ask: Ask) -> Profiled:
    """Repeats the queries at the same rate, and samples where this process and the engine's spend
    their time.
    """
    return profile.during([os.getpid(), *others], lambda: _phase(searches, rows, None, ask.rate, ask.profile_s))


def _others(busy_s: float, elapsed_s: float) -> float | None:
    """Cores that other processes kept busy.

    None if it was too short for the kernel's ticks of 10 ms.
    """
    return max(busy_s / elapsed_s, 0.0) if elapsed_s >= _TOLD_FROM_S else None


def _ready(engine: Library, dataset: Dataset, options: Options, ask: Ask) -> tuple[list[Search], list[Float32], int]:
    """Searches with caches in the wanted state, the queries of a call, and the calls to measure."""
    queries = dataset.queries[:1] if ask.cache == "hot" else dataset.queries
    size = min(ask.batch, ask.cold_queries or ask.batch)
    rows = [queries[first : first + size] for first in range(0, len(queries), size)]
    if ask.cold_queries is not None:
        engine.memory_mib = ask.memory_mib
        engine.cool()
    if dataset.kept is None:
        searches = [engine.searcher(options, ask.k) for _ in range(ask.sessions)]
    else:
        searches = [engine.filtered(options, ask.k, dataset.kept) for _ in range(ask.sessions)]
    if ask.cold_queries is None:
        return searches, rows, _warmed(searches, rows, ask)
    if ask.cache == "hot":
        _warmed(searches, rows, ask)
    if ask.cache == "limited":
        # The content of caches in a steady state: the measured queries find pages that other
        # queries left.
        _phase(searches, _other_half_first(rows), None, None, ask.warmup_s)
    count = -(-ask.cold_queries // size)
    if ask.cache == "warm":
        if not rows[count:]:
            raise EngineError("caches are warmed by queries that are not measured: cold_queries is all that there are")
        _phase(searches, rows[count:], len(rows) - count, None, ask.seconds_max)
    engine.on_phase("search")
    return searches, rows, count


def _fresh(engine: Library, dataset: Dataset, options: Options, ask: Ask) -> tuple[_Phase, usage.Usage, PointRecord]:
    """Queries that each begin with empty caches. The time to empty them does not count. Returns
    further fields of the raw measurement: the work of a query, and the milliseconds from opening to
    its answer.
    """
    kept, used, opened_ms = _Kept(), usage.Usage(0.0, 0, 0), list[float]()
    sums: dict[str, float] = {}
    for number in range(min(ask.cold_queries or 0, len(dataset.queries))):
        engine.cool()
        row, search = dataset.queries[number : number + 1], engine.searcher(options, ask.k)
        before, begun = usage.of_processes(engine.processes()), time.perf_counter_ns()
        counted = engine.counted(row, options, ask.k)
        kept.ids.append(search(row) if counted is None else counted[0])
        kept.latencies.append(time.perf_counter_ns() - begun)
        kept.numbers.append(number)
        if engine.opened_s is not None:
            opened_ms.append(engine.opened_s * 1e3 + kept.latencies[-1] / 1e6)
        used += usage.of_processes(engine.processes()) - before
        if counted is not None:
            sums = {name: sums.get(name, 0.0) + value for name, value in counted[1].items()}
    phase = _Phase(max(sum(kept.latencies), 1) / 1e9, [kept])
    more: PointRecord = {"work": {name: value / len(kept.numbers) for name, value in sums.items()} or None}
    if opened_ms:
        more["first_ms"] = statistics.median(opened_ms)
    return phase, used, more


def _work(engine: Library, dataset: Dataset, options: Options, ask: Ask) -> dict[str, float] | None:
    """The work of a query by the index's own counters, read after all other measurements."""
    if dataset.kept is not None or ask.cold_queries is not None:
        return None
    engine.threads = counters.cores()
    counted = engine.counted(dataset.queries, options, ask.k)
    return None if counted is None else {name: value / len(dataset.queries) for name, value in counted[1].items()}


def look(engine: Library, dataset: Dataset, options: Options, k: int) -> dict[str, float]:
    """The recalls of a setting, as fast as the machine can."""
    engine.threads = counters.cores() if engine.description.call_threads else 1
    ids = np.asarray(engine.searcher(options, k)(dataset.queries))
    count = len(dataset.queries)
    answers = Answers(np.arange(count), np.zeros(count, dtype=np.int64), ids.astype(np.int64)[:, :k])
    return dict(summary(answers, dataset, k)["recall"] or {})


def _warmed(searches: Sequence[Search], rows: Sequence[Float32], ask: Ask) -> int:
    """Warms up with queries other than the first measured ones. Returns the calls to measure."""
    for search in searches:
        search(rows[0])
    warmed = _phase(searches, _other_half_first(rows), None, None, ask.warmup_s)
    return ask.count(warmed.calls / warmed.elapsed_s, len(rows))


def _other_half_first(rows: Sequence[Float32]) -> list[Float32]:
    return [*rows[len(rows) // 2 :], *rows[: len(rows) // 2]]


def ceiling(ask: Ask) -> float:
    """Calls a second of this loop with an empty search.

    Like the search of a library, it releases the interpreter.
    """
    nothing = np.arange(ask.k, dtype=np.int64)[None]
    row = np.zeros((1, 1), dtype=np.float32)
    # A call of almost no cost. One that yields the core would measure the other processes.
    leave = ctypes.CDLL(None).getppid

    def search(_: Float32) -> Ids:
        leave()
        return nothing

    # The best of a few phases: other work on the machine must not count as a limit of the client.
    # No longer than the plan's own warm-up: a plan with a short one wants short measurements.
    seconds = min(_CEILING_S, ask.warmup_s or _CEILING_S)
    phases = [_phase([search] * ask.sessions, [row] * 1000, None, None, seconds) for _ in range(_CEILINGS)]
    return max(phase.calls / phase.elapsed_s for phase in phases)


def scan_us(dataset: Dataset, memory_mib: int) -> float:
    """Microseconds to compare one query with every row, by a matrix product; the best of three.

    Beyond 100,000 rows the time is extrapolated, and beyond as many as take a sixteenth of
    `memory_mib`, if that is not 0: the index may need the rest.
    """
    dim = dataset.base.shape[1]
    most = (memory_mib << 20) // 16 // (4 * dim) if memory_mib else _SCANNED_ROWS
    rows = np.array(dataset.base[: min(most, _SCANNED_ROWS)], dtype=np.float32)
    query = dataset.queries[:1].T
    best = math.inf
    with places.pinned():
        for _ in range(3):
            begun = time.perf_counter()
            np.argpartition((rows @ query).ravel(), min(10, len(rows) - 1))
            best = min(best, time.perf_counter() - begun)
    return best * 1e6 * len(dataset.base) / len(rows)


def _phase(
    searches: Sequence[Search], rows: Sequence[Float32], count: int | None, rate: float | None, seconds_max: float
) -> _Phase:
    """A number of requests, or as many as fit into the time."""
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


def _answers(phase: _Phase, rows: Sequence[Float32], k: int) -> Answers:
    """All sessions together, in the order of their calls.

    Each query of a call has the call's latency.
    """
    each = (call for one in phase.kept for call in zip(one.numbers, one.latencies, one.ids, strict=True))
    calls = sorted(each, key=lambda call: call[0])
    sizes = np.array([len(rows[number % len(rows)]) for number, _, _ in calls], dtype=np.int64)
    firsts = np.array([number % len(rows) for number, _, _ in calls], dtype=np.int64) * len(rows[0])
    ends = np.cumsum(sizes)
    query = np.repeat(firsts - (ends - sizes), sizes) + np.arange(sizes.sum())
    latency = np.repeat(np.array([latency for _, latency, _ in calls], dtype=np.int64), sizes)
    ids = np.full((len(query), k), -1, dtype=np.int64)
    for end, size, (_, _, answer) in zip(ends, sizes, calls, strict=True):
        found = np.asarray(answer).reshape(size, -1)[:, :k]
        ids[end - size : end, : found.shape[1]] = found
    # Unsigned ids of libraries say nothing found with their greatest number.
    ids[ids > 2**62] = -1
    return Answers(query, latency, ids)
