"""Sets: prepared once, and refused if they are inconsistent."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pagehop_lab.analysis.recalls import DISTANCES
from pagehop_lab.data import DataError, Dataset, command, fashion, prepare, sets
from pagehop_lab.data.real import files
from pagehop_lab.data.real.files import Content
from pagehop_lab.data.truth import neighbors


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(sets.VARIABLE, str(tmp_path / "data"))
    return tmp_path


def made(name: str, path: Path | None = None, **more: Any) -> Dataset:
    given: dict[str, Any] = {"rows": None, "queries": None, "metric": None, "seed": 1} | more
    return prepare(name, str(path) if path else None, say=lambda _: None, **given)


def brute(base: Any, queries: Any, metric: str, depth: int) -> tuple[Any, Any]:
    """The true neighbors, by comparing all rows."""
    distances = np.array([
        DISTANCES[metric](base, np.broadcast_to(query, base.shape)) for query in queries
    ])  # fmt: skip
    ids = np.argsort(distances, axis=1, kind="stable")[:, :depth]
    return ids, np.take_along_axis(distances, ids, axis=1)


def write(path: Path, metric: str = "euclidean", **changes: Any) -> Path:
    """A file in ann-benchmarks' format, with some changes."""
    random = np.random.default_rng(11)
    base, queries = (random.standard_normal((count, 5)).astype(np.float32) for count in (400, 30))
    ids, distances = brute(base, queries, metric, 100)
    arrays = {"train": base, "test": queries, "neighbors": ids, "distances": distances.astype(np.float32)}
    with h5py.File(path, "w") as file:
        file.attrs["distance"] = metric
        for name, array in (arrays | changes).items():
            if array is not None:
                file[name] = array(arrays[name]) if callable(array) else array
    return path


def test_a_real_set_that_was_made_keeps_its_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(12)
    rows: Any = random.standard_normal((300, 6)).astype(np.float16)
    queries: Any = random.standard_normal((20, 6)).astype(np.float16)
    content = Content(300, [rows], queries, ("l2",), {})
    files.make(tmp_path / "tokens-384", "tokens-384", lambda: content, lambda _: None)
    monkeypatch.setenv(sets.VARIABLE, str(tmp_path / "lab"))
    found = made("tokens-384")
    ids, distances = brute(rows.astype(np.float32), queries.astype(np.float32), "euclidean", 100)
    assert found.base.dtype == found.queries.dtype == np.float32
    assert np.array_equal(found.base, rows)
    assert np.array_equal(found.queries, queries)
    assert np.array_equal(found.truth_ids, ids)
    assert np.allclose(found.truth_distances, distances, atol=1e-6)
    some = made("tokens-384", rows=200, queries=10, metric="angular")
    expected = brute(rows[:200].astype(np.float32), queries[:10].astype(np.float32), "angular", 100)[1]
    assert np.allclose(some.truth_distances, expected, atol=1e-6)
    with pytest.raises(DataError, match=r"\./dev data texts-384 makes it"):
        made("texts-384")
    monkeypatch.setattr(sets, "_LARGE_ROWS", 300)
    monkeypatch.setenv(sets.VARIABLE, str(tmp_path / "large"))
    large = made("tokens-384")
    assert large.base.dtype == np.float16
    assert large.facts == found.facts, "it is the same set"
    assert (large.folder / "base.npy").samefile(tmp_path / "tokens-384/rows.npy"), "it is not on the disk twice"
    assert np.array_equal(large.truth_ids, ids)
    assert made("tokens-384", rows=200).base.dtype == np.float32


@pytest.mark.parametrize("metric", ["euclidean", "angular"])
def test_a_generated_set_has_the_true_neighbors(metric: str) -> None:
    found = made("generated-8", rows=500, queries=20, metric=metric)
    ids, distances = brute(np.asarray(found.base), found.queries, metric, 100)
    assert np.allclose(found.truth_distances, distances, atol=1e-6)
    assert (found.truth_ids[:, 0] == ids[:, 0]).mean() > 0.9, "only rows at equal distances may differ"
    assert found.facts.as_json() | {"checksum": ""} == {
        "name": "generated-8", "metric": metric, "rows": 500, "queries": 20, "dim": 8, "checksum": "",
    }  # fmt: skip
    again = made("generated-8", rows=500, queries=20, metric=metric)
    assert again.folder == found.folder
    other = made("generated-8", rows=500, queries=20, metric=metric, seed=2)
    assert other.facts.checksum != found.facts.checksum


def test_uniform_rows_are_the_same_for_the_same_seed() -> None:
    found = made("uniform-6", rows=3000, queries=10)
    rows = np.asarray(found.base)
    assert rows.min() >= 0
    assert rows.max() < 1
    assert np.allclose(rows.mean(axis=0), 0.5, atol=0.03)
    assert made("uniform-6", rows=3000, queries=10).facts == found.facts
    assert made("uniform-6", rows=3000, queries=10, seed=2).facts.checksum != found.facts.checksum


@pytest.mark.parametrize("metric", ["euclidean", "angular"])
def test_a_file_is_read_with_its_truth(folder: Path, metric: str) -> None:
    found = made("mine", write(folder / "mine.hdf5", metric), queries=7)
    assert (found.facts.rows, found.facts.queries, found.facts.metric) == (400, 7, metric)
    assert found.truth_ids.shape == (7, 100)
    part = made("mine", write(folder / "part.hdf5", metric), rows=150)
    assert part.truth_ids.max() < 150, "a part of the rows has its own true neighbors"


def test_a_plan_that_wants_more_than_there_is_is_refused(folder: Path) -> None:
    path = write(folder / "mine.hdf5")
    with pytest.raises(DataError, match="mine: rows = 401, and there are 400: say 400 at most, or leave rows out"):
        made("mine", path, rows=401)
    asked = made("mine", path).facts.queries
    with pytest.raises(DataError, match=f"mine: queries = {asked + 1}, and there are {asked}"):
        made("mine", path, queries=asked + 1)
    assert made("mine", path, rows=400, queries=asked).facts.queries == asked


def test_a_set_that_was_made_with_fewer_rows_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder / "mine.hdf5")
    with monkeypatch.context() as before:
        before.setattr(sets, "_check_counts", lambda *_: None)
        assert made("mine", path, rows=500).facts.rows == 400
    with pytest.raises(DataError, match="mine: rows = 500, and there are 400"):
        made("mine", path, rows=500)


def test_the_rows_of_a_file_beside_its_queries_are_counted(folder: Path) -> None:
    np.save(folder / "own.npy", np.random.default_rng(1).random((50, 4), dtype=np.float32))
    with pytest.raises(DataError, match="own: rows = 50, and there are 40"):
        made("own", folder / "own.npy", rows=50, queries=10)


def swapped(query: int) -> Any:
    def change(ids: Any) -> Any:
        ids = ids.copy()
        ids[query, 3] = ids[query, 90]
        return ids

    return change


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"neighbors": swapped(0)}, "the truth is wrong. Query 0: neighbor 4 that it names is at"),
        ({"neighbors": swapped(13)}, "the truth is wrong. Query 13: neighbor 4 that it names is at"),
        ({"distances": lambda distances: distances + 1}, "the truth is wrong. Query 0: neighbor 1 is at"),
        ({"distances": lambda distances: distances**2}, "the truth is wrong. Query 0: neighbor 1 is at"),
        ({"neighbors": lambda ids: ids + 1}, "the truth names row 400, there are 400"),
        ({"neighbors": lambda ids: ids[:, :50]}, "the truth has shapes"),
        ({"test": lambda queries: queries[:, :4]}, "rows have 5 components, queries have 4"),
        ({"train": lambda base: np.where(np.arange(400)[:, None] == 7, np.nan, base)}, "row 7 has a component"),
        ({"train": None}, "has no train: it is not in ann-benchmarks' layout"),
    ],
)
def test_a_file_that_is_wrong_is_refused(folder: Path, changes: dict[str, Any], said: str) -> None:
    path = write(folder / "wrong.hdf5", **changes)
    with pytest.raises(DataError, match=said):
        made("wrong", path)
    assert not list((folder / "data").glob("*")), "no unfinished files are left"


def test_a_set_that_is_not_there_is_said() -> None:
    for name, path, said in [
        ("fashion", None, "there is no set fashion: fashion-mnist, generated-DIM, uniform-DIM, texts-384, "),
        ("generated-0", None, "there is no set generated-0"),
        ("mine", Path("/nowhere/mine.hdf5"), "cannot read /nowhere/mine.hdf5: No such file or directory"),
        ("mine", Path(__file__), "cannot read .*test_sets.py"),
    ]:
        with pytest.raises(DataError, match=said):
            made(name, path)


@pytest.fixture
def real_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small `lsa-1024`, of few rows and dimensions, in the files that `./dev data` writes."""
    stream, folder = np.random.default_rng(1), tmp_path / "lsa-1024"
    folder.mkdir()
    rows, queries = (stream.standard_normal((count, 8)).astype(np.float32) for count in (300, 20))
    for name in ("ip", "l2"):
        ids, distances = neighbors(rows, queries, name)
        np.save(folder / f"truth-{name}-ids.npy", ids.astype(np.int32))
        np.save(folder / f"truth-{name}-distances.npy", distances)
    np.save(folder / "rows.npy", rows)
    np.save(folder / "queries.npy", queries)
    about = {"name": "lsa-1024", "checksum": "abc", "metrics": ["ip", "l2"], "rows": 300}
    (folder / "about.json").write_text(json.dumps(about))
    monkeypatch.setenv(sets.VARIABLE, str(tmp_path / "lab"))
    return folder


def prepared(name: str, **more: Any) -> sets.Dataset:
    wanted = {"path": None, "rows": None, "queries": None, "metric": None} | more
    return sets.prepare(name, seed=1, say=lambda _: None, **wanted)


def test_a_real_set_has_the_metric_that_it_is_meant_for(real_set: Path) -> None:
    del real_set
    own, other = prepared("lsa-1024"), prepared("lsa-1024", metric="euclidean")
    assert (own.facts.metric, other.facts.metric) == ("ip", "euclidean")
    assert own.truth_ids[0, 0] == np.argmax(own.base @ own.queries[0])
    assert own.truth_distances[0, 0] < 0, "distances are negated products"


def test_the_first_rows_of_a_real_set_are_a_set(real_set: Path) -> None:
    del real_set
    few = prepared("lsa-1024-120", queries=10)
    assert (few.facts.rows, few.facts.queries, few.facts.metric) == (120, 10, "ip")
    assert few.truth_ids.max() < 120
    with pytest.raises(DataError, match="lsa-1024 has 300 rows, which is less"):
        prepared("lsa-1024-500")
    with pytest.raises(DataError, match=r"./dev data tokens-384 --rows 500 makes it"):
        prepared("tokens-384-500")


def test_samples_are_queries_that_are_not_measured(real_set: Path) -> None:
    every = np.load(real_set / "queries.npy")
    found = prepared("lsa-1024", queries=12, samples=8)
    assert found.samples is not None
    assert np.array_equal(found.queries, every[:12])
    assert np.array_equal(found.samples, every[12:])
    assert prepared("lsa-1024", queries=12).samples is None
    with pytest.raises(DataError, match="there are 8 more, and not 9 samples"):
        prepared("lsa-1024", queries=12, samples=9)


def test_wrong_pictures_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fashion.VARIABLE, str(tmp_path))
    for _ in range(2):
        with pytest.raises(fashion.NoData, match="train-images"):
            fashion.load(tmp_path)
        (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"no picture")


def test_the_command_makes_sets_and_says_what_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "DATA", tmp_path)
    assert command.main(["generated-8", "--rows", "300", "--fbin"]) == 0
    assert np.fromfile(tmp_path / "generated-8" / "train.fbin", dtype=np.int32)[:2].tolist() == [300, 8]
    assert command.main(["no-such-set"]) == 1
    assert "'no-such-set' is not one of fashion-mnist" in capsys.readouterr().err


def test_the_command_ends_as_ctrl_c_does_when_it_is_killed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # An exception also ends the pools of processes that the command has started.
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(command, "_prepare", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    try:
        assert command.main(["generated-8"]) == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "interrupted; what is done is kept" in capsys.readouterr().err
