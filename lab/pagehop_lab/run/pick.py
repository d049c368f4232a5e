"""The settings to measure: those on both sides of each target, on each ladder of an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pagehop_lab.analysis.curve import bracket
from pagehop_lab.plan.model import Options


def pick(
    ladders: Sequence[Sequence[Options]], targets: Sequence[float], recall_of: Callable[[Options], float]
) -> list[Options]:
    """The steps of each ladder next to each target, or its last step if it does not get there.

    Recall must not fall along a ladder. Few steps are tried: the first ones in doubling strides,
    then halves of the last stride.
    """
    chosen: list[Options] = []
    for ladder in ladders:
        known: dict[int, float] = {}

        def recall_at(step: int, ladder: Sequence[Options] = ladder, known: dict[int, float] = known) -> float:
            if step not in known:
                known[step] = recall_of(ladder[step])
            return known[step]

        steps: set[int] = set()
        for target in sorted(targets):
            between = bracket(target, list(range(len(ladder))), recall_at)
            if between is None:
                steps.add(len(ladder) - 1)
                break
            steps |= {between.low, between.high}
        chosen += [ladder[step] for step in sorted(steps) if ladder[step] not in chosen]
    return chosen
