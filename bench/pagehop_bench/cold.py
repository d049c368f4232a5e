"""Nothing in memory: pages a query reads, and queries per second beside diskannpy's disk index.

Both read past the page cache. Pages are counted for queries that each begin with a newly opened
index, look-ahead that was for nothing included. For the race, our cache gets as many bytes as the
codes that the other engine holds in memory; its own node cache is off.
"""

from __future__ import annotations

import functools
import statistics

from pagehop_bench import datasets, machine
from pagehop_bench.curve import Bracket, bracket, interpolate, ladder
from pagehop_bench.datasets import DATA, Dataset
from pagehop_bench.engines.diskann import BEAM_WIDTH, DiskAnn, NotInstalled
from pagehop_bench.engines.pagehop_file import PagehopFile, shown
from pagehop_bench.measure import K, Sample, Spread, at_recall, brackets, counted, timed
from pagehop_bench.report import Report, Row

DATASET = "fashion-mnist"
TARGETS = [0.95, 0.99]
THREADS = [1, 2]

_PAGES = {0.95: (35, 22), 0.99: (50, 32)}
_FASTER = (1.0, 2.0)
# Queries that each get an index of their own, newly opened.
_FRESH = 1000
# Queries of a timed search.
_RACED = 3000
_CACHE_LEAST = "1MiB"


def run(report: Report, repeats: int) -> None:
    """Measures both halves."""
    dataset = datasets.load(DATASET)
    ours = PagehopFile(DATA / "bench" / f"{DATASET}.pagehop")
    ours.build(dataset.base, machine.cores())
    around = brackets(ours, dataset, TARGETS)
    _pages(report, dataset, ours, around)
    _race(report, dataset, ours, repeats)
    ours.close()


def _pages(report: Report, dataset: Dataset, ours: PagehopFile, around: dict[float, Bracket | None]) -> None:
    for target in TARGETS:
        between = around[target]
        figure, detail = None, "recall not reached"
        if between is not None:
            points = [_fresh_reads(report, dataset, ours, effort) for effort in (between.low, between.high)]
            figure = interpolate(target, *((point["recall"], point["missed"]) for point in points))
            detail = f"{shown(between.low)} to {shown(between.high)}: " + ", ".join(
                "{missed:.1f} read ({read:.1f} used) at {recall:.4f}".format(**point) for point in points
            )
        report.add(
            Row(
                f"cold pages a query, {dataset.name}",
                f"recall@10 {target}",
                figure,
                *_PAGES[target],
                "",
                more_is_better=False,
                detail=detail,
            )
        )


def _fresh_reads(report: Report, dataset: Dataset, ours: PagehopFile, effort: int) -> dict[str, float]:
    """Pages read from storage and pages used by queries that start with nothing cached; recall of all queries."""
    missed, read = [], []
    for query in dataset.queries[:_FRESH]:
        ours.open(_CACHE_LEAST)
        found = ours.search(query[None], K, effort, 1)
        missed.append(found.missed_per_query or 0.0)
        read.append(found.pages_per_query or 0.0)
    recall = counted(dataset, ours.search(dataset.queries, K, effort, machine.cores()).ids)
    point = {"effort": effort, "missed": statistics.mean(missed), "read": statistics.mean(read), **recall}
    report.extra.setdefault("cold pages", []).append(point | {"missed_each": missed, "read_each": read})
    return point


def _race(report: Report, dataset: Dataset, ours: PagehopFile, repeats: int) -> None:
    try:
        peer = DiskAnn(DATA / "bench" / f"diskann-{dataset.name}")
    except NotInstalled as error:
        for target, threads in _cells():
            report.add(_row(target, threads, None, str(error)))
        return
    some = dataset.first_queries(_RACED)
    with peer:
        report.say("cold: diskannpy builds, which takes minutes the first time")
        peer.build(dataset.base, machine.cores())
        peer.open()
        cache = peer.code_bytes()
        report.extra["cold race"] = {
            "cache_bytes": cache,
            "disk_bytes_per_vector": {
                "diskann": peer.index_bytes() / len(dataset.base),
                "pagehop": ours.path.stat().st_size / len(dataset.base),
            },
        }
        samples, around = _raced(report, some, ours, peer, cache, repeats)
    for target, threads in _cells():
        report.add(_compared(samples, around, target, threads))


def _raced(
    report: Report, dataset: Dataset, ours: PagehopFile, peer: DiskAnn, cache: int, repeats: int
) -> tuple[list[Sample], dict[str, dict[float, Bracket | None]]]:
    """Samples of both engines, the order alternating, and the efforts around each recall."""

    @functools.cache
    def peer_recall(effort: int) -> float:
        return counted(dataset, peer.search(dataset.queries, K, effort, machine.cores()).ids)["recall"]

    ours.open(cache)
    around = {
        "pagehop": brackets(ours, dataset, TARGETS),
        "diskann": {target: bracket(target, ladder(K), peer_recall) for target in TARGETS},
    }
    taken = []
    for repeat in range(repeats):
        for engine in ["pagehop", "diskann"] if repeat % 2 == 0 else ["diskann", "pagehop"]:
            efforts = {effort for b in around[engine].values() if b for effort in (b.low, b.high)}
            for effort in sorted(efforts):
                for threads in THREADS:
                    if engine == "pagehop":
                        ours.open(cache)
                        machine.drop_page_cache(ours.path)
                        sample = timed(ours, dataset, effort, threads, repeat, once=True)
                    else:
                        sample = _timed_peer(peer, dataset, effort, threads, repeat)
                    taken.append(report.samples.add(sample))
        report.say(f"cold: repeat {repeat + 1} of {repeats} done")
    return taken, around


def _timed_peer(peer: DiskAnn, dataset: Dataset, effort: int, threads: int, repeat: int) -> Sample:
    answer = peer.search(dataset.queries, K, effort, threads)
    queries = len(dataset.queries)
    return Sample(
        "diskann",
        dataset.name,
        effort,
        threads,
        repeat,
        queries,
        answer.wall,
        answer.cpu,
        **counted(dataset, answer.ids),
        bytes_read_per_query=answer.bytes_read / queries,
    )


def _compared(
    samples: list[Sample], around: dict[str, dict[float, Bracket | None]], target: float, threads: int
) -> Row:
    mine, theirs = around["pagehop"][target], around["diskann"][target]
    if mine is None or theirs is None:
        return _row(target, threads, None, "recall not reached")

    def qps(engine: str, between: Bracket) -> list[float]:
        taken = [sample for sample in samples if (sample.engine, sample.threads) == (engine, threads)]
        return at_recall(taken, between, lambda sample: sample.qps)

    ours, peers = qps("pagehop", mine), qps("diskann", theirs)
    ratio = Spread.of([a / b for a, b in zip(ours, peers, strict=True)])
    read = [s.bytes_read_per_query or 0 for s in samples if s.engine == "pagehop" and s.effort == mine.high]
    if max(read) < 1024:
        return _row(target, threads, None, "storage was not read: this file system does not bypass its cache")
    detail = (
        f"{Spread.of(ours).median:,.0f} ({shown(mine.low)} to {shown(mine.high)}) against "
        f"{Spread.of(peers).median:,.0f} (L {theirs.low}-{theirs.high}, beam {BEAM_WIDTH}); "
        f"ratio {ratio.low:.2f}-{ratio.high:.2f}"
    )
    return _row(target, threads, ratio.median, detail)


def _cells() -> list[tuple[float, int]]:
    return [(target, threads) for threads in THREADS for target in TARGETS]


def _row(target: float, threads: int, ratio: float | None, detail: str) -> Row:
    what = f"cold QPS over diskannpy, {threads} thread{'s' if threads > 1 else ''}"
    return Row(what, f"recall@10 {target}", ratio, *_FASTER, "x", more_is_better=True, detail=detail)
