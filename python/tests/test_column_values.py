"""Values of columns and of conditions, in the forms that NumPy, Arrow and Python have for them."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagehop
from pagehop import column

X = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)


def rows_of(index: pagehop.Index, where: Any) -> list[int]:
    """The ids of the rows that pass."""
    return sorted(index.search(X[0], k=len(X), where=where).ids.tolist())


def test_masked_values_are_missing(tmp_path: Path) -> None:
    mask = [False, True, False, True]
    uuids = [uuid.UUID(int=number) for number in (1, 2, 3, 4)]
    forms: dict[str, tuple[str, Any]] = {
        "objects": ("text", ["a", "b", "c", "d"]),
        "numbers": ("int", [1, 2, 3, 4]),
        # The masked value is beyond what an int holds.
        "unsigned": ("int", np.array([1, 1 << 63, 3, 4], np.uint64)),
        "floats": ("float", [1.5, np.nan, 2.5, 3.5]),
        "times": ("timestamp", [np.datetime64("2024-01-01"), np.datetime64("300000-01-01")] * 2),
        "tags": ("tags", [["a"], ["b"], ["c"], []]),
        "uuids": ("uuid", uuids),
        "texts": ("uuid", [str(value) for value in uuids]),
    }
    for name, (kind, values) in forms.items():
        plain = np.empty(4, dtype=object)
        plain[:] = values
        arrays: list[Any] = [np.ma.array(plain, mask=mask)]
        if name not in ("tags", "uuids"):
            arrays.append(np.ma.array(values, mask=mask))
        # As list() of a masked array gives them.
        arrays.append([np.ma.masked if gone else value for value, gone in zip(values, mask, strict=True)])
        for array in arrays:
            with pagehop.create(tmp_path / "x", 8, columns={"a": kind}, overwrite=True) as index:
                index.add(range(4), X, columns={"a": array})
                assert rows_of(index, column("a").is_null()) == [1, 3], (name, array)
                if kind != "tags":
                    found = [rows_of(index, column("a") == values[row]) for row in (0, 2)]
                    assert found == ([[0, 2]] * 2 if name == "times" else [[0], [2]]), (name, array)
    over = np.ma.array([1, 1 << 63, 1 << 63, 4], mask=[True, False, False, False], dtype=np.uint64)
    with pytest.raises(pagehop.ArgumentError, match="row 1: 9223372036854775808 is above"):
        pagehop.build(tmp_path / "y", X, columns={"a": over})


def test_nulls_of_arrow_leave_the_other_values_as_they_are(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    noon = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    # The last digits would be lost in a float, and a datetime has no nanoseconds.
    large, nanoseconds = (1 << 53) + 1, 1_714_564_800_000_000_001
    forms: dict[str, tuple[Any, str, Any]] = {
        "int": (pa.array([None, large, None, 0]), "int", large),
        "unsigned": (pa.array([None, large, None, 0], pa.uint64()), "int", large),
        "float": (pa.array([None, 1.5, float("nan"), 0]), "float", 1.5),
        "half": (pa.array([None, 1.5, None, 0], pa.float16()), "float", 1.5),
        "bool": (pa.array([None, True, None, False]), "bool", True),
        "ns": (pa.array([None, nanoseconds, None, 0], pa.timestamp("ns")), "timestamp", noon),
        "zone": (pa.array([None, noon, None, 0], pa.timestamp("us", tz="Europe/Berlin")), "timestamp", noon),
        "day": (pa.array([None, noon.date(), None, 0], pa.date32()), "timestamp", noon.date()),
        "chunks": (pa.chunked_array([[None], [large, None, 0]], pa.int64()), "int", large),
        "text": (pa.array([None, "a", None, "b"]), "text", "a"),
        "view": (pa.array([None, "a", None, "b"], pa.string_view()), "text", "a"),
    }
    for name, (array, kind, value) in forms.items():
        with pagehop.build(tmp_path / "x", X, columns=pa.table({"a": array}), overwrite=True) as index:
            assert index.columns == {"a": kind}, name
            assert rows_of(index, column("a").is_null()) == [0, 2], name
            assert rows_of(index, column("a") == value) == [1], name
    # A type is known without a value.
    with pagehop.build(tmp_path / "x", X, columns={"a": pa.nulls(4, pa.int8())}, overwrite=True) as index:
        assert index.columns == {"a": "int"}


def test_a_null_of_arrow_makes_no_python_object_of_each_value(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")

    class Column:
        """An array of Arrow whose values no one may ask for one by one."""

        def __init__(self, array: Any) -> None:
            self._array = array

        def __getattr__(self, name: str) -> Any:
            return getattr(self._array, name)

        def to_pylist(self) -> list[Any]:
            raise AssertionError("each value becomes an object")

    for array in (pa.array([1, None, 3, 4]), pa.array([1, None, 3, 4], pa.timestamp("ns"))):
        with pagehop.build(tmp_path / "x", X, columns={"a": Column(array)}, overwrite=True) as index:
            assert rows_of(index, "a is null") == [1]


class Series:
    """As of pandas or polars: with a missing value in it, integers come as floats."""

    def __init__(self, values: list[Any], dtype: Any) -> None:
        self._values, self._dtype = values, dtype

    def _missing(self) -> Any:
        return np.array([value is None for value in self._values])

    def _without(self) -> Any:
        return type(self)([value for value in self._values if value is not None], self._dtype)

    def to_numpy(self) -> Any:
        if None not in self._values:
            return np.array(self._values, self._dtype)
        if np.issubdtype(self._dtype, np.integer):
            return np.array([np.nan if value is None else value for value in self._values], np.float64)
        return np.array(self._values, object)


class OfPolars(Series):
    """Its `null_count` is a method; an array of Arrow has a number of this name."""

    def null_count(self) -> int:
        return self._values.count(None)

    is_null, drop_nulls = Series._missing, Series._without


class OfPandas(Series):
    """A series with a nullable type."""

    isna, dropna = Series._missing, Series._without


@pytest.mark.parametrize("series", [OfPolars, OfPandas])
def test_series_keep_their_kind_where_values_are_missing(series: type[Series], tmp_path: Path) -> None:
    large = (1 << 53) + 1
    noon = np.datetime64("2024-05-01T12:00")
    forms: dict[str, tuple[Series, str, Any]] = {
        "whole": (series([5, large, 5, 0], np.int64), "int", large),
        "int": (series([None, large, None, 0], np.int64), "int", large),
        "text": (series([None, "a", None, "b"], object), "text", "a"),
        "time": (series([None, noon, None, noon + 1], "datetime64[us]"), "timestamp", noon),
    }
    for name, (values, kind, value) in forms.items():
        with pagehop.build(tmp_path / "x", X, columns={"a": values}, overwrite=True) as index:
            assert index.columns == {"a": kind}, name
            assert rows_of(index, column("a") == value) == [1], name
            assert rows_of(index, column("a").is_null()) == ([] if name == "whole" else [0, 2]), name


class NaTType(datetime.datetime):
    """As that of pandas: a datetime that cannot be compared."""

    def __sub__(self, other: Any) -> Any:
        return np.nan


LONE = "\ud800"
"""Half of a surrogate pair, which UTF-8 cannot encode."""
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "text": (lambda: column("a") == LONE, r"column\('a'\): '.ud800' is not a text that UTF-8 can encode"),
    "texts": (lambda: column("a").isin(["b", LONE]), r"column\('a'\): '.ud800' is not a text"),
    "tag": (lambda: column("a").contains(LONE), "contains: '.ud800' is not a text"),
    "tags": (lambda: column("a").contains_any(["b", LONE]), "contains_any: '.ud800' is not a text"),
    "name": (lambda: column(LONE), "column: '.ud800' is not a text"),
    "NaT": (lambda: column("a") == np.datetime64("NaT"), r"column\('a'\): NaT is a missing value.* is_null\(\)"),
    "NaT of pandas": (lambda: column("a") < NaTType(1, 1, 1), "is a missing value"),
    "NaT in a list": (lambda: column("a").isin([1, np.datetime64("NaT")]), "NaT is a missing value"),
    "masked": (lambda: column("a") == np.ma.masked, "-- is a missing value"),
    "no list": (lambda: column("a").isin(5), r"isin\(5\): give a list"),  # type: ignore[arg-type]
    "bytes": (lambda: column("a").isin(b"ab"), r"isin\(b'ab'\): give a list"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_nothing_is_compared_with_are_refused(name: str) -> None:
    call, text = REFUSED[name]
    with pytest.raises(pagehop.ArgumentError, match=text):
        call()


def test_texts_without_an_encoding_are_refused_by_row(tmp_path: Path) -> None:
    texts = ["a", "b", LONE, "d"]
    for values in (texts, np.array(texts), [[text] for text in texts]):
        with pytest.raises(pagehop.ArgumentError, match=r"column 'a', row 2: '.ud800' is not a text"):
            pagehop.build(tmp_path / "x", X, columns={"a": values})
    with pytest.raises(pagehop.ArgumentError, match=r"columns: '.ud800' is not a text"):
        pagehop.build(tmp_path / "x", X, columns={LONE: texts})
    with pytest.raises(pagehop.ArgumentError, match=r"columns: '.ud800' is not a text"):
        pagehop.create(tmp_path / "x", 8, columns={LONE: "int"})
    assert not (tmp_path / "x").exists()
    with pagehop.build(tmp_path / "x", X, columns={"a": np.ma.array(texts, mask=np.arange(4) == 2)}) as index:
        assert rows_of(index, "a is null") == [2]
        with pytest.raises(pagehop.ArgumentError, match=r"where: .* is not a text"):
            index.search(X[0], where=f"a = '{LONE}'")


def test_integers_beyond_floats_are_compared_as_infinity(tmp_path: Path) -> None:
    columns = {"n": [-(1 << 63), 0, (1 << 63) - 1, None], "f": [-1e308, 0, 1e308, None]}
    with pagehop.build(tmp_path / "x", X, columns=columns) as index:
        for name in columns:
            for sign, value in (("<", 10**400), (">", -(10**400)), ("<>", 10**400)):
                compared = {"<": column(name) < value, ">": column(name) > value, "<>": column(name) != value}[sign]
                assert rows_of(index, compared) == rows_of(index, f"{name} {sign} {value}") == [0, 1, 2]
            assert rows_of(index, column(name) > 10**400) == rows_of(index, column(name).isin([10**400])) == []
    with pytest.raises(pagehop.ArgumentError, match="beyond 64 bits"):
        pagehop.build(tmp_path / "y", X, columns={"n": [10**400, 1, 2, 3]})


TIMES = [
    "2024-05-01", "2024-05-01Z", "2024-05-01T12:30", "2024-05-01 12:30", "2024-05-01 12:30:59.",
    "1969-12-31T23:59:59.9Z", "2024-02-29 00:00:00.000001", "0000-02-29", "9999-12-31 23:59:59.999999",
    "2024-05-01T12:30+02:00", "2024-05-01 23:30:00.5-0330", "2024-05-01 00:00:01.+05", "2024-05-01 00:00-23:59",
]  # fmt: skip
NO_TIMES = [
    "", "2024-5-1", "2024-05-01T", "2024-05-01 12", "2024-05-01 24:00", "2024-05-01 12:60", "2024-05-01 12:30:60",
    "2023-02-29", "1900-02-29", "2024-13-01", "2024-00-01", "2024-04-31", "2024-05-01 12:30:00.1234567", "today", "NaT",
    "2024-05-01ZZ", "2024-05-01+02", "2024-05-01 12:30+2", "2024-05-01 12:30+24", "2024-05-01 12:30+01:60",
    "2024-05-01 12:30+02Z", "20240501", "-2024-05-01", "2024-05", "2024-05-01\n", "\u0662024-05-01",
    " 2024-05-01", "2024-05-01  12:30", "2024-05-01t12:30", "2024-05-01 12:30:00,5",
]  # fmt: skip


def with_text(text: str) -> list[Any]:
    return [[None, text], np.array(["2000-01-01", text]), np.array([None, text], object)]


@pytest.mark.parametrize("text", TIMES)
def test_texts_are_the_times_that_conditions_take_them_for(text: str, tmp_path: Path) -> None:
    with pagehop.create(tmp_path / "x", 8, columns={"day": "timestamp"}) as index:
        for values in with_text(text):
            index.add([0, 1], X[:2], columns={"day": values})
            assert rows_of(index, f"day = '{text}'") == rows_of(index, column("day") == text) == [1]


@pytest.mark.parametrize("text", NO_TIMES)
def test_what_conditions_take_for_no_time_is_none(text: str, tmp_path: Path) -> None:
    said = re.escape(f"column 'day', row 1: {text!r} is not a time such as '2024-05-01 12:30'")
    with pagehop.create(tmp_path / "x", 8, columns={"day": "timestamp"}) as index:
        for values in with_text(text):
            with pytest.raises(pagehop.ArgumentError, match=said):
                index.add([0, 1], X[:2], columns={"day": values})
        with pytest.raises(pagehop.ArgumentError, match="is not a value of kind timestamp"):
            index.search(X[0], where=f"day = '{text}'")
        assert len(index) == 0


def test_texts_of_arrow_become_times(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    with pagehop.create(tmp_path / "x", 8, columns={"day": "timestamp"}) as index:
        index.add(range(4), X, columns=pa.table({"day": ["2024-05-01", None, "2024-05-02", "2024-05-03 12:30"]}))
        index.update_columns([0], {"day": ["2024-05-04"]})
        assert rows_of(index, column("day") > datetime.date(2024, 5, 2)) == [0, 3]


class Timestamp(datetime.datetime):
    """As that of pandas: a datetime with nanoseconds besides its microseconds."""

    nanosecond = 0


def test_times_finer_than_a_microsecond_are_not_compared(tmp_path: Path) -> None:
    midnight = np.datetime64("2024-01-01", "us")
    finer = Timestamp(2024, 1, 1)
    finer.nanosecond = 500
    picoseconds = np.array([0, 1_999_999, 2_000_000, "NaT"], "datetime64[ps]")
    with pagehop.build(tmp_path / "y", X, columns={"day": picoseconds}) as index:
        assert rows_of(index, column("day") == np.datetime64(1, "us")) == [1]
        assert rows_of(index, column("day").is_null()) == [3]
    with pagehop.build(tmp_path / "x", X, columns={"day": midnight + np.arange(4)}) as index:
        day = column("day")
        for value in (np.datetime64("2024-01-01T00:00:00.000000500"), np.datetime64(1, "ps"), finer):
            for compare in (day.__lt__, day.__ge__, day.__eq__, day.__ne__, lambda value: day.isin([midnight, value])):
                with pytest.raises(pagehop.ArgumentError, match=r"column\('day'\): .* is finer than a microsecond"):
                    compare(value)
        # A fine unit is no fine value.
        for value in (midnight.astype("datetime64[ns]") + 1000, midnight + 1):
            assert rows_of(index, day < value) == [0]
            assert rows_of(index, day == value) == rows_of(index, day.isin([value])) == [1]
        assert rows_of(index, day < Timestamp(2024, 1, 1, microsecond=1)) == [0]
