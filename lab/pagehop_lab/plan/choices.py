"""Options of servers whose values a plan chooses from a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product as every

from pagehop_lab.plan.model import OptionValue
from pagehop_lab.plan.servers import Options
from pagehop_lab.plan.tables import Table, choose, listed

Known = Mapping[str, tuple[OptionValue, ...]]
"""For each option its possible values, the default first."""


def combinations(table: Table, known: Known) -> list[Options]:
    """Every combination of a server's options. An option that is not named has its first value."""
    given: list[Sequence[tuple[str, OptionValue]]] = []
    for name, values in known.items():
        wanted = table.take_any(name)
        chosen = values[:1] if wanted is None else listed(table.at(name), wanted, type(values[0]))
        for value in chosen:
            choose(table.at(name), str(value), [str(one) for one in values])
        if wanted is not None or len(values) > 1:
            given.append([(name, value) for value in chosen])
    table.refuse_unknown()
    return [tuple(one) for one in every(*given)]
