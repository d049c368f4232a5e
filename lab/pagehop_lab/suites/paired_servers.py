"""The ratio of a figure of two servers, with its confidence interval, for all suites of servers.

Servers that were asked in turns are compared round by round, others repeat by repeat, if both were
measured at one time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pagehop_lab.analysis.intervals import Interval, compared
from pagehop_lab.analysis.paired import in_parts, paired_ratio
from pagehop_lab.analysis.server_records import CaseRecord, Turn
from pagehop_lab.suites.server_results import AnyServers, Measured

RatedField = Literal[
    "qps", "server_cpu_us_per_query", "server_switches_per_query", "rows_per_s", "cpu_us", "log_bytes"
]  # fmt: skip
"""Fields of a measurement of which there are ratios; turns have the first two."""


def over(results: AnyServers, server: str, base: str, case: str, name: RatedField = "qps") -> Interval | None:
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
    by_repeat = [{one.run: figure for one in found if (figure := one.raw[name])} for found in (ones, others)]
    return compared(*by_repeat) if all(by_repeat) else None


def _rounds(
    ones: Sequence[Measured[CaseRecord]], others: Sequence[Measured[CaseRecord]], name: RatedField
) -> list[list[list[float]]]:
    """A figure of both in each round, for each repeat in which both were measured in turns."""
    theirs = {one.raw["together"]: one for one in others if one.raw.get("together")}
    found = []
    for one in ones:
        other = theirs.get(one.raw.get("together", ""))
        if other is None:
            continue
        told = [[_of_turn(turn, name) for turn in side.raw["rounds"]] for side in (one, other)]
        rounds = [[figure for figure in side if figure] for side in told]
        if [len(side) for side in rounds] == [len(side) for side in told]:
            found.append(rounds)
    return found


def _of_turn(turn: Turn, name: RatedField) -> float | None:
    if name == "qps":
        return turn.get("qps")
    return turn.get("server_cpu_us_per_query") if name == "server_cpu_us_per_query" else None
