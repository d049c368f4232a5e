"""Conditions on rows: made by comparing columns, and as the engine takes them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from pagehop.arrays import refuse_masked
from pagehop.columns import as_tags, as_utf8, as_value, is_missing
from pagehop.errors import ArgumentError
from pagehop.ids import are_texts, as_ids, as_row_ids

# The engine refuses what is nested as deep, so nothing below it has to be right.
_DEPTH_MAX = 64


class Condition:
    """A condition on rows, for `Index.search(..., where=...)`; made by comparing a `column`, or of
    `ids`.

    `a & b`, `a | b` and `~a` combine conditions. As in SQL, a comparison with a missing value is
    neither true nor false, and a search finds rows for which the condition is true.
    """

    __slots__ = ("_form", "_has_ids")

    def __init__(self, form: tuple[Any, ...], has_ids: bool = False) -> None:
        self._form = form
        self._has_ids = has_ids

    def __and__(self, other: Condition) -> Condition:
        return self._joined("and", other) if isinstance(other, Condition) else NotImplemented

    def __or__(self, other: Condition) -> Condition:
        return self._joined("or", other) if isinstance(other, Condition) else NotImplemented

    def __invert__(self) -> Condition:
        return Condition(("not", self._form), self._has_ids)

    def _joined(self, word: str, other: Condition) -> Condition:
        # Chains of one operator stay flat.
        parts = [part for form in (self._form, other._form) for part in (form[1] if form[0] == word else [form])]
        return Condition((word, parts), self._has_ids or other._has_ids)

    def __bool__(self) -> bool:
        raise ArgumentError("a condition is neither true nor false by itself; combine conditions with &, | and ~")

    def __repr__(self) -> str:
        return f"Condition({self._form!r})"


class ColumnName:
    """A column of an index, by its name: compare it to get a `Condition`."""

    __slots__ = ("_name",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        self._name = name

    def __eq__(self, value: object) -> Condition:  # type: ignore[override]
        return self.is_null() if value is None else self._compared("=", value)

    def __ne__(self, value: object) -> Condition:  # type: ignore[override]
        return ~self.is_null() if value is None else self._compared("<>", value)

    def __lt__(self, value: object) -> Condition:
        return self._compared("<", value)

    def __le__(self, value: object) -> Condition:
        return self._compared("<=", value)

    def __gt__(self, value: object) -> Condition:
        return self._compared(">", value)

    def __ge__(self, value: object) -> Condition:
        return self._compared(">=", value)

    def isin(self, values: Iterable[Any]) -> Condition:
        """Whether the value is one of these."""
        try:
            listed = None if isinstance(values, (str, bytes)) else list(values)
        except TypeError:
            listed = None
        if listed is None:
            raise ArgumentError(f"isin({values!r:.80}): give a list of values")
        return Condition(("in", self._name, [self._operand(value) for value in listed]))

    def between(self, low: Any, high: Any) -> Condition:
        """Whether the value is from `low` to `high`, both included."""
        return self._compared(">=", low) & self._compared("<=", high)

    def is_null(self) -> Condition:
        """Whether the value is missing."""
        return Condition(("null", self._name))

    def contains(self, tag: str) -> Condition:
        """Whether the set has this tag."""
        if not isinstance(tag, str):
            raise ArgumentError(f"contains({tag!r:.80}): a tag is a str; contains_any and contains_all take several")
        return Condition(("any", self._name, as_tags([tag], "contains: ")))

    def contains_any(self, tags: Iterable[str]) -> Condition:
        """Whether the set has one of these tags."""
        return Condition(("any", self._name, as_tags(tags, "contains_any: ")))

    def contains_all(self, tags: Iterable[str]) -> Condition:
        """Whether the set has all of these tags."""
        return Condition(("all", self._name, as_tags(tags, "contains_all: ")))

    def _compared(self, sign: str, value: object) -> Condition:
        return Condition(("compare", self._name, sign, self._operand(value)))

    def _operand(self, value: Any) -> Any:
        """A value to compare with, for the engine, which refuses NaN itself."""
        if value is not None and not isinstance(value, (float, np.floating)) and is_missing(value):
            raise ArgumentError(f"{self!r}: {value} is a missing value and cannot be compared; use is_null()")
        plain = as_value(value, f"{self!r}: ")
        # Values of columns are cut to microseconds. A cut operand would be another time.
        if _is_finer(value):
            raise ArgumentError(f"{self!r}: {value} is finer than a microsecond; round it to whole microseconds")
        if isinstance(plain, int):
            try:
                float(plain)
            except OverflowError:
                return math.inf if plain > 0 else -math.inf
        return plain

    def __repr__(self) -> str:
        return f"column({self._name!r})"


def _is_finer(value: Any) -> bool:
    """Whether a time has a part of a microsecond, as those of NumPy and pandas may have."""
    if isinstance(value, np.datetime64):
        return bool(value != value.astype("datetime64[us]"))
    return isinstance(value, datetime.datetime) and bool(getattr(value, "nanosecond", 0))


def column(name: str) -> ColumnName:
    """The column `name` of an index, for conditions such as `column("price") < 20`."""
    if not isinstance(name, str):
        raise ArgumentError(f"column({name!r}): the name of a column is a str")
    return ColumnName(as_utf8(name, "column: "))


def ids(rows: Any) -> Condition:
    """Whether the id of a row is one of these, to be combined with other conditions.

    rows: an array or a list of ids, or a mask, as `where` of `Index.search` takes them. A later
        change of the array does not change the condition.
    """
    refuse_masked("ids", rows)
    if isinstance(rows, (str, bytes)) or not hasattr(rows, "__iter__"):
        raise ArgumentError(f"ids({rows!r:.80}): give a list or an array of ids, or a mask")
    kept = np.array(rows) if hasattr(rows, "__array__") else list(rows)
    # What no index takes is refused here.
    _of_ids("ids", kept, are_texts(kept), None)
    return Condition(("ids", kept), has_ids=True)


def as_filter(where: Any, texts: bool, path: str) -> tuple[Any, ...] | None:
    """`where` as the engine takes it: a condition, its text, ids, which may be texts, or a mask."""
    if where is None:
        return None
    if isinstance(where, Condition):
        return _with_ids(where._form, texts, path, 0) if where._has_ids else where._form
    if isinstance(where, str):
        return ("text", as_utf8(where, "where: "))
    if isinstance(where, ColumnName):
        raise ArgumentError(f"where is {where!r}, it must compare the column with something")
    return _of_ids("where", where, texts, path)


def _with_ids(form: tuple[Any, ...], texts: bool, path: str, depth: int) -> tuple[Any, ...]:
    """The form of a condition with ids of the kind that the index has."""
    if depth == _DEPTH_MAX:
        return form
    match form:
        case ("ids", given):
            return _of_ids("ids", given, texts, path)
        case ("not", part):
            return ("not", _with_ids(part, texts, path, depth + 1))
        case ("and" | "or" as word, parts):
            return (word, [_with_ids(part, texts, path, depth + 1) for part in parts])
    return form


def _of_ids(what: str, given: Any, texts: bool, path: str | None) -> tuple[str, Any]:
    """Ids or a mask as the engine takes them."""
    refuse_masked(what, given)
    if texts or are_texts(given):
        return ("ids", as_row_ids(given, texts, path))
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.asarray(None)
    if array.dtype == np.bool_:
        if array.ndim != 1:
            raise ArgumentError(f"{what} is a mask of {array.ndim} dimensions, it must have one")
        return ("ids", np.flatnonzero(array).astype(np.uint64))
    if array.ndim == 0 or (array.dtype.kind not in "iu" and array.size):
        also = "a condition, its text, " if what == "where" else ""
        raise ArgumentError(f"{what} is {given!r:.80}, it must be {also}ids or a mask")
    return ("ids", as_ids(array))
