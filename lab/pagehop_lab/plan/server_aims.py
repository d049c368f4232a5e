"""The aims of a plan of servers: tables `[[aim]]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pagehop_lab.analysis.aims import Figure
from pagehop_lab.plan.aims import check_limits
from pagehop_lab.plan.servers import ServerAim
from pagehop_lab.plan.tables import PlanError, Table, choose


def read_aim(table: Table, figures: Mapping[str, Figure], servers: Sequence[str], cases: Sequence[str]) -> ServerAim:
    """The aim of a table; a server has its full name, or a part that is unique."""
    what = table.need("what", str)
    figure = choose(table.at("figure"), table.need("figure", str), figures)
    case = choose(table.at("case"), table.need("case", str), cases)
    over, over_case = table.take_some("over", str), table.take_some("over_case", str)
    if over_case is not None:
        choose(table.at("over_case"), over_case, cases)
    server = _server(table.at("server"), table.need("server", str), servers)
    floor, aim = (table.take_some(name, float) for name in ("floor", "aim"))
    check_limits(table.place, floor, aim, figures[figure])
    table.refuse_unknown()
    other = None if over is None else _server(table.at("over"), over, servers)
    return ServerAim(what, figure, case, server, other, over_case, floor, aim)


def _server(place: str, given: str, servers: Sequence[str]) -> str:
    if given in servers:
        return given
    found = [name for name in servers if name.startswith(f"{given} ")]
    if len(found) > 1:
        raise PlanError(f"{place} = {given!r}: there are {', '.join(found)}; name one of them in full")
    return found[0] if found else choose(place, given, servers)
