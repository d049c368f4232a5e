"""Which measurements make pairs: those of one repeat that were measured in turns.

A run that is stopped and continued, or to which an engine is added later, measures the same repeat
at several times. A token in each raw file distinguishes these. Raw files of older labs have none:
there the number of the repeat decides.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Final

MEASURED_WITH: Final = "measured_with"
"""The field of raw files that has the token."""
APART = "turns: measured at another time than most of its group, so it makes no pair with these"
"""A note on such a measurement."""
Run = tuple[int, int, int, str]
"""Group, rebuild, repeat and token. What has the same run was measured in turns."""


def token() -> str:
    """A token for what is measured in turns from now on."""
    return f"{time.time_ns():x}"


def run_of(raw: Mapping[str, object], group: int = 0, rebuild: int = 0, repeat: int = 0) -> Run:
    """The run of a measurement."""
    found = str(raw.get(MEASURED_WITH) or "")
    # Groups are counted by what the folder has now, and a token says what was open at once then.
    return (0 if found else group, rebuild, repeat, found)


def load_run(raw: Mapping[str, object], number: int) -> Run:
    """The run of the preparations of a server, which are one for each repeat."""
    return run_of(raw, repeat=0 if raw.get(MEASURED_WITH) else number)


def joined(one: Run, other: Run) -> Run:
    """The run of a figure that two measurements of an index give together."""
    return one if one == other else (*one[:3], "+".join(sorted({one[3], other[3]})))


def apart(measured: Mapping[str, tuple[Hashable, Mapping[str, object]]]) -> set[str]:
    """The names of measurements whose token is not that of most of their group.

    `measured` has a group's name and a raw file for each name.
    """
    tokens: dict[Hashable, Counter[str]] = {}
    for group, raw in measured.values():
        tokens.setdefault(group, Counter())[run_of(raw)[3]] += 1
    usual = {group: counts.most_common(1)[0][0] for group, counts in tokens.items()}
    return {name for name, (group, raw) in measured.items() if run_of(raw)[3] != usual[group]}
