"""Columns: values of rows besides their vectors, as the engine takes them."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pagehop.arrays import is_utf8
from pagehop.errors import ArgumentError

# A column for the engine: name, kind, values, and which of them are missing.
Column: TypeAlias = tuple[str, str, Any, npt.NDArray[np.uint8] | None]

_INT_MAX = (1 << 63) - 1
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
# The engine's `Value::parse` takes the same texts; NumPy takes more, and checks the ranges.
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{0,6})?)?)?)Z?"
    r"|(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{0,6})?)?)([+-])([01]\d|2[0-3])(?::?([0-5]\d))?",
    re.ASCII,
)
# The types that may hold the tags of a row.
_SETS = (list, tuple, set, frozenset, np.ndarray)


def as_kinds(columns: Any) -> list[tuple[str, str]]:
    """The columns of a new index: names with kinds."""
    if columns is None:
        return []
    if not isinstance(columns, Mapping):
        raise ArgumentError('columns must be a dict of names and kinds, such as {"topic": "int"}')
    return [(_as_name(name), str(kind)) for name, kind in columns.items()]


def as_columns(columns: Any, rows: int | None, known: Mapping[str, str] | None = None) -> list[Column] | None:
    """Columns of values as the engine takes them.

    columns: a dict of names and sequences, or a table of Arrow or pandas.
    rows: how many rows there must be; None if that is not known.
    known: the kinds of the columns of an index.
    """
    if columns is None:
        return None
    done: list[Column] = []
    for name, values in _named(columns):
        kind, data, missing = _values(name, values, (known or {}).get(name))
        expected = len(done[0][2]) if rows is None and done else rows
        if expected is not None and len(data) != expected:
            raise ArgumentError(f"column '{name}' has {len(data)} values for {expected} rows")
        done.append((name, kind, data, missing))
    return done


def _named(columns: Any) -> Iterable[tuple[str, Any]]:
    if hasattr(columns, "column_names"):
        return [(name, columns.column(name)) for name in columns.column_names]
    if isinstance(columns, Mapping) or hasattr(columns, "items"):
        return [(_as_name(name), values) for name, values in columns.items()]
    raise ArgumentError("columns must be a dict of names and values, or a table of Arrow or pandas")


def _as_name(name: Any) -> str:
    if not isinstance(name, str):
        raise ArgumentError(f"columns: the name of a column must be a str, not {name!r}")
    return as_utf8(name, "columns: ")


def _values(name: str, values: Any, known: str | None) -> tuple[str, Any, npt.NDArray[np.uint8] | None]:
    array, missing = _as_array(name, values)
    if array.ndim != 1:
        raise ArgumentError(f"column '{name}' has {array.ndim} dimensions, it must have one")
    kind = array.dtype.kind
    if kind == "V" and array.dtype.itemsize == 16 and array.dtype.names is None:
        return "uuid", [value.tobytes() for value in array], _as_bytes(missing)
    if kind == "U" and known in _OF_TEXTS:
        array, kind = array.astype(object), "O"
    if kind == "O":
        return _of_objects(name, _without(array.tolist(), missing, None), known)
    if kind == "M":
        missing = _or(missing, np.isnat(array))
        times, beyond = _as_microseconds(array)
        row = _first(beyond, missing)
        if row is not None:
            raise ArgumentError(f"column '{name}', row {row}: {_beyond(array[row])}")
        return "timestamp", times, _as_bytes(missing)
    if kind == "U":
        texts = _without(array.tolist(), missing, "")
        for row, text in enumerate(texts):
            if not is_utf8(text):
                as_utf8(text, f"column '{name}', row {row}: ")
        return "text", texts, _as_bytes(missing)
    if kind == "f" or (kind in "iu" and known == "float"):
        numbers = array.astype(np.float64)
        missing = _or(missing, np.isnan(numbers))
        return "float", np.where(np.isnan(numbers), 0.0, numbers), _as_bytes(missing)
    if kind in "iub":
        row = _first(array > _INT_MAX, missing) if kind == "u" else None
        if row is not None:
            raise ArgumentError(f"column '{name}', row {row}: {array[row]} is above 2**63 - 1")
        return ("bool" if kind == "b" else "int"), array.astype(np.int64), _as_bytes(missing)
    raise ArgumentError(
        f"column '{name}' has type {array.dtype}, it must hold numbers, bool, str, datetime64, UUIDs or lists of str"
    )


def _as_array(name: str, values: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    if isinstance(values, (str, bytes, Mapping)):
        raise ArgumentError(f"column '{name}' is {values!r:.40}, it must hold one value per row")
    if np.ma.isMaskedArray(values):
        return np.asarray(values.data), np.ma.getmaskarray(values)
    if isinstance(values, np.ndarray):
        return values, None
    if hasattr(values, "to_pylist"):
        # An array of Arrow.
        found = None if hasattr(values.type, "value_type") else _of_arrow(values)
        if found is not None:
            return found
        values = values.to_pylist()
    elif hasattr(values, "to_numpy"):
        return _of_series(values)
    try:
        listed = list(values)
    except TypeError:
        raise ArgumentError(f"column '{name}' is {values!r:.40}, it must hold one value per row") from None
    # Lists in it stay lists.
    return np.fromiter(listed, dtype=object, count=len(listed)), None


def _of_arrow(values: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None] | None:
    """The values of an array of Arrow and which of them are missing; None if NumPy has no such
    values.
    """
    try:
        # With a null in it, integers would come as floats, and times as objects.
        present = np.asarray(values.drop_null() if values.null_count else values)
    except NotImplementedError:
        return None
    # Bytes of a fixed length would lose zeros at their end.
    if present.dtype.kind in "SV":
        return None
    return _spread(present, np.asarray(values.is_null())) if values.null_count else (present, None)


def _of_series(values: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """The values of a series of pandas or polars, and which of them are missing."""
    for missing_of, without in (("isna", "dropna"), ("is_null", "drop_nulls")):
        if hasattr(values, missing_of) and hasattr(values, without):
            missing = np.asarray(getattr(values, missing_of)())
            if missing.any():
                # With a missing value in it, integers would come as floats.
                return _spread(getattr(values, without)().to_numpy(), missing)
    return values.to_numpy(), None


def _spread(
    present: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """An array with the values that are present where none is missing."""
    array = np.full(len(missing), None) if present.dtype.kind == "O" else np.zeros(len(missing), present.dtype)
    array[~missing] = present
    return array, missing


def _of_objects(name: str, values: list[Any], known: str | None) -> tuple[str, Any, npt.NDArray[np.uint8] | None]:
    """Values of any types; their kind must fit all of them."""
    plain = [None if is_missing(value) else _plain(name, row, value) for row, value in enumerate(values)]
    missing = np.array([value is None for value in plain], dtype=np.bool_)
    kinds = {value[0] for value in plain if value is not None}
    if kinds == {"int", "float"} or (kinds == {"int"} and known == "float"):
        kinds = {"float"}
    if len(kinds) > 1:
        raise ArgumentError(f"column '{name}' has values of several kinds: {', '.join(sorted(kinds))}")
    kind = kinds.pop() if kinds else known
    if kind == "text" and known in _OF_TEXTS:
        read = _OF_TEXTS[known]
        plain = [None if value is None else read(name, row, value[1]) for row, value in enumerate(plain)]
        kind = known
    if kind is None:
        raise ArgumentError(f"column '{name}' has no values, so its kind is unknown; give an array with a type")
    if kind == "text":
        return kind, ["" if value is None else value[1] for value in plain], _as_bytes(missing)
    if kind == "uuid":
        return kind, [bytes(16) if value is None else value[1] for value in plain], _as_bytes(missing)
    if kind == "tags":
        return kind, [[] if value is None else value[1] for value in plain], _as_bytes(missing)
    dtype = np.float64 if kind == "float" else np.int64
    try:
        data = np.array([0 if value is None else value[1] for value in plain], dtype=dtype)
    except OverflowError:
        raise ArgumentError(f"column '{name}' has an integer beyond 64 bits") from None
    return kind, data, _as_bytes(missing)


def _plain(name: str, row: int, value: Any) -> tuple[str, Any]:
    """The kind of a value, and the plain value."""
    if isinstance(value, _SETS):
        return ("tags", as_tags(value, f"column '{name}', row {row}: "))
    value = as_value(value, f"column '{name}', row {row}: ")
    if isinstance(value, tuple):
        return value
    kinds: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "text"}
    return kinds[type(value)], value


def _uuid(name: str, row: int, text: str) -> tuple[str, bytes]:
    try:
        return ("uuid", uuid.UUID(text).bytes)
    except ValueError:
        raise ArgumentError(f"column '{name}', row {row}: {text!r:.80} is not a UUID") from None


def _time(name: str, row: int, text: str) -> tuple[str, int]:
    try:
        if found := _TIME.fullmatch(text):
            utc, local, sign, hours, minutes = found.groups(default="")
            time = int(np.datetime64((utc or local).rstrip("."), "us").astype(np.int64))
            ahead = int(f"{sign}{60 * int(hours or 0) + int(minutes or 0)}") * 60_000_000
            return ("timestamp", time - ahead)
    except ValueError:
        pass
    raise ArgumentError(f"column '{name}', row {row}: {text!r:.80} is not a time such as '2024-05-01 12:30'")


_OF_TEXTS = {"uuid": _uuid, "timestamp": _time}
"""Kinds whose values may be given as texts where the kind is known, and what reads them."""


def as_tags(tags: Any, where: str) -> list[str]:
    """Tags for the engine."""
    if isinstance(tags, (str, bytes)):
        raise ArgumentError(f"{where}{tags!r:.80} is not a list of tags")
    try:
        listed = list(tags)
    except TypeError:
        raise ArgumentError(f"{where}{tags!r:.80} is not a list of tags") from None
    for tag in listed:
        if not isinstance(tag, str):
            raise ArgumentError(f"{where}{tag!r:.80} is not a tag: a tag is a str")
    return [as_utf8(tag, where) for tag in listed]


def as_utf8(text: str, where: str) -> str:
    """A text for the engine. `where` begins the error if UTF-8 cannot encode it."""
    if not is_utf8(text):
        raise ArgumentError(f"{where}{text!r:.80} is not a text that UTF-8 can encode")
    return str(text)


def as_value(value: Any, where: str = "") -> Any:
    """A value for the engine: None, bool, int, float, str, or a pair.

    Pairs are ("timestamp", microseconds) and ("uuid", 16 bytes).
    """
    if isinstance(value, uuid.UUID):
        return ("uuid", value.bytes)
    if isinstance(value, bytes):
        if len(value) != 16:
            raise ArgumentError(f"{where}{value!r:.80} has {len(value)} bytes, a UUID has 16")
        return ("uuid", bytes(value))
    if isinstance(value, np.datetime64):
        times, beyond = _as_microseconds(np.array([value]))
        if beyond[0]:
            raise ArgumentError(f"{where}{_beyond(value)}")
        return ("timestamp", int(times[0]))
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return ("timestamp", (aware - _EPOCH) // _MICROSECOND)
    if isinstance(value, datetime.date):
        return ("timestamp", (value - _EPOCH.date()) // _MICROSECOND)
    if value is None:
        return None
    if isinstance(value, str):
        return as_utf8(value, where)
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise ArgumentError(f"{where}{value!r:.80} is not a bool, number, str, time or UUID")


def _as_microseconds(times: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Microseconds since 1970, and which of the times are beyond 64 bits of them."""
    cast = times.astype("datetime64[us]")
    # Finer units lose digits. All their times are inside, and NumPy has no years of picoseconds.
    if np.datetime_data(times.dtype)[0] in ("ns", "ps", "fs", "as"):
        return cast.astype(np.int64), np.zeros(times.shape, dtype=np.bool_)
    # The cast wraps around: such a time is in another year afterwards.
    return cast.astype(np.int64), cast.astype("datetime64[Y]") != times.astype("datetime64[Y]")


def _beyond(time: Any) -> str:
    return f"{time} is not a timestamp: they are from the year -290308 to 294247"


def is_missing(value: Any) -> bool:
    """Whether this stands for a missing value, in Python, NumPy or pandas."""
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and bool(value != value)


def _or(
    missing: npt.NDArray[np.bool_] | None,
    more: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_] | None:
    both: npt.NDArray[np.bool_] = more if missing is None else missing | more
    return both if both.any() else None


def _first(wrong: npt.NDArray[np.bool_], missing: npt.NDArray[np.bool_] | None) -> int | None:
    """The first row that is wrong and has a value."""
    present = wrong if missing is None else wrong & ~missing
    return int(np.argmax(present)) if present.any() else None


def _without(values: list[Any], missing: npt.NDArray[np.bool_] | None, fill: Any) -> list[Any]:
    if missing is None:
        return values
    return [fill if gone else value for value, gone in zip(values, missing.tolist(), strict=True)]


def _as_bytes(missing: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.uint8] | None:
    if missing is None or not missing.any():
        return None
    return missing.astype(np.uint8)
