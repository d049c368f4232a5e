"""The index class, which Django writes into migrations and turns into `CREATE INDEX`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.postgres.indexes import PostgresIndex

FILTER_COLUMNS_MAX = 7


class PagehopIndex(PostgresIndex):
    """An index `USING pagehop` over a vector field of pgvector, followed by filter columns.

    fields: the vector field first, then up to 7 fields to filter by.
    opclasses: the operator class of the vector field, such as `vector_l2_ops` or
        `halfvec_cosine_ops`; there is no default. Filter columns have none.
    expressions: in place of `fields`; the first is an `OpClass` over an expression of type vector.

    Raises ValueError without an operator class, for more than 7 filter columns, and for `include`.
    """

    suffix = "pagehop"

    def __init__(self, *expressions: Any, fields: Sequence[str] = (), opclasses: Sequence[str] = (), **kwargs: Any):
        classes = list(opclasses)
        if fields:
            if not classes:
                raise ValueError(
                    "PagehopIndex needs the operator class of its vector field, as in opclasses=['vector_l2_ops']"
                )
            # Django needs one class for each field; an empty name stands for the default class.
            classes += [""] * (len(fields) - len(classes))
        columns = max(len(fields), len(expressions)) - 1
        if columns > FILTER_COLUMNS_MAX:
            raise ValueError(f"PagehopIndex has {columns} filter columns, {FILTER_COLUMNS_MAX} are possible")
        if kwargs.get("include"):
            raise ValueError("PagehopIndex has no included columns; columns to filter by are fields behind the vector")
        super().__init__(*expressions, fields=fields, opclasses=classes, **kwargs)
