"""Converts users' arguments into the engine's form, and checks them."""

from __future__ import annotations

import operator
import os
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pagehop import _pagehop
from pagehop.errors import ArgumentError, DimensionError

Float32: TypeAlias = npt.NDArray[np.float32]
Int64: TypeAlias = npt.NDArray[np.int64]
UInt64: TypeAlias = npt.NDArray[np.uint64]
PathLike: TypeAlias = str | os.PathLike[str]

# Every integer up to here is a float32.
_EXACT_MAX = 1 << 24


def as_array(what: str, vectors: Any) -> npt.NDArray[Any]:
    """`vectors` as an array of numbers; copied only if it is not an array. Lists become float32."""
    if isinstance(vectors, np.ndarray):
        array = vectors
    else:
        listed = isinstance(vectors, (list, tuple))
        try:
            array = np.asarray(vectors, dtype=np.float32 if listed else None)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{what} cannot be made an array of numbers: {error}") from None
    refuse_masked(what, array)
    if array.dtype.kind not in "fiu":
        raise ArgumentError(f"{what} has type {array.dtype}, it must be a float or an integer type")
    return array


def refuse_masked(what: str, values: Any) -> None:
    """Refuses a masked array: what is under its mask would count as any other value."""
    if np.ma.isMaskedArray(values):
        raise ArgumentError(f"{what} is a masked array; fill or drop its masked values first")


def is_utf8(text: str) -> bool:
    """Whether UTF-8 can encode `text`: it cannot encode half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_float32(what: str, array: npt.NDArray[Any], first_row: int = 0, *, strict: bool = False) -> Float32:
    """`array` as C-contiguous float32, rounded where it has to be.

    With `strict`, a value that float32 cannot hold exactly is an error that names it. `first_row`
    is the number of the first row in such an error.
    """
    with np.errstate(over="ignore"):
        rounded: Float32 = np.ascontiguousarray(array, dtype=np.float32)
    if strict and not (array.dtype.kind == "f" and array.dtype.itemsize <= 4):
        _refuse_rounded(what, array, rounded, first_row)
    return rounded


def _refuse_rounded(what: str, array: npt.NDArray[Any], rounded: Float32, first_row: int) -> None:
    if array.dtype.kind == "f":
        wrong = (rounded != array) & ~np.isnan(array)
    else:
        wrong = (array > _EXACT_MAX) if array.dtype.kind == "u" else (abs_above(array, _EXACT_MAX))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        row = f"row {first_row + at[0]}, " if len(at) == 2 else ""
        raise ArgumentError(
            f"{what} has type {array.dtype}, and {row}component {at[-1]} ({array[at]}) is not a float32; "
            "leave out strict=True to round it"
        )


def abs_above(array: npt.NDArray[Any], bound: int) -> npt.NDArray[np.bool_]:
    """Where `array` of a signed integer type is beyond `bound` on either side."""
    if array.dtype.itemsize < 4:
        return np.zeros(array.shape, dtype=np.bool_)
    above: npt.NDArray[np.bool_] = (array > bound) | (array < -bound)
    return above


def as_text(path: PathLike) -> str:
    """`path` as a text that the system can open."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise ArgumentError(f"path is {path!r}, it must be a path") from None
    if "\0" in text:
        raise ArgumentError(f"path {text!r} has a null character")
    return text


def as_count(what: str, value: Any, low: int, high: int) -> int:
    """`value` as a whole number from `low` to `high`."""
    try:
        count = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{what} is {value!r}, it must be a whole number") from None
    if not low <= count <= high:
        raise ArgumentError(f"{what} is {count}, it must be between {low} and {high}")
    return count


def as_number(what: str, value: Any) -> float:
    """`value` as a number from 0 on, infinity included."""
    number = _as_any_number(what, value)
    if not number >= 0:
        raise ArgumentError(f"{what} is {number}, it must be 0 or more")
    return number


def as_recall(value: Any) -> float:
    """`value` as a recall: above 0 and at most 1."""
    recall = _as_any_number("recall", value)
    if not 0 < recall <= 1:
        raise ArgumentError(f"recall is {recall}, it must be above 0 and at most 1; 1 compares with every row")
    return recall


def _as_any_number(what: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{what} is {value!r}, it must be a number") from None


def as_query(what: str, query: Any, *, strict: bool) -> Float32:
    """`query` as one vector, or a matrix of one vector per row."""
    array = as_array(what, query)
    if array.ndim not in (1, 2):
        raise ArgumentError(f"{what} has {array.ndim} dimensions, it must have one or two")
    return as_float32(what, array, strict=strict)


def as_queries(what: str, queries: Any, dim: int, path: str, *, strict: bool) -> Float32:
    """`queries` as a matrix of at least one vector of `dim` components, for the index at `path`."""
    array = as_array(what, queries)
    if array.ndim != 2:
        raise ArgumentError(f"{what} has {array.ndim} dimensions, it must be a matrix with one query per row")
    if array.shape[1] != dim:
        what = f"{path}: the index has {dim} dimensions, {what} have {array.shape[1]}"
        raise DimensionError(what, dim, array.shape[1])
    if not len(array):
        raise ArgumentError(f"{what} has no rows")
    return as_float32(what, array, strict=strict)


def as_cache(value: Any) -> int:
    """`value` as bytes of a cache: as `as_bytes`, or "auto"."""
    is_auto = isinstance(value, str) and value == "auto"
    return _pagehop.CACHE_AUTO if is_auto else as_bytes("cache", value)


def as_bytes(what: str, value: Any) -> int:
    """`value` as a number of bytes: a whole number, or text such as "256MiB"."""
    if isinstance(value, str):
        return _pagehop.parse_bytes(value)
    return as_count(what, value, 0, (1 << 63) - 1)
