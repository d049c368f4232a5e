"""Published ratios of the same versions beside ours, and how well the two agree.

A version is compared with its own published figures, or with those of the newest published point
release of the same major version; the table says which. Absolute figures are of other machines, so
only ratios are compared.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace

from pagehop_lab.analysis.relative import ratio
from pagehop_lab.suites.paired_servers import over
from pagehop_lab.suites.ratios import ratio_cell
from pagehop_lab.suites.server_results import AnyServers, Published, ServerFacts
from pagehop_lab.suites.table import Cell, Table

# Standard errors on each side of a 95% interval.
_WIDE = 1.96


def tables(results: AnyServers) -> list[Table]:
    """The agreement of both, and every ratio; empty if no published figures were imported."""
    pairs = [
        pair for source in dict.fromkeys(one.source for one in results.published) if (pair := _pairs(results, source))
    ]
    rows = [_agreement(results, *pair) for found in pairs for pair in found]
    if not rows:
        return []
    note = (
        f"Both are rates over those of {results.base}. r is Pearson's correlation of the logarithms over the tests, "
        "with its 95% interval (Fisher). All measured ratios are in it, with ? or not. The last columns are the "
        "standard deviations of the ratios, in percent: where versions differ by less than the noise of a "
        "machine, r is low."
    )
    columns = (
        "server", "published", "over", "source", "tests", "r", "95% interval", "mean difference %", "ours sd %",
        "published sd %",
    )  # fmt: skip
    agreed = Table("agreement", "Published ratios of the same versions, and ours", columns, rows, note)
    return [agreed, _cells(results, [pair for found in pairs for pair in found])]


Pair = tuple[ServerFacts, Published, Published]
"""A server, its published figures, and those of the base."""


def _pairs(results: AnyServers, source: str) -> list[Pair]:
    """The servers for which a source has figures, if it also has figures of the base."""
    known = [one for one in results.published if one.source == source]
    facts = {one.name: one for one in results.servers}
    base = _alike(facts[results.base], known) if results.base in facts else None
    if base is None:
        return []
    pairs = [(facts[name], _alike(facts[name], known)) for name in results.names if name != results.base]
    return [(one, theirs, base) for one, theirs in pairs if theirs is not None and theirs != base]


def _alike(facts: ServerFacts, known: Sequence[Published]) -> Published | None:
    """The figures of the same version, or of the newest one of the same major version."""
    product = facts.name.partition(" ")[0]
    version = number_of(facts.version or "")
    same = [one for one in known if one.product == product]
    exact = [one for one in same if number_of(one.version) == version]
    near = [one for one in same if version and _major(product, number_of(one.version)) == _major(product, version)]
    return exact[0] if exact else max(near, key=lambda one: number_of(one.version), default=None)


def number_of(version: str) -> tuple[int, ...]:
    """The numbers of a version, such as (16, 2); empty if there are none."""
    found = re.match(r"\d+(?:\.\d+)*", version.strip())
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _major(product: str, version: tuple[int, ...]) -> tuple[int, ...]:
    """16 of 16.2; of PostgreSQL before 10 and of the others, two numbers."""
    return version[:1] if product == "postgres" and version[:1] >= (10,) else version[:2]


def _agreement(results: AnyServers, facts: ServerFacts, theirs: Published, base: Published) -> list[Cell]:
    both = []
    for case in results.groups:
        ours = over(results, facts.name, results.base, case)
        if ours is not None and case in theirs.qps and case in base.qps:
            both.append((math.log(ours.middle), math.log(theirs.qps[case] / base.qps[case])))
    r = _correlation(both)
    away = statistics.mean(abs(math.expm1(one - other)) for one, other in both) * 100 if both else None
    return [
        Cell(f"{facts.name} ({facts.version})", facts.name),
        _version(facts, theirs),
        _version(next(one for one in results.servers if one.name == results.base), base),
        Cell(theirs.source, theirs.source, theirs.file),
        Cell.of(len(both), "d"),
        Cell.of(r, ".2f"),
        Cell(_interval(r, len(both))),
        Cell.of(away, ".1f"),
        *(Cell.of(_spread([pair[side] for pair in both]), ".1f") for side in (0, 1)),
    ]


def _version(facts: ServerFacts, published: Published) -> Cell:
    if number_of(facts.version or "") == number_of(published.version):
        return Cell(published.version, published.version)
    return Cell(f"{published.version} for {facts.version}", published.version, invalid=True)


def _correlation(both: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's coefficient; None for fewer than three tests, or if one side is constant."""
    if len(both) < 3:
        return None
    try:
        return statistics.correlation([one for one, _ in both], [other for _, other in both])
    except statistics.StatisticsError:
        return None


def _interval(r: float | None, tests: int) -> str:
    if r is None or tests < 4 or abs(r) >= 1:
        return "-"
    wide = _WIDE / math.sqrt(tests - 3)
    return f"{math.tanh(math.atanh(r) - wide):.2f} to {math.tanh(math.atanh(r) + wide):.2f}"


def _spread(logs: Sequence[float]) -> float | None:
    return statistics.stdev(logs) * 100 if len(logs) > 1 else None


def _cells(results: AnyServers, pairs: Sequence[Pair]) -> Table:
    """Every ratio of ours, and the published one to its right."""
    columns, rows = ["test"], [[Cell(case)] for case in results.groups]
    for facts, theirs, base in pairs:
        columns += [facts.name, f"{theirs.version} over {base.version}"]
        for row, case in zip(rows, results.groups, strict=True):
            known = case in theirs.qps and case in base.qps
            published = float(ratio(theirs.qps[case], base.qps[case])) if known else None
            row += [
                # The table of relative rates has this ratio, too, and counts it among the run's
                # ratios.
                replace(ratio_cell(over(results, facts.name, results.base, case)), said=""),
                Cell.of(published, ".2f", file=theirs.file, title=f"published: {theirs.source}"),
            ]
    note = f"Rates over those of {results.base}; to the right of each the published ratio, rounded as it was printed."
    return Table("published", "Each ratio, and the published one", tuple(columns), rows, note, is_heat=True)
