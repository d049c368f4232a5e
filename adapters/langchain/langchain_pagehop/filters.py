"""LangChain's filters as conditions of Pagehop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any, TypeAlias

import pagehop
from pagehop import ArgumentError, Condition

Filter: TypeAlias = Mapping[str, Any] | Condition | str | None

_COMPARISONS: dict[str, Callable[[Any, Any], Condition]] = {
    "$eq": lambda column, value: column == value,
    "$ne": lambda column, value: column != value,
    "$lt": lambda column, value: column < value,
    "$lte": lambda column, value: column <= value,
    "$gt": lambda column, value: column > value,
    "$gte": lambda column, value: column >= value,
    "$in": lambda column, values: column.isin(values),
    "$nin": lambda column, values: ~column.isin(values),
    "$between": lambda column, ends: column.between(*_pair(ends)),
    "$exists": lambda column, there: ~column.is_null() if there else column.is_null(),
}


def as_where(given: Filter, columns: Collection[str]) -> Condition | str | None:
    """A filter as the `where` of a search in an index with these columns; None if it is empty.

    Raises ArgumentError for an unknown column or comparison.
    """
    if given is None or isinstance(given, (Condition, str)):
        return given
    if not isinstance(given, Mapping):
        raise ArgumentError(f"filter is {given!r:.80}, it must be a dict, a condition or its text")
    return _all(given, columns) if given else None


def _all(given: Mapping[str, Any], columns: Collection[str]) -> Condition:
    return reduce(and_, [_part(name, value, columns) for name, value in given.items()])


def _part(name: str, value: Any, columns: Collection[str]) -> Condition:
    if name in ("$and", "$or"):
        if not isinstance(value, (list, tuple)) or not all(isinstance(part, Mapping) and part for part in value):
            raise ArgumentError(f"filter: {name} takes a list of filters, not {value!r:.80}")
        if not value:
            raise ArgumentError(f"filter: {name} has no filters in its list")
        return reduce(and_ if name == "$and" else or_, [_all(part, columns) for part in value])
    if name == "$not":
        if not isinstance(value, Mapping) or not value:
            raise ArgumentError(f"filter: $not takes a filter, not {value!r:.80}")
        return ~_all(value, columns)
    if name not in columns:
        known = ", ".join(sorted(columns)) or "none"
        raise ArgumentError(f"filter: {name!r} is not a column of the store, whose columns are: {known}")
    column = pagehop.column(name)
    if not isinstance(value, Mapping):
        return _COMPARISONS["$eq"](column, value)
    if not value or any(sign not in _COMPARISONS for sign in value):
        raise ArgumentError(f"filter: {name!r} has {value!r:.80}; the comparisons are {', '.join(_COMPARISONS)}")
    return reduce(and_, [_COMPARISONS[sign](column, operand) for sign, operand in value.items()])


def _pair(ends: Any) -> tuple[Any, Any]:
    if not isinstance(ends, (list, tuple)) or len(ends) != 2:
        raise ArgumentError(f"filter: $between takes a lower and an upper end, not {ends!r:.80}")
    return ends[0], ends[1]
