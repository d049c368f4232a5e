"""Searches with everything in shared_buffers, one connection, client and server on one core.

Every setting is timed over whole passes of the same queries, so recall is that of the answers that were timed and is
the same in each repeat. Repeats alternate the order of the sides. CPU is that of the connection's process; "above base"
takes off what the same server needs to return ten rows of the same table in the order of its key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from devserver import Cluster, Server
from labservers.mariadb import Instance
from pagehop_bench.datasets import Dataset
from pagehop_bench.engines import Float32
from pagehop_bench.measure import K, Spread
from pagehop_bench.postgres import sets, tables
from pagehop_bench.postgres.figures import TARGETS, Around, Swept, around, best, passes, ratios
from pagehop_bench.postgres.loadgen import WAITED_MAX, Asked, ask
from pagehop_bench.postgres.scale import Scale
from pagehop_bench.postgres.servers import Running, memory_for, on_one_core, running
from pagehop_bench.postgres.sets import Files
from pagehop_bench.postgres.tables import SIDES, Family, Side, Storage
from pagehop_bench.report import Report, Row, columns

# The recall at which tables with pgvector's own storage are compared.
_STORED = 0.98
_ATTEMPTS = 3
_WARMUP_S = 0.3

Setting = tuple[Side, Family, float]


class Searched(Protocol):
    """A side of a comparison, in whatever server."""

    @property
    def name(self) -> str: ...

    @property
    def index(self) -> str: ...

    @property
    def search(self) -> str:
        """The statement that is measured."""

    @property
    def base(self) -> str:
        """As many rows of the same table without a search."""


AnySide = TypeVar("AnySide", bound=Searched)


def run(report: Report, scale: Scale, server: Server, name: str) -> None:
    """Measures one set."""
    begun = time.perf_counter()
    dataset = sets.load(name, scale)
    files = sets.export(dataset, scale, K)
    report.say(f"qps {name}: {len(dataset.base):,} x {dataset.dim}, {len(dataset.queries):,} queries")
    with running(server, **memory_for(dataset.base)) as served:
        told: dict[str, Any] = {"server": served.about()}
        make(report, served, dataset, "plain")
        settings = [(side, family, value) for side in SIDES for family in side.families for value in family.values]
        base, swept = _swept(report, scale, served, files, dataset.queries[0], settings)
        told["plain"] = as_json(base, swept)
        say_sweep(report, name, base, swept)
        say_targets(report, name, TARGETS, base, swept)
        for target in TARGETS:
            report.add(compared(f"QPS over pgvector, {name}", target, base, swept))

        make(report, served, dataset, "default")
        base, stored = _swept(report, scale, served, files, dataset.queries[0], _around_stored(swept))
        told["default storage"] = as_json(base, stored)
        say_sweep(report, f"{name}, default storage", base, stored)
        say_targets(report, f"{name}, default storage", [_STORED], base, stored)
        report.add(compared(f"the same, default storage, {name}", _STORED, base, stored))
    report.extra[f"qps {name}"] = told
    report.say(f"qps {name}: {time.perf_counter() - begun:.0f} s")


def make(report: Report, served: Running, dataset: Dataset, storage: Storage = "plain") -> None:
    """Fills and indexes the table of every side, as fast as it goes."""
    for side in SIDES:
        tables.fill(served.connection, side, dataset.base, storage)
        seconds = tables.build(served.connection, side, 2)
        size = tables.index_bytes(served.connection, side)
        report.say(f"  {side.name}, storage {storage}: built in {seconds:.0f} s, index of {size / 1e6:,.0f} MB")
    served.connection.execute("CHECKPOINT")


def _swept(
    report: Report, scale: Scale, served: Running, files: Files, query: Float32, settings: Sequence[Setting]
) -> tuple[dict[str, list[Asked]], list[Swept]]:
    """Times the base statement of each side, and every setting, `repeats` times."""
    with on_one_core(served.cluster):
        asking, base_of = partial(search, served.cluster, files), partial(base, served.cluster, scale)
        bases, swept = timed(report, scale, settings, asking, base_of)
    for side, family, value in settings:
        if not tables.uses_index(served.connection, side, family.settings(value), query):
            report.say(f"  {side.name}, {family.shown(value)}: the planner would read the whole table instead")
    return bases, swept


def timed(
    report: Report,
    scale: Scale,
    settings: Sequence[tuple[AnySide, Family, float]],
    asking: Callable[[AnySide, Family, float, int], Asked],
    base_of: Callable[[AnySide], Asked],
) -> tuple[dict[str, list[Asked]], list[Swept]]:
    """Times the base statement of each side, and `asking` so many queries of every setting, in alternating order."""
    queries = scale.queries
    sides = list(dict.fromkeys(side for side, _, _ in settings))
    bases: dict[str, list[Asked]] = {side.name: [] for side in sides}
    runs: dict[tuple[AnySide, Family, float], list[Asked]] = {setting: [] for setting in settings}
    # Brings what they need into the server's buffers, and says how many passes take how long.
    first = {setting: asking(*setting, queries) for setting in settings}
    for repeat in range(scale.repeats):
        forward = repeat % 2 == 0
        for side in sides if forward else sides[::-1]:
            bases[side.name].append(_undisturbed(partial(base_of, side)))
        for setting in settings if forward else settings[::-1]:
            count = queries * passes(scale.seconds, queries, first[setting].qps)
            runs[setting].append(_undisturbed(partial(asking, *setting, count)))
        report.say(f"  repeat {repeat + 1} of {scale.repeats} done")
    for (side, family, value), asked in runs.items():
        _look(report, f"  {side.name}, {family.shown(value)}:", asked)
    families = list(dict.fromkeys((side, family) for side, family, _ in settings))
    swept = [
        Swept(side.name, family, {value: runs[s, f, value] for s, f, value in settings if (s, f) == (side, family)})
        for side, family in families
    ]
    return bases, swept


def search(server: Cluster | Instance, files: Files, side: Searched, family: Family, value: float, count: int) -> Asked:
    """Asks so many queries with one setting."""
    return ask(
        server,
        side.search,
        count=count,
        queries=files.queries,
        truth=files.truth,
        settings=family.settings(value),
        index=side.index,
        warmup=_WARMUP_S,
    )


def base(server: Cluster | Instance, scale: Scale, side: Searched) -> Asked:
    """Asks the base statement of a side."""
    return ask(server, side.base, count=int(20_000 * scale.seconds), warmup=_WARMUP_S)


def _undisturbed(measure: Callable[[], Asked]) -> Asked:
    """A run that the machine did not keep waiting, or the best of a few attempts at it."""
    least = measure()
    for _ in range(_ATTEMPTS - 1):
        if least.waited <= WAITED_MAX:
            break
        least = min(least, measure(), key=lambda asked: asked.waited)
    return least


def _look(report: Report, named: str, asked: Sequence[Asked]) -> None:
    """Says what should not be."""
    waited = max(one.waited for one in asked)
    if waited > WAITED_MAX:
        report.say(f"{named} took {waited:.2f} times its CPU time: something else was running")
    if any(one.read_blocks > 0.01 for one in asked):
        report.say(
            f"{named} {max(one.read_blocks for one in asked):.2f} blocks a query were not in the server's buffers"
        )
    if any(one.rows_short for one in asked):
        report.say(f"{named} {asked[0].rows_short} of {asked[0].count} answers had fewer than ten rows")
    if any(one.custom_plans for one in asked):
        report.say(f"{named} was planned anew {asked[0].custom_plans} times")
    if len({one.recall for one in asked}) > 1:
        report.say(f"{named} recall differs between repeats: {sorted({one.recall or 0.0 for one in asked})}")


def _around_stored(swept: Sequence[Swept]) -> list[Setting]:
    """The settings around the recall at which the other storage is compared; of ours, those of the faster setting."""
    settings: list[Setting] = []
    for side in SIDES:
        chosen = best([one for one in swept if one.side == side.name], _STORED, lambda asked: asked.qps)
        if chosen is None:
            continue
        family = chosen[0].family
        between: Around | None = around(_STORED, chosen[0].recalls)
        assert between is not None
        settings += [(side, family, value) for value in sorted({between.low, between.high})]
    return settings


def compared(
    what: str, target: float, base: dict[str, list[Asked]], swept: Sequence[Swept], them: str = "pgvector"
) -> Row:
    """Ours by our better setting over theirs with their better type."""
    at = f"recall@10 {target:g}"
    ours = best([one for one in swept if one.side == tables.PAGEHOP.name], target, lambda asked: asked.qps)
    theirs = best([one for one in swept if one.side != tables.PAGEHOP.name], target, lambda asked: asked.qps)
    if ours is None or theirs is None:
        missing = " and ".join(name for name, found in [("pagehop", ours), (them, theirs)] if found is None)
        return Row(what, at, None, None, None, "x", more_is_better=True, detail=f"not reached by {missing}")
    ratio = ratios(ours[1], theirs[1])
    cpu = _cpu_above(theirs[0], target, base) / _cpu_above(ours[0], target, base)
    detail = (
        f"{Spread.of(ours[1]).median:,.0f} by {ours[0].family.name} against {Spread.of(theirs[1]).median:,.0f} of "
        f"{theirs[0].side}; ratio {ratio.low:.2f}-{ratio.high:.2f}, by server CPU above base {cpu:.2f}"
    )
    return Row(what, at, ratio.median, None, None, "x", more_is_better=True, detail=detail)


def _cpu_above(swept: Swept, target: float, base: dict[str, list[Asked]]) -> float:
    figures = swept.at(target, lambda asked: asked.server_cpu_us)
    assert figures is not None
    return Spread.of(figures).median - _median(base[swept.side])


def _median(asked: Sequence[Asked]) -> float:
    return Spread.of([one.server_cpu_us for one in asked]).median


def say_sweep(report: Report, name: str, base: dict[str, list[Asked]], swept: Sequence[Swept]) -> None:
    """Every setting, in a table of its own."""
    lines = [["side", "setting", "recall@10", "QPS", "range", "CPU us", "above base", "client", "blocks", "waited"]]
    for side, asked in base.items():
        if asked:
            lines.append([side, "base statement", "-", *_cells(asked, None)])
    for one in swept:
        for value, runs in one.runs.items():
            recall = f"{one.recalls[value]:.4f}"
            lines.append([one.side, one.family.shown(value), recall, *_cells(runs, _median(base[one.side]))])
    report.say(f"\n{name}\n{columns(lines)}\n")


def say_targets(
    report: Report, name: str, targets: Sequence[float], base: dict[str, list[Asked]], swept: Sequence[Swept]
) -> None:
    """QPS and CPU at each wanted recall, with the two values that they lie between."""
    lines = [["recall@10", "side", "QPS", "CPU us above base", "between, with recall and QPS"]]
    for target in targets:
        for one in swept:
            figures = one.at(target, lambda asked: asked.qps)
            shown = ["-", "-"]
            if figures is not None:
                shown = [f"{Spread.of(figures).median:,.0f}", f"{_cpu_above(one, target, base):,.1f}"]
            lines.append([f"{target:g}", one.side, *shown, one.bracket(target)])
    report.say(f"{name}\n{columns(lines)}\n")


def _cells(asked: Sequence[Asked], base: float | None) -> list[str]:
    qps = Spread.of([one.qps for one in asked])
    cpu = _median(asked)
    return [
        f"{qps.median:,.0f}",
        f"{qps.low:,.0f}-{qps.high:,.0f}",
        f"{cpu:,.1f}",
        "-" if base is None else f"{cpu - base:,.1f}",
        f"{Spread.of([one.client_cpu_us for one in asked]).median:.1f}",
        f"{Spread.of([one.hit_blocks for one in asked]).median:,.1f}",
        f"{max(one.waited for one in asked):.2f}",
    ]


def as_json(base: dict[str, list[Asked]], swept: Sequence[Swept]) -> dict[str, Any]:
    return {
        "base": {side: [one.as_json() for one in asked] for side, asked in base.items()},
        "searches": [
            {"side": one.side, "setting": one.family.name, "value": value, "plan": asked[0].plan}
            | {"runs": [run.as_json() for run in asked]}
            for one in swept
            for value, asked in one.runs.items()
        ],
    }
