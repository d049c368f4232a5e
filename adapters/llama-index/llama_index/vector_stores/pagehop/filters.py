"""LlamaIndex's filters as conditions of Pagehop.

In SQL, a comparison with a missing value is neither true nor false. LlamaIndex has no third value,
so each comparison here says whether a missing value meets it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import reduce
from operator import and_, or_
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

import pagehop
from pagehop import ArgumentError, Condition

_COMPARISONS: dict[FilterOperator, Callable[[Any, Any], Condition]] = {
    FilterOperator.EQ: lambda column, value: (column == value) & ~column.is_null(),
    FilterOperator.NE: lambda column, value: (column != value) | column.is_null(),
    FilterOperator.LT: lambda column, value: (column < value) & ~column.is_null(),
    FilterOperator.LTE: lambda column, value: (column <= value) & ~column.is_null(),
    FilterOperator.GT: lambda column, value: (column > value) & ~column.is_null(),
    FilterOperator.GTE: lambda column, value: (column >= value) & ~column.is_null(),
    FilterOperator.IN: lambda column, values: column.isin(values) & ~column.is_null(),
    FilterOperator.NIN: lambda column, values: ~column.isin(values) | column.is_null(),
    FilterOperator.IS_EMPTY: lambda column, _: column.is_null(),
}


def as_where(filters: MetadataFilters | None, columns: Collection[str]) -> Condition | None:
    """The filters as the `where` of a search in an index with these columns; None if they are
    empty.

    Raises ArgumentError for an unknown column or operator.
    """
    if filters is None or not filters.filters:
        return None
    parts = [part for part in (_part(part, columns) for part in filters.filters) if part is not None]
    if not parts:
        return None
    if filters.condition == FilterCondition.NOT:
        any_of_them: Condition = reduce(or_, parts)
        return ~any_of_them
    return reduce(or_ if filters.condition == FilterCondition.OR else and_, parts)


def _part(part: MetadataFilter | MetadataFilters, columns: Collection[str]) -> Condition | None:
    if isinstance(part, MetadataFilters):
        return as_where(part, columns)
    if part.key not in columns:
        known = ", ".join(sorted(columns)) or "none"
        raise ArgumentError(f"filter: {part.key!r} is not a column of the store, whose columns are: {known}")
    if part.operator not in _COMPARISONS:
        known = ", ".join(sign.value for sign in _COMPARISONS)
        raise ArgumentError(f"filter: {part.key!r} has the operator {part.operator.value!r}; there are {known}")
    return _COMPARISONS[part.operator](pagehop.column(part.key), part.value)
