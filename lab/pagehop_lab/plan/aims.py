"""The aims of a plan: tables `[[aim]]`, one for figures that differ only in recall, share and
limits.

Every name and every option of a load that an aim has must be in the plan. Otherwise the aim would
have no row, and its verdict would be missing without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product

from pagehop_lab.analysis.aims import FIGURES, Aim, Figure
from pagehop_lab.analysis.points import OptionValue, options_of, told
from pagehop_lab.plan.model import Load
from pagehop_lab.plan.tables import PlanError, Table, checked, choose

_LOAD: dict[str, type[OptionValue]] = {
    "k": int, "threads": int, "batch": int, "sessions": int, "cache": str, "insert_rate": float,
}  # fmt: skip
# The lists of a load that have the values of an aim's option.
_LISTS = {
    "k": "ks", "threads": "call_threads", "batch": "batch", "sessions": "sessions", "cache": "caches",
    "matching": "matching", "insert_rate": "insert_rate",
}  # fmt: skip


def read_aims(
    table: Table, load: Load, engines: Collection[str], datasets: Collection[str], left_out: Collection[str] = ()
) -> list[Aim]:
    """The aims of a table: one for each recall and each share of a filter.

    A limit is one for all. Or there is one for each share if there are several shares, else one for
    each recall. `left_out` are sets that a user has replaced by others.
    """
    figure = choose(table.at("figure"), table.take("figure", str, "qps"), FIGURES)
    what = table.need("what", str)
    engine = table.take("engine", str, "pagehop")
    over, over_set = table.take_list("over", str, ()), table.take_some("over_set", str)
    for name, given in [("engine", engine), *(("over", one) for one in over)]:
        choose(table.at(name), given, engines)
    names, but = table.take_list("set", str, ()), table.take_list("but", str, ())
    for name, sets in [("set", names), ("but", but), ("over_set", [over_set] if over_set is not None else [])]:
        for one in sets:
            if one not in left_out:
                choose(table.at(name), one, datasets)
    asked_recalls = table.take_list("recall", float, (), least=0)
    if asked_recalls and max(asked_recalls) > 1:
        raise PlanError(f"{table.at('recall')} = {max(asked_recalls):g}: this is not a recall, the most is 1")
    recalls: Sequence[float | None] = asked_recalls or [None]
    shares: Sequence[float | None] = table.take_list("matching", float, (), least=1e-3) or [None]
    by_share = len(shares) > 1
    floors, wanted = (_limits(table, name, len(shares if by_share else recalls), by_share) for name in ("floor", "aim"))
    for place, (floor, aim) in enumerate(zip(floors, wanted, strict=True), start=1):
        check_limits(f"{table.place}, limit {place}" if len(floors) > 1 else table.place, floor, aim, FIGURES[figure])
    asked = {name: value for name, kind in _LOAD.items() if (value := table.take_some(name, kind)) is not None}
    table.refuse_unknown()
    for name, value in [*asked.items(), *(("matching", share) for share in shares if share is not None)]:
        _check_asked(table.at(name), value, getattr(load, _LISTS[name]))
    of_a_build = FIGURES[figure].of_point is None
    if of_a_build != (recalls == [None]):
        raise PlanError(f"{table.at('recall')}: {figure} is {'of a build, which has none' if of_a_build else 'at one'}")
    found = []
    for (number, share), (place, recall) in product(enumerate(shares), enumerate(recalls)):
        of_share = {} if share is None else {"matching": share}
        words = ", ".join(filter(None, [what, told(options_of(of_share)) if share not in (None, 1.0) else ""]))
        at = number if by_share else place
        options = options_of(asked | of_share)
        found.append(Aim(words, figure, engine, over, names, but, over_set, recall, floors[at], wanted[at], options))
    return found


def _check_asked(place: str, value: OptionValue, planned: Sequence[OptionValue]) -> None:
    """An aim for a load that the plan does not measure would have no figure."""
    if value not in planned:
        raise PlanError(f"{place} = {value}: the plan does not measure it; [load] has {', '.join(map(str, planned))}")


def _limits(table: Table, name: str, count: int, by_share: bool) -> Sequence[float | None]:
    given = table.take_any(name)
    if not isinstance(given, list):
        given = [given] * count
    if len(given) != count:
        raise PlanError(f"{table.at(name)}: one number, or a number for each {'share' if by_share else 'recall'}")
    return [None if one is None else checked(table.at(name), one, float) for one in given]


def check_limits(place: str, floor: float | None, aim: float | None, figure: Figure) -> None:
    """An aim that is easier than its floor would be reached where the floor is missed."""
    if floor is None or aim is None or (aim >= floor if figure.more_is_better else aim <= floor):
        return
    better, most = ("more", "at least") if figure.more_is_better else ("less", "at most")
    raise PlanError(
        f"{place}: aim = {aim:g} and floor = {floor:g}, and {better} {figure.unit} is better: "
        f"an aim is {most} its floor"
    )
