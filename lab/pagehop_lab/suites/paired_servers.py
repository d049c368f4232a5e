"""The ratio of a figure of two servers, with its confidence interval, for all suites of servers.

Servers that were asked in turns are compared round by round, others repeat by repeat, if both were
measured at one time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pagehop_lab.analysis.intervals import Interval, compared
from pagehop_lab.analysis.paired import in_parts, paired_ratio
from pagehop_lab.suites.server_results import Measured, ServerResults


def over(results: ServerResults, server: str, base: str, case: str, name: str = "qps") -> Interval | None:
    """The ratio of a figure of the raw files, over the valid repeats; None if one of the two has
    none.

    Of one repeat with many rounds, the interval is over parts of it.
    """
    ones, others = results.of(server, case), results.of(base, case)
    together = _rounds(ones, others, name)
    if len(together) == 1 and (parts := [in_parts(side) for side in together[0]])[0]:
        ratios = [paired_ratio(one, other) for one, other in zip(*parts, strict=True)]
        return replace(Interval.of(ratios), counted="parts of one repeat")
    if together:
        return Interval.of([paired_ratio(*sides) for sides in together])
    by_repeat = [{one.run: one.raw[name] for one in found if one.raw[name]} for found in (ones, others)]
    return compared(*by_repeat) if all(by_repeat) else None


def _rounds(ones: Sequence[Measured], others: Sequence[Measured], name: str) -> list[list[list[float]]]:
    """A figure of both in each round, for each repeat in which both were measured in turns."""
    theirs = {one.raw["together"]: one for one in others if one.raw.get("together")}
    found = []
    for one in ones:
        other = theirs.get(one.raw.get("together"))
        rounds = [[turn.get(name) for turn in side.raw["rounds"]] for side in (one, other)] if other is not None else []
        if rounds and all(figure for side in rounds for figure in side):
            found.append(rounds)
    return found
