"""Columns and filters, compared with NumPy."""

from __future__ import annotations

import datetime
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pagehop
from oracle import nearest

DIM = 32
ROWS = 3000


def make(seed: int, rows: int = ROWS) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((20, DIM))
    vectors = (centers[rng.integers(0, 20, rows)] + 0.5 * rng.standard_normal((rows, DIM))).astype(np.float32)
    price = rng.uniform(0, 100, rows)
    price[rng.uniform(size=rows) < 0.1] = np.nan
    columns = {
        "topic": rng.integers(0, 12, rows),
        "price": price,
        "name": np.array([f"name {i}" for i in rng.integers(0, 40, rows)]),
        "is_new": rng.uniform(size=rows) < 0.5,
        "day": np.datetime64("2024-01-01") + rng.integers(0, 300, rows).astype("timedelta64[D]"),
    }
    return vectors, columns


@pytest.fixture
def built(tmp_path: Path) -> tuple[pagehop.Index, npt.NDArray[np.float32], dict[str, Any]]:
    vectors, columns = make(1)
    return pagehop.build(tmp_path / "x.pagehop", vectors, columns=columns, write=True), vectors, columns


def found_all(index: pagehop.Index, vectors: npt.NDArray[np.float32], mask: Any, where: Any) -> None:
    """An exact search finds the nearest rows of the mask. A default search finds only rows of the
    mask.
    """
    queries = make(2, 20)[0]
    ids = np.flatnonzero(mask)
    expected = min(10, len(ids))
    exact = index.search(queries, where=where, recall=1)
    usual = index.search(queries, where=where)
    single = index.search(queries[0], where=where, recall=1)
    assert len(single.ids) == expected
    for at in range(len(queries)):
        for hits in (exact, usual):
            row = hits.ids[at][hits.ids[at] >= 0]
            assert len(row) == len(set(row)) == expected
            assert np.isin(row, ids).all()
    if expected:
        truth = ids[nearest(vectors[ids], queries, expected)]
        shared = [len(set(truth[at]) & set(exact.ids[at])) for at in range(len(queries))]
        assert sum(shared) >= 0.99 * expected * len(queries)
        assert set(single.ids) == set(exact.ids[0][:expected])


def test_a_search_finds_rows_that_pass(built: Any) -> None:
    index, vectors, columns = built
    topic, price, name = (pagehop.column(word) for word in ("topic", "price", "name"))
    cheap = columns["price"] < 20
    missing = np.isnan(columns["price"])
    day = np.datetime64("2024-03-01")
    for mask, where in [
        (columns["topic"] == 7, topic == 7),
        (columns["topic"] == 7, "topic = 7"),
        ((columns["topic"] == 7) & cheap, (topic == 7) & (price < 20)),
        ((columns["topic"] == 7) & cheap, "topic = 7 and price < 20"),
        (np.isin(columns["topic"], [1, 5]) | cheap, topic.isin([1, 5]) | (price < 20)),
        (~cheap & ~missing, ~(price < 20)),
        (missing, price.is_null()),
        (~missing, price != None),  # noqa: E711
        (cheap & (columns["price"] >= 5), "price between 5 and 19.999999999999996"),
        (columns["name"] == "name 3", name == "name 3"),
        (columns["name"] != "name 3", name != "name 3"),
        (columns["is_new"], pagehop.column("is_new") == True),  # noqa: E712
        (columns["day"] < day, pagehop.column("day") < day),
        (columns["day"] < day, pagehop.column("day") < datetime.date(2024, 3, 1)),
        (columns["day"] < day, pagehop.column("day") < datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC)),
        (columns["day"] < day, "day < '2024-03-01'"),
        (np.zeros(ROWS, bool), topic == 1000),
        (np.ones(ROWS, bool), topic >= 0),
        (np.arange(ROWS) % 5 == 0, np.arange(0, ROWS, 5)),
        (np.arange(ROWS) % 5 == 0, np.arange(ROWS) % 5 == 0),
        (np.arange(ROWS) < 3, [0, 1, 2, 1, 10**9]),
        (np.zeros(ROWS, bool), []),
    ]:
        found_all(index, vectors, mask, where)
    assert index.columns == {"topic": "int", "price": "float", "name": "text", "is_new": "bool", "day": "timestamp"}
    assert index.info().columns == index.columns
    index.check()


def test_values_follow_their_rows(tmp_path: Path) -> None:
    vectors, columns = make(3, 600)
    path = tmp_path / "x.pagehop"
    kinds = {"topic": "int", "price": "float"}
    index = pagehop.create(path, DIM, columns=kinds)
    ids = np.arange(600)
    index.add(ids[:400], vectors[:400], columns={name: columns[name][:400] for name in kinds})
    # A column that is left out has missing values.
    index.add(ids[400:], vectors[400:], columns={"topic": columns["topic"][400:].tolist()})
    price = columns["price"].copy()
    price[400:] = np.nan
    found_all(index, vectors, np.isnan(price), pagehop.column("price").is_null())
    assert index.update_columns(ids[:10], {"price": [1000] * 10}) == 10
    assert index.update_columns(ids[:10], {"price": [1000.0] * 10}) == 0
    assert index.update_columns(3, {"topic": [99], "price": [None]}) == 1
    price[:10] = 1000
    price[3] = np.nan
    topic = columns["topic"].copy()
    topic[3] = 99
    for _ in range(2):
        found_all(index, vectors, price == 1000, "price = 1000")
        found_all(index, vectors, topic == 99, "topic = 99 and price is null")
        found_all(index, vectors, topic == 4, pagehop.column("topic") == 4)
        index.vacuum()
        index.check()
    index.close()
    with pagehop.open(path) as index:
        found_all(index, vectors, price == 1000, "price = 1000")


def test_tables_are_columns(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    vectors, columns = make(4, 300)
    price = [None if np.isnan(x) else x for x in columns["price"]]
    day = columns["day"].astype("datetime64[us]")
    table = pyarrow.table({"topic": columns["topic"], "price": price, "name": list(columns["name"]), "day": day})
    index = pagehop.build(tmp_path / "x.pagehop", vectors, columns=table)
    assert index.columns == {"topic": "int", "price": "float", "name": "text", "day": "timestamp"}
    found_all(index, vectors, np.isnan(columns["price"]), "price is null")
    found_all(index, vectors, columns["day"] > np.datetime64("2024-06-01"), "day > '2024-06-01'")


def sets(seed: int, rows: int = ROWS) -> list[list[str] | None]:
    rng = np.random.default_rng(seed)
    made = [[f"tag {tag}" for tag in rng.zipf(1.4, rng.integers(0, 6)) % 50] for _ in range(rows)]
    return [None if gone else tags for tags, gone in zip(made, rng.uniform(size=rows) < 0.1, strict=True)]


def has(tags: list[list[str] | None], *wanted: str) -> npt.NDArray[np.bool_]:
    return np.array([of_row is not None and set(wanted) <= set(of_row) for of_row in tags])


def test_a_search_finds_rows_that_have_tags(tmp_path: Path) -> None:
    vectors, columns = make(7)
    tags = sets(8)
    path = tmp_path / "x.pagehop"
    index = pagehop.build(path, vectors, columns={"topic": columns["topic"], "tags": tags}, write=True)
    assert index.info().columns == {"topic": "int", "tags": "tags"}
    column = pagehop.column("tags")

    def check() -> None:
        given = np.array([of_row is not None for of_row in tags])
        for mask, where in [
            (has(tags, "tag 1"), column.contains("tag 1")),
            (has(tags, "tag 49"), "tags contains 'tag 49'"),
            (has(tags, "no such tag"), column.contains("no such tag")),
            (has(tags, "tag 2") | has(tags, "tag 40"), column.contains_any({"tag 2", "tag 40"})),
            (has(tags, "tag 1", "tag 2"), column.contains_all(["tag 1", "tag 2"])),
            (given & ~has(tags, "tag 1"), ~column.contains("tag 1")),
            (has(tags, "tag 3") & (columns["topic"] < 4), column.contains("tag 3") & (pagehop.column("topic") < 4)),
            (~given, column == None),  # noqa: E711
            (given, column.contains_all([])),
            (given & False, column.contains_any([])),
        ]:
            found_all(index, vectors, mask, where)
        index.check()

    check()
    ids = np.arange(0, ROWS, 5)
    new = sets(9, len(ids))
    assert index.update_columns(ids, {"tags": new}) > 0
    assert index.update_columns(ids, {"tags": new}) == 0
    for row, of_row in zip(ids, new, strict=True):
        tags[row] = of_row
    check()
    index.close()
    pagehop.compact(path)
    index = pagehop.open(path)
    check()


def test_tags_come_in_lists_sets_and_tables(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    vectors = make(3, 4)[0]
    wanted = [["a", "b"], [], None, ["b"]]
    forms: dict[str, Any] = {
        "lists": {"tags": wanted},
        "same": {"tags": [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]]},
        "sets": {"tags": [{"a", "b"}, frozenset(), None, ("b",)]},
        "arrow": pa.table({"tags": pa.array(wanted, pa.list_(pa.string()))}),
        "large": pa.table({"tags": pa.array(wanted, pa.large_list(pa.large_string()))}),
        "chunks": pa.table({"tags": pa.chunked_array([wanted[:1], wanted[1:]], pa.list_(pa.string()))}),
    }
    for name, columns in forms.items():
        index = pagehop.build(tmp_path / name, vectors, columns=columns)
        assert index.info().columns == {"tags": "tags"}
        hits = index.search(vectors[0], where=pagehop.column("tags").contains("b"))
        assert sorted(hits.ids) == ([0] if name == "same" else [0, 3]), name
    with pagehop.create(tmp_path / "made", dim=DIM, columns={"tags": "tags"}) as index:
        index.add(range(4), vectors, columns={"tags": [None, None, [], None]})
        assert list(index.search(vectors[0], where="tags is not null").ids) == [2]


def test_uuids_come_as_objects_bytes_texts_and_tables(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    vectors = make(3, 200)[0]
    # One ends with zero bytes, and one has only upper bits.
    some = [uuid.UUID(int=5 << 64), uuid.UUID(int=7), uuid.uuid5(uuid.NAMESPACE_URL, "a"), uuid.UUID(int=1 << 120)]
    values = [None if row % 7 == 0 else some[row % 4] for row in range(len(vectors))]
    octets = [None if value is None else value.bytes for value in values]
    whole = [some[row % 4].bytes for row in range(len(vectors))]
    forms: dict[str, Any] = {
        "objects": {"u": values},
        "bytes": {"u": octets},
        "void": {"u": np.frombuffer(b"".join(whole), dtype="V16")},
        "arrow": pa.table({"u": pa.array(octets, pa.binary(16))}),
        "arrow whole": pa.table({"u": pa.array(whole, pa.binary(16))}),
    }
    column = pagehop.column("u")
    for name, columns in forms.items():
        index = pagehop.build(tmp_path / name, vectors, columns=columns, write=True)
        assert index.info().columns == {"u": "uuid"}
        of_all = "void" in name or "whole" in name
        for value in some:
            mask = [(of_all or row % 7 > 0) and some[row % 4] == value for row in range(len(vectors))]
            for where in (column == value, column == value.bytes, f"u = '{value}'", column.isin([str(value).upper()])):
                found_all(index, vectors, np.array(mask), where)
        assert index.update_columns([0, 1], {"u": [str(some[2]), None]}) > 0
        assert list(index.search(vectors[0], 1, where=column == some[2]).ids) == [0]
        for bad in (["no uuid"], [b"short"], [7]):
            with pytest.raises(pagehop.ArgumentError, match=r"UUID|kind"):
                index.update_columns([0], {"u": bad})
        for where in (column < some[0], column == 7, column == "x"):
            with pytest.raises(pagehop.ArgumentError, match=r"no order|uuid"):
                index.search(vectors[0], where=where)


def test_bad_tags_are_refused(built: Any, tmp_path: Path) -> None:
    index = built[0]
    column = pagehop.column("tags")
    with pytest.raises(pagehop.ArgumentError, match="there is no column"):
        index.search(built[1][0], where=column.contains("a"))
    with pytest.raises(pagehop.ArgumentError, match="only columns of tags"):
        index.search(built[1][0], where=pagehop.column("topic").contains("a"))
    for bad in (7, ["a"], None):
        with pytest.raises(pagehop.ArgumentError, match="a tag is a str"):
            column.contains(bad)  # type: ignore[arg-type]
    with pytest.raises(pagehop.ArgumentError, match="'ab' is not a list of tags"):
        column.contains_any("ab")
    with pytest.raises(pagehop.ArgumentError, match="7 is not a tag"):
        column.contains_all(["a", 7])  # type: ignore[list-item]
    vectors = make(3, 2)[0]
    for tags, message in [
        ([["a"], "b"], "several kinds: tags, text"),
        ([["a"], [7]], "row 1: 7 is not a tag"),
        ([["a"], [None]], "row 1: None is not a tag"),
        ([["a"], [""]], 'row 1, column "tags": a tag is empty'),
        ([["a"], ["x" * (1 << 20)]], 'row 1, column "tags": a tag has 1048576 bytes'),
        ([["a"], [str(tag) for tag in range(5000)]], "row 1, column .*: a row has 5000 tags, up to 512"),
        ([["a"]], "2 vectors, and columns of 1 rows"),
    ]:
        with pytest.raises(pagehop.ArgumentError, match=message):
            pagehop.build(tmp_path / "bad", vectors, columns={"tags": tags})
    with pytest.raises(pagehop.ArgumentError, match="has kind int, not tags"):
        index.update_columns([1], {"topic": [["a"]]})


def refused(index: pagehop.Index, where: Any) -> str:
    with pytest.raises(pagehop.ArgumentError) as error:
        index.search(np.zeros(DIM, np.float32), where=where)
    return str(error.value)


def test_bad_filters_are_refused(built: Any) -> None:
    index = built[0]
    topic, price = pagehop.column("topic"), pagehop.column("price")
    assert "topic, price, name" in refused(index, pagehop.column("weight") == 1)
    assert "int" in refused(index, topic == "seven")
    assert "NaN" in refused(index, price < float("nan"))
    assert "no order" in refused(index, pagehop.column("name") < "b")
    assert "expected a number" in refused(index, "topic = ")
    assert "'2024-13-01' is not a value of kind timestamp" in refused(index, "day < '2024-13-01'")
    assert "must compare" in refused(index, topic)
    assert "must be a condition" in refused(index, [0.5])
    assert "where is 5, it must be a condition" in refused(index, 5)
    assert "mask of 2 dimensions" in refused(index, np.ones((2, 2), bool))
    assert "ids[0] is -1" in refused(index, [-1])
    deep = topic == 1
    for _ in range(100):
        deep = ~deep
    assert "64 deep" in refused(index, deep)
    with pytest.raises(pagehop.ArgumentError, match="&"):
        bool(topic == 1 and price < 2)
    with pytest.raises(pagehop.ArgumentError, match="not a bool, number, str, time or UUID"):
        topic == object()  # noqa: B015
    many = topic == 0
    for i in range(1, 1000):
        many |= topic == i
    assert len(index.search(np.zeros(DIM, np.float32), where=many).ids) == 10
    assert len(index.search(np.zeros(DIM, np.float32), where=pagehop.column("name") == "x" * (1 << 20)).ids) == 0


def test_bad_columns_are_refused(built: Any, tmp_path: Path) -> None:
    index, vectors, _ = built
    row = vectors[:1]

    def build(columns: Any) -> str:
        with pytest.raises(pagehop.ArgumentError) as error:
            pagehop.build(tmp_path / "bad.pagehop", vectors, columns=columns)
        assert not (tmp_path / "bad.pagehop").exists()
        return str(error.value)

    assert "'b' has 2 values for 3000 rows" in build({"a": [1] * ROWS, "b": [1, 2]})
    assert "3000 vectors" in build({"a": [1, 2]})
    assert "up to 7" in build({f"c{i}": np.zeros(ROWS) for i in range(8)})
    assert "several kinds" in build({"a": ["x", 1]})
    assert "kind is unknown" in build({"a": [None] * ROWS})
    assert "2**63" in build({"a": np.full(ROWS, 1 << 63, np.uint64)})
    assert "beyond 64 bits" in build({"a": [1 << 70]})
    assert "complex128" in build({"a": np.zeros(ROWS, complex)})
    assert "2 dimensions" in build({"a": np.zeros((ROWS, 2))})
    assert "must be a dict" in build(7)
    assert "one value per row" in build({"a": "text"})
    with pytest.raises(pagehop.ArgumentError, match="columns are topic, price"):
        index.add(0, row[0], columns={"weight": [1.0]})
    with pytest.raises(pagehop.ArgumentError, match="has kind int, not text"):
        index.add([0], row, columns={"topic": ["seven"]})
    with pytest.raises(pagehop.ArgumentError, match="2 values for 1 rows"):
        index.add([0], row, columns={"topic": [1, 2]})
    with pytest.raises(pagehop.ArgumentError, match="123456"):
        index.update_columns([123456], {"topic": [1]})
    with pytest.raises(pagehop.ArgumentError, match="no kind of column"):
        pagehop.create(tmp_path / "bad.pagehop", DIM, columns={"a": "integer"})
    plain = pagehop.create(tmp_path / "plain.pagehop", DIM)
    with pytest.raises(pagehop.ArgumentError, match="has no columns"):
        plain.add([0], row, columns={"a": [1]})
    with pytest.raises(pagehop.ArgumentError, match="has no columns"):
        plain.search(row[0], where="a = 1")
    index.check()


def test_times_beyond_64_bits_of_microseconds_are_refused(built: Any, tmp_path: Path) -> None:
    index, vectors, _ = built
    day = pagehop.column("day")
    text = "300000-01-01 is not a timestamp: they are from the year -290308 to 294247"
    days = np.full(ROWS, np.datetime64("2024-01-01"))
    days[5] = np.datetime64("NaT")
    days[17] = np.datetime64("300000-01-01")
    for values in (days, list(days)):
        with pytest.raises(pagehop.ArgumentError, match=f"column 'a', row 17: {text}"):
            pagehop.build(tmp_path / "bad.pagehop", vectors, columns={"a": values})
    with pytest.raises(pagehop.ArgumentError, match=text):
        day < np.datetime64("300000-01-01")  # noqa: B015
    with pytest.raises(pagehop.ArgumentError, match="-300000-01-01 is not a timestamp"):
        day > np.datetime64("-300000-01-01")  # noqa: B015
    # The ends of what fits, and finer units, which lose digits.
    inside = (day > np.datetime64("-290307-01-01")) & (day < np.datetime64("294247-01-01"))
    assert len(index.search(vectors[0], where=inside).ids) == 10
    index.add([0], vectors[:1], columns={"day": np.array(["2024-05-05T01:02:03.123456789"], "datetime64[ns]")})
    assert 0 in index.search(vectors[0], where="day = '2024-05-05T01:02:03.123456'").ids
