"""The aims of a plan: tables `[[aim]]`, one for figures that differ only in recall and limits."""

from __future__ import annotations

from collections.abc import Sequence

from pagehop_lab.analysis.aims import FIGURES, Aim
from pagehop_lab.analysis.points import OptionValue
from pagehop_lab.plan.tables import PlanError, Table, choose

_LOAD: dict[str, type[OptionValue]] = {"k": int, "threads": int, "batch": int, "sessions": int, "cache": str}


def read_aims(table: Table) -> list[Aim]:
    """The aims of a table: one for each recall, with a limit each or one for all."""
    figure = choose(table.at("figure"), table.take("figure", str, "qps"), FIGURES)
    what = table.need("what", str)
    engine = table.take("engine", str, "pagehop")
    over, over_set = table.take_some("over", str), table.take_some("over_set", str)
    names, but = table.take_list("set", str, ()), table.take_list("but", str, ())
    recalls: Sequence[float | None] = table.take_list("recall", float, (), least=0) or [None]
    floors, aims = (_limits(table, name, len(recalls)) for name in ("floor", "aim"))
    load = tuple(
        (name, value) for name, kind in _LOAD.items() if (value := table.take_some(name, kind)) is not None
    )  # fmt: skip
    table.refuse_unknown()
    of_a_build = FIGURES[figure].of_point is None
    if of_a_build != (recalls == [None]):
        raise PlanError(f"{table.at('recall')}: {figure} is {'of a build, which has none' if of_a_build else 'at one'}")
    return [
        Aim(what, figure, engine, over, names, but, over_set, recall, floor, aim, load)
        for recall, floor, aim in zip(recalls, floors, aims, strict=True)
    ]


def _limits(table: Table, name: str, count: int) -> Sequence[float | None]:
    given = table.take_any(name)
    if not isinstance(given, list):
        given = [given] * count
    if len(given) != count or not all(one is None or isinstance(one, int | float) for one in given):
        raise PlanError(f"{table.at(name)}: one number, or a number for each recall")
    return [None if one is None else float(one) for one in given]
