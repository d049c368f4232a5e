"""The ratio of a figure of two servers, with its confidence interval, for all suites of servers.

Servers that were asked in turns are compared round by round, others repeat by repeat.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagehop_lab.analysis.intervals import Interval, compared
from pagehop_lab.analysis.paired import paired_ratio
from pagehop_lab.suites.server_results import Measured, ServerResults


def over(results: ServerResults, server: str, base: str, case: str, name: str = "qps") -> Interval | None:
    """The ratio of a figure of the raw files, over the valid repeats; None if one of the two has
    none.
    """
    ones, others = results.of(server, case), results.of(base, case)
    together = _by_rounds(ones, others, name)
    if together:
        return Interval.of(together)
    by_repeat = [{one.repeat: one.raw[name] for one in found if one.raw[name]} for found in (ones, others)]
    return compared(*by_repeat) if all(by_repeat) else None


def _by_rounds(ones: Sequence[Measured], others: Sequence[Measured], name: str) -> list[float]:
    """The ratio in each repeat in which both were measured in turns."""
    theirs = {one.raw["together"]: one for one in others if one.raw.get("together")}
    found = []
    for one in ones:
        other = theirs.get(one.raw.get("together"))
        rounds = [[turn.get(name) for turn in side.raw["rounds"]] for side in (one, other)] if other is not None else []
        if rounds and all(figure for side in rounds for figure in side):
            found.append(paired_ratio(*rounds))
    return found
