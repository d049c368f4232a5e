"""One measurement: search, take the time, count what was found."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from pagehop_bench import machine
from pagehop_bench.curve import Bracket, bracket, interpolate, ladder
from pagehop_bench.datasets import Dataset
from pagehop_bench.engines import Engine, Int64
from pagehop_bench.recall import recall_at

K = 10
# A timed search is repeated until it took this long.
_SECONDS_MIN = 0.7
_WARM_QUERIES = 200
# A search with one thread and nothing to wait for takes as long as its CPU seconds, or others were running.
WAITED_MAX = 1.05
_ATTEMPTS = 4


@dataclass(frozen=True)
class Sample:
    """One timed search. Recall is that of the answers that were timed."""

    engine: str
    dataset: str
    effort: int
    threads: int
    repeat: int
    queries: int
    wall_s: float
    cpu_s: float
    recall: float
    recall_by_id: float
    pages_per_query: float | None = None
    missed_per_query: float | None = None
    bytes_read_per_query: float | None = None

    @property
    def qps(self) -> float:
        """Queries per second of the clock on the wall."""
        return self.queries / self.wall_s

    @property
    def waited(self) -> float:
        """Time on the wall over CPU time: 1 for one thread that had a core to itself."""
        return self.wall_s / self.cpu_s


@dataclass
class Samples:
    """Every sample of a run, in order."""

    taken: list[Sample] = field(default_factory=list)

    def add(self, sample: Sample) -> Sample:
        """Keeps `sample`."""
        self.taken.append(sample)
        return sample

    def as_json(self) -> list[dict[str, Any]]:
        """All samples, for the results file."""
        return [asdict(sample) | {"qps": sample.qps} for sample in self.taken]


def counted(dataset: Dataset, found: Int64) -> dict[str, float]:
    """Both recalls of `found`, by the names of `Sample`."""
    recall = recall_at(K, found, dataset.truth, dataset.base, dataset.queries)
    return {"recall": recall.with_ties, "recall_by_id": recall.by_id}


def undisturbed(engine: Engine, dataset: Dataset, effort: int, repeat: int) -> Sample:
    """A sample of one thread that the machine did not keep waiting, or the best of a few attempts at it."""
    best = None
    for _ in range(_ATTEMPTS):
        engine.search(dataset.queries[:_WARM_QUERIES], K, effort, 1)
        sample = timed(engine, dataset, effort, 1, repeat)
        if best is None or sample.waited < best.waited:
            best = sample
        if best.waited <= WAITED_MAX:
            break
    assert best is not None
    return best


def timed(engine: Engine, dataset: Dataset, effort: int, threads: int, repeat: int, *, once: bool = False) -> Sample:
    """All queries of `dataset`, again and again until the clock has something to say, or `once`."""
    rounds = 0
    wall, cpu, read = time.perf_counter(), machine.cpu_seconds(), machine.bytes_read()
    while True:
        found = engine.search(dataset.queries, K, effort, threads)
        rounds += 1
        elapsed = time.perf_counter() - wall
        if once or elapsed >= _SECONDS_MIN:
            break
    cpu, read = machine.cpu_seconds() - cpu, machine.bytes_read() - read
    queries = rounds * len(dataset.queries)
    return Sample(
        engine.name,
        dataset.name,
        effort,
        threads,
        repeat,
        queries,
        elapsed,
        cpu,
        **counted(dataset, found.ids),
        pages_per_query=found.pages_per_query,
        missed_per_query=found.missed_per_query,
        bytes_read_per_query=read / queries,
    )


def brackets(engine: Engine, dataset: Dataset, targets: list[float]) -> dict[float, Bracket | None]:
    """For each wanted recall, the two efforts around it, found with all cores."""

    @functools.cache
    def recall_of(effort: int) -> float:
        return counted(dataset, engine.search(dataset.queries, K, effort, machine.cores()).ids)["recall"]

    return {target: bracket(target, ladder(K), recall_of) for target in targets}


def at_recall(samples: list[Sample], between: Bracket, figure: Callable[[Sample], float]) -> list[float]:
    """`figure` at the wanted recall, once for each repeat."""
    repeats = sorted({sample.repeat for sample in samples})
    at = {(sample.repeat, sample.effort): sample for sample in samples}
    figures = []
    for repeat in repeats:
        low, high = at[repeat, between.low], at[repeat, between.high]
        figures.append(interpolate(between.target, (low.recall, figure(low)), (high.recall, figure(high))))
    return figures


@dataclass(frozen=True)
class Spread:
    """The middle of several figures, and how far they lie apart."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(figures: list[float]) -> Spread:
        """The spread of `figures`, which are not none."""
        return Spread(statistics.median(figures), min(figures), max(figures))
