"""Pagehop's index in PostgreSQL for SQLAlchemy."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Index
from sqlalchemy.exc import ArgumentError

__all__ = ["OPERATOR_CLASSES", "PagehopIndex"]

OPERATOR_CLASSES = tuple(f"{kind}_{metric}_ops" for kind in ("vector", "halfvec") for metric in ("l2", "ip", "cosine"))
"""The operator classes that an index can have."""
FILTER_COLUMNS_MAX = 7


class PagehopIndex(Index):
    """An index `USING pagehop` over a vector column of pgvector, followed by filter columns.

    vector: the vector column or its name, or an expression with a label.
    filter_columns: up to 7 columns to filter by, or their names.
    opclass: the operator class of the vector, one of `OPERATOR_CLASSES`; there is no default.
    options: options of `sqlalchemy.Index`, such as `postgresql_where`.

    Raises SQLAlchemy's ArgumentError for arguments that such an index cannot have.
    """

    inherit_cache = True

    def __init__(self, name: str, vector: Any, *filter_columns: Any, opclass: str, **options: Any) -> None:
        if opclass not in OPERATOR_CLASSES:
            raise ArgumentError(f"opclass is {opclass!r}, it must be one of {', '.join(OPERATOR_CLASSES)}")
        if len(filter_columns) > FILTER_COLUMNS_MAX:
            raise ArgumentError(f"there are {len(filter_columns)} filter columns, {FILTER_COLUMNS_MAX} are possible")
        if options.get("unique") or options.get("postgresql_include"):
            raise ArgumentError("an index USING pagehop has neither unique values nor included columns")
        key = vector if isinstance(vector, str) else getattr(vector, "key", None)
        if key is None:
            raise ArgumentError("the vector is an expression without a name; give it one with .label('name')")
        options |= {"postgresql_using": "pagehop", "postgresql_ops": {key: opclass}}
        super().__init__(name, vector, *filter_columns, **options)
