"""Documents beside an index: compared with a dict, and after a stop in every step of a change."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagehop
from pagehop_documents import Documents
from pagehop_documents.table import Table

DIM = 8
KILLS = int(os.environ.get("PAGEHOP_KILLS", "10"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.pagehop"


@pytest.fixture
def notes(path: Path) -> Iterator[Documents]:
    with Documents(path, columns={"year": "int", "at": "timestamp"}) as notes:
        yield notes


def vector(seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    found: np.ndarray[Any, np.dtype[np.float32]] = np.random.default_rng(seed).normal(size=DIM).astype(np.float32)
    return found


def add(notes: Documents, key: str, seed: int, text: str | None = None, **metadata: Any) -> None:
    notes.add([key], [vector(seed)], [text or f"text {seed}"], [metadata])


def test_documents_are_found_with_what_was_added(notes: Documents, path: Path) -> None:
    add(notes, "a", 1, year=2024, at=datetime.datetime(2024, 5, 1, 12), free={"x": [1, None]})
    add(notes, "b", 2, year=2025)
    hit = notes.search(vector(1), k=1)[0]
    assert (hit.key, hit.text, hit.metadata["free"], hit.metadata["at"]) == (
        "a", "text 1", {"x": [1, None]}, "2024-05-01T12:00:00",
    )  # fmt: skip
    assert [hit.key for hit in notes.search(vector(1), where="year = 2025")] == ["b"]
    assert [hit.key for hit in notes.search(vector(1), where="at >= '2024-05-01 12:00'")] == ["a"]
    assert [found.key for found in notes.get(["b", "none", "a"])] == ["b", "a"]
    with Documents(path, write=False) as reader:
        assert [hit.key for hit in reader.search(vector(2), k=1)] == ["b"]
        with pytest.raises(pagehop.ArgumentError, match="open for reading"):
            add(reader, "c", 3)


def test_any_changes_leave_what_a_dict_would_have(notes: Documents) -> None:
    rng = np.random.default_rng(7)
    kept: dict[str, int] = {}
    for seed in range(120):
        key = f"k{rng.integers(20)}"
        if rng.random() < 0.7:
            add(notes, key, seed)
            kept[key] = seed
        else:
            assert notes.delete([key, "never"]) == ([key] if key in kept else [])
            kept.pop(key, None)
        assert len(notes) == len(kept)
    assert {found.key: found.text for found in notes.get(kept)} == {key: f"text {seed}" for key, seed in kept.items()}
    assert set(notes.keys()) == set(kept)
    for key, seed in kept.items():
        assert notes.search(vector(seed), k=1, recall=1)[0].key == key
    assert len(notes.search(vector(1), k=100, recall=1)) == len(kept)


def test_of_repeated_keys_the_last_document_is_used(notes: Documents) -> None:
    notes.add(["a", "b", "a"], [vector(1), vector(2), vector(3)], ["1", "2", "3"])
    assert {found.key: found.text for found in notes.get(["a", "b"])} == {"a": "3", "b": "2"}
    assert len(notes.search(vector(1), k=5, recall=1)) == 2


def test_a_source_is_deleted_as_a_whole(notes: Documents) -> None:
    notes.add(["a", "b", "c"], [vector(1), vector(2), vector(3)], ["1", "2", "3"], None, ["x", "y", "x"])
    assert notes.sources() == ["x", "y"]
    assert notes.delete_source("x") == ["a", "c"]
    assert notes.sources() == ["y"]
    assert list(notes.keys()) == ["b"]
    notes.clear()
    assert (len(notes), notes.search(vector(2))) == (0, [])


def test_conditions_select_documents(notes: Documents) -> None:
    for seed in range(30):
        add(notes, f"k{seed}", seed, year=seed % 3)
    assert [found.key for found in notes.matching(pagehop.column("year") == 1)] == [f"k{i}" for i in range(1, 30, 3)]


def opened(notes: Documents) -> pagehop.Index:
    assert notes.index is not None
    return notes.index


class Stop(BaseException):
    """Stands for a crash: nothing runs after it."""


MOMENTS = ["plan", "add", "delete", "complete"]
"""The steps of a change in order. Tests stop before each, and after the last."""


def stopped(notes: Documents, moment: str, *, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops the next change before or after a step, so that nothing settles it."""
    real: Callable[..., Any]

    def crash(*arguments: Any, **named: Any) -> Any:
        if after:
            real(*arguments, **named)
        monkeypatch.setattr("pagehop_documents.documents._settle", lambda *_: None)
        raise Stop

    if moment in ("plan", "complete"):
        real = getattr(notes._table, moment)
        monkeypatch.setattr(notes._table, moment, crash)
    else:
        index = opened(notes)
        real = getattr(index, moment)

        class Crashing:
            def __getattr__(self, name: str) -> Any:
                return crash if name == moment else getattr(index, name)

            def __contains__(self, number: int) -> bool:
                return number in index

            def __len__(self) -> int:
                return len(index)

        monkeypatch.setattr(notes, "_index", Crashing())


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("change", ["add", "replace", "delete"])
def test_no_crash_shows_a_row_without_its_document(
    change: str, moment: str, after: bool, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Documents(path)
    notes.add(["a", "b"], [vector(1), vector(2)], ["text 1", "text 2"])
    with monkeypatch.context() as patched:
        stopped(notes, moment, after=after, monkeypatch=patched)
        try:
            if change == "delete":
                notes.delete(["a"])
            else:
                add(notes, "a" if change == "replace" else "c", 3)
        except Stop:
            pass
        # The files as a crash at this moment leaves them.
        left = tmp_path / "left"
        left.mkdir()
        for file in path.parent.glob("notes.pagehop*"):
            shutil.copy(file, left)
    before, then = {"a": "text 1", "b": "text 2"}, {"b": "text 2"}
    if change != "delete":
        then = before | {"a" if change == "replace" else "c": "text 3"}
    with Documents(left / path.name, write=False) as reader:
        assert_shown(reader, before, then)
    with Documents(left / path.name) as again:
        assert_shown(again, before, then)
        assert {hit.key: hit.text for hit in again.search(vector(1), k=5, recall=1)} in (before, then)
        assert len(again) == len(opened(again))
    notes.close()


def assert_shown(notes: Documents, before: dict[str, str], then: dict[str, str]) -> None:
    for seed in (1, 2, 3):
        hits = notes.search(vector(seed), k=3, recall=1)
        assert len({hit.key for hit in hits}) == len(hits)
        for hit in hits:
            assert hit.text in (before.get(hit.key), then.get(hit.key))
            # The distance belongs to the vector of the returned text.
            near = hit.text == f"text {seed}"
            assert (hit.distance < 1e-3) == near
    assert {hit.key for hit in notes.search(vector(2), k=3, recall=1)} >= set(before) & set(then)


def test_a_failed_addition_changes_nothing(notes: Documents) -> None:
    add(notes, "a", 1)
    with pytest.raises(pagehop.DimensionError):
        notes.add(["a", "b"], [[1.0, 2.0], [3.0, 4.0]], ["x", "y"])
    with pytest.raises(pagehop.ArgumentError, match="year"):
        notes.add(["a", "b"], [vector(3), vector(4)], ["x", "y"], [{"year": "soon"}, {"year": 3}])
    with pytest.raises(pagehop.ArgumentError, match="metadata of document 'b'"):
        notes.add(["b"], [vector(3)], ["x"], [{"bytes": b""}])
    with pytest.raises(pagehop.ArgumentError, match="1 keys and 2 texts"):
        notes.add(["b"], [vector(3)], ["x", "y"])
    assert [(hit.key, hit.text) for hit in notes.search(vector(1), k=5)] == [("a", "text 1")]
    assert isinstance(notes._table, Table)
    assert notes._table.unsettled() == ([], [])


def test_files_of_two_times_are_refused(path: Path, tmp_path: Path) -> None:
    with Documents(path) as notes:
        add(notes, "a", 1)
        opened(notes).backup(tmp_path / "old.pagehop")
        add(notes, "b", 2)
    shutil.copy(tmp_path / "old.pagehop", path)
    with pytest.raises(pagehop.FormatError, match="not of one time"):
        Documents(path)
    path.with_name("notes.pagehop-documents").write_bytes(b"no database" * 100)
    with pytest.raises(pagehop.FormatError, match="pagehop-documents: file is not a database"):
        Documents(path)


def test_other_columns_and_metrics_than_the_index_has_are_refused(path: Path) -> None:
    with Documents(path, metric="l2", columns={"year": "int"}) as notes:
        add(notes, "a", 1)
    with pytest.raises(pagehop.ArgumentError, match="metric 'l2'"):
        Documents(path, metric="cosine")
    with pytest.raises(pagehop.ArgumentError, match="columns"):
        Documents(path, columns={})
    with Documents(path) as notes:
        assert (notes.metric, notes.columns) == ("l2", {"year": "int"})


def test_searches_beside_changes_show_whole_documents(path: Path) -> None:
    """Ten documents are replaced repeatedly. Searches by a second object find each of them once,
    with text and vector of the same version.
    """
    with Documents(path) as notes:
        notes.add([f"k{i}" for i in range(10)], [vector(i) for i in range(10)], [str(i) for i in range(10)])
        over = threading.Event()
        failures: list[object] = []

        def look() -> None:
            with Documents(path, write=False) as reader:
                while not over.is_set():
                    hits = reader.search(vector(0), k=10, recall=1)
                    if sorted(hit.key for hit in hits) != [f"k{i}" for i in range(10)]:
                        failures.append(hits)

        thread = threading.Thread(target=look)
        thread.start()
        for seed in range(100, 140):
            add(notes, f"k{seed % 10}", seed)
        over.set()
        thread.join()
    assert failures == []


def test_a_killed_writer_leaves_whole_documents(path: Path) -> None:
    """A process adds, replaces and deletes until it is killed at a random moment."""
    rng = np.random.default_rng(5)
    for _ in range(KILLS):
        child = os.fork()
        if child == 0:
            _change_for_ever(path)
        threading.Event().wait(0.05 + rng.random() * 0.2)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if not path.exists():
            continue
        with Documents(path) as notes:
            assert len(notes.search(vector(0), k=100, recall=1)) == len(notes)
            for hit in notes.search(vector(0), k=100, recall=1):
                assert notes.search(vector(int(hit.text)), k=1, recall=1)[0].key == hit.key


def _change_for_ever(path: Path) -> None:
    try:
        with Documents(path) as notes:
            for seed in range(1_000_000):
                add(notes, f"k{seed % 7}", seed, str(seed))
                if seed % 3 == 0:
                    notes.delete([f"k{(seed + 3) % 7}"])
    finally:
        os._exit(1)
