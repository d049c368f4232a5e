"""Everything in memory, one thread: queries per second and the cost of a build, beside faiss and hnswlib."""

from __future__ import annotations

import time
from typing import Any

from pagehop_bench import datasets, machine
from pagehop_bench.curve import Bracket
from pagehop_bench.datasets import DATA, Dataset
from pagehop_bench.engines import Engine
from pagehop_bench.engines.faiss_hnsw import FaissHnsw
from pagehop_bench.engines.pagehop_file import PagehopFile, shown
from pagehop_bench.measure import WAITED_MAX, Sample, Spread, at_recall, brackets, undisturbed
from pagehop_bench.report import Report, Row

TARGETS = [0.95, 0.98, 0.99]
REACHABLE = 0.999

# Times faster than faiss: floor and aim.
_FASTER = {"fashion-mnist": (2.0, 3.5), "generated-384": (1.5, 3.0), "generated-1536": (1.5, 3.0)}
# CPU seconds of a build over those of faiss: floor and aim.
_BUILD = (1.0, 0.4)


def engines(dataset: Dataset) -> list[Engine]:
    """Ours first, then the peers that are installed."""
    found: list[Engine] = [PagehopFile(DATA / "bench" / f"{dataset.name}.pagehop"), FaissHnsw()]
    try:
        from pagehop_bench.engines.hnswlib_hnsw import HnswlibHnsw
    except ImportError:
        return found
    return [*found, HnswlibHnsw()]


def run(report: Report, name: str, repeats: int, build_repeats: int) -> None:
    """Measures one set."""
    report.say(f"{name}: data and truth")
    dataset = datasets.load(name)
    compared = engines(dataset)
    builds = [_build(report, compared, dataset, repeat) for repeat in range(build_repeats)]
    report.extra[f"builds {name}"] = builds

    around = {}
    for engine in compared:
        around[engine.name] = brackets(engine, dataset, [*TARGETS, REACHABLE])
        report.say(f"{name}: {engine.name} {engine.effort_name} {_ranges(around[engine.name])}")
    report.extra[f"brackets {name}"] = {engine.name: _ranges(around[engine.name]) for engine in compared}

    samples = _samples(report, compared, dataset, around, repeats)
    ours, peer = compared[0].name, compared[1].name
    for target in TARGETS:
        report.add(_faster(name, target, samples, around, ours, peer))
    _also(report, name, samples, around)
    report.add(_cheaper(name, builds, around, ours, peer))
    least = around[ours][REACHABLE]
    report.say(f"{name}: recall {REACHABLE} " + (f"at {shown(least.high)}" if least else "NOT reachable"))


def _build(report: Report, compared: list[Engine], dataset: Dataset, repeat: int) -> dict[str, Any]:
    """Builds each with all cores, in turn; the order alternates."""
    times = {}
    for engine in compared if repeat % 2 == 0 else compared[::-1]:
        wall, cpu = time.perf_counter(), machine.cpu_seconds()
        engine.build(dataset.base, machine.cores())
        times[engine.name] = {"wall_s": time.perf_counter() - wall, "cpu_s": machine.cpu_seconds() - cpu}
        report.say(
            "{}: {} built in {wall_s:.1f} s, {cpu_s:.1f} CPU s".format(dataset.name, engine.name, **times[engine.name])
        )
    return times


def _samples(
    report: Report,
    compared: list[Engine],
    dataset: Dataset,
    around: dict[str, dict[float, Bracket | None]],
    repeats: int,
) -> dict[str, list[Sample]]:
    """Times every bracketing effort of every engine, `repeats` times, the order alternating."""
    taken: dict[str, list[Sample]] = {engine.name: [] for engine in compared}
    with machine.pinned():
        for repeat in range(repeats):
            for engine in compared if repeat % 2 == 0 else compared[::-1]:
                points = {effort for b in around[engine.name].values() if b for effort in (b.low, b.high)}
                for effort in sorted(points):
                    sample = report.samples.add(undisturbed(engine, dataset, effort, repeat))
                    taken[engine.name].append(sample)
            report.say(f"{dataset.name}: repeat {repeat + 1} of {repeats} done")
    return taken


def _faster(
    name: str,
    target: float,
    samples: dict[str, list[Sample]],
    around: dict[str, dict[float, Bracket | None]],
    ours: str,
    peer: str,
) -> Row:
    what, at = f"hot QPS over {peer}, {name}", f"recall@10 {target}"
    mine, theirs = around[ours][target], around[peer][target]
    if mine is None or theirs is None:
        return Row(what, at, None, *_FASTER[name], "x", more_is_better=True, detail="recall not reached")
    qps = [at_recall(samples[e], b, lambda s: s.qps) for e, b in [(ours, mine), (peer, theirs)]]
    cpu = [at_recall(samples[e], b, lambda s: s.queries / s.cpu_s) for e, b in [(ours, mine), (peer, theirs)]]
    ratio = Spread.of([a / b for a, b in zip(*qps, strict=True)])
    by_cpu = Spread.of([a / b for a, b in zip(*cpu, strict=True)])
    detail = (
        f"{_shown(qps[0])} ({shown(mine.low)} to {shown(mine.high)}) against "
        f"{_shown(qps[1])} (efSearch {theirs.low}-{theirs.high}); "
        f"ratio {ratio.low:.2f}-{ratio.high:.2f}, by CPU seconds {by_cpu.median:.2f}"
    )
    return Row(what, at, ratio.median, *_FASTER[name], "x", more_is_better=True, detail=detail)


def _cheaper(
    name: str,
    builds: list[dict[str, Any]],
    around: dict[str, dict[float, Bracket | None]],
    ours: str,
    peer: str,
) -> Row:
    reached = around[ours][TARGETS[-1]] is not None
    ratio = Spread.of([build[ours]["cpu_s"] / build[peer]["cpu_s"] for build in builds])
    detail = f"{_seconds(builds, ours)} against {_seconds(builds, peer)} CPU s; ratio {ratio.low:.2f}-{ratio.high:.2f}"
    return Row(
        f"build, CPU s over {peer}, {name}",
        f"{TARGETS[-1]} {'' if reached else 'NOT '}reachable",
        ratio.median if reached else None,
        *_BUILD,
        "x",
        more_is_better=False,
        detail=detail,
    )


def _also(
    report: Report, name: str, samples: dict[str, list[Sample]], around: dict[str, dict[float, Bracket | None]]
) -> None:
    """QPS and CPU microseconds a query of every engine, for those who read along."""
    for engine, taken in samples.items():
        words = []
        for target in [*TARGETS, REACHABLE]:
            between = around[engine][target]
            if between is None:
                words.append(f"{target}: not reached")
                continue
            qps = Spread.of(at_recall(taken, between, lambda sample: sample.qps))
            cpu = Spread.of(at_recall(taken, between, lambda sample: sample.cpu_s / sample.queries * 1e6))
            words.append(f"{target}: {qps.median:,.0f} QPS, {cpu.median:.1f} CPU us")
            report.extra.setdefault(f"hot {name}", {}).setdefault(engine, {})[str(target)] = {
                "qps": qps.median,
                "qps_low": qps.low,
                "qps_high": qps.high,
                "cpu_us": cpu.median,
            }
        report.say(f"{name}: {engine}  " + "; ".join(words))
    waited = max(sample.waited for taken in samples.values() for sample in taken)
    if waited > WAITED_MAX:
        report.say(f"{name}: searches took up to {waited:.2f} times their CPU seconds: something else was running")


def _seconds(builds: list[dict[str, Any]], engine: str) -> str:
    return f"{Spread.of([build[engine]['cpu_s'] for build in builds]).median:.1f}"


def _shown(figures: list[float]) -> str:
    spread = Spread.of(figures)
    return f"{spread.median:,.0f} ({spread.low:,.0f}-{spread.high:,.0f})"


def _ranges(around: dict[float, Bracket | None]) -> dict[str, str]:
    return {str(target): f"{b.low}-{b.high}" if b else "not reached" for target, b in around.items()}
