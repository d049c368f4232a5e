"""Changes: what searches find after them, and which ones are refused."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagehop
from oracle import CHANGING as X
from oracle import DIM, beside, clustered, nearest, recall
from pagehop.arrays import Float32, Int64

Q = clustered(seed=22, rows=40)


class Model:
    """The expected rows of the index."""

    def __init__(self) -> None:
        self.rows: dict[int, Float32] = {}

    def add(self, ids: Any, vectors: Float32) -> None:
        self.rows.update(zip((int(i) for i in ids), vectors, strict=True))

    def delete(self, ids: Any) -> None:
        for i in ids:
            self.rows.pop(int(i), None)

    def recall(self, index: pagehop.Index, metric: str = "l2") -> float:
        ids = np.array(list(self.rows), dtype=np.int64)
        truth = ids[nearest(np.stack(list(self.rows.values())), Q, 10, metric)]
        found = index.search(Q, search_list=300).ids
        assert np.isin(found, ids).all()
        return recall(found, truth)


@pytest.mark.parametrize("metric", ["l2", pytest.param("ip", marks=pytest.mark.long), "cosine"])
def test_rows_are_added_and_deleted_as_in_a_dictionary(metric: str, path: Path) -> None:
    model, random = Model(), np.random.default_rng(1)
    with pagehop.create(path, DIM, metric, auto_vacuum=None) as index:
        for at in range(0, 2000, 500):
            assert index.add(np.arange(at, at + 500), X[at : at + 500]) == (500, 0, 0)
            model.add(range(at, at + 500), X[at : at + 500])
        assert len(index) == 2000
        assert model.recall(index, metric) >= 0.95

        replaced = random.permutation(2000)[:300]
        others = X[2000:2300]
        assert index.add(replaced, others) == (0, 300, 0)
        assert index.add(replaced[:50], others[:50]) == (0, 0, 50)
        model.add(replaced, others)
        assert len(index) == 2000
        assert model.recall(index, metric) >= 0.95

        gone = random.permutation(2000)[:700]
        deleted = index.delete(gone)
        assert (deleted.deleted, deleted.unknown.shape) == (700, (0,))
        assert deleted.unknown.dtype == np.int64
        model.delete(gone)
        assert len(index) == 1300
        assert model.recall(index, metric) >= 0.95

        assert index.info().dead_rows == 1000
        vacuumed = index.vacuum()
        assert (vacuumed.freed, vacuumed.waiting) == (1000, 0)
        assert vacuumed.repaired > 0
        assert index.info().dead_rows == 0
        assert model.recall(index, metric) >= 0.95
        report = index.check()
        assert report.nodes == report.reachable == 1300
        assert (report.dead_nodes, report.free_slots) == (0, index.info().free_slots)
    assert beside(path) == []

    with pagehop.open(path) as index:
        assert (len(index), index.info().rows, index.info().metric) == (1300, 1300, metric)
        assert model.recall(index, metric) >= 0.95
    with pagehop.open(path, write=True) as index:
        index.add(np.arange(5000, 5500), X[2500:])
        model.add(range(5000, 5500), X[2500:])
        assert model.recall(index, metric) >= 0.95
        index.check()


def test_an_empty_index_has_nothing_to_find(path: Path) -> None:
    with pagehop.create(path, DIM) as index:
        assert (len(index), index.dim, index.writable) == (0, DIM, True)
        hits = index.search(Q[:3], k=4)
        assert (hits.ids == -1).all()
        assert np.isinf(hits.distances).all()
        assert index.search(Q[0]).ids.shape == (0,)
        assert index.add([], []) == (0, 0, 0)
        assert index.add([], np.empty((0, DIM), dtype=np.float32)) == (0, 0, 0)
        assert index.delete([]).deleted == 0
        assert index.delete([4, 2]).unknown.tolist() == [4, 2]
        assert index.vacuum() == (0, 0, 0)
        assert index.check().nodes == 0
        assert index.info().trained_rows == 0
    with pagehop.open(path) as index:
        assert len(index) == 0


def test_an_index_can_be_emptied_and_filled_again(writer: pagehop.Index) -> None:
    writer.delete(np.arange(500))
    assert len(writer) == 0
    assert writer.search(Q[0]).ids.shape == (0,)
    # The deletion itself has freed some of them.
    dead = writer.info().dead_rows
    assert 0 < dead == writer.vacuum().freed < 500
    assert writer.info().dead_rows == 0
    assert writer.search(Q[0]).ids.shape == (0,)
    pages = writer.info().pages
    writer.add(np.arange(500), X[:500])
    assert writer.info().pages <= pages * 1.2
    assert writer.search(X[7], k=1).distances[0] < 50
    writer.check()


def test_one_vector_is_a_row(writer: pagehop.Index) -> None:
    assert writer.add(7000, X[600]) == (1, 0, 0)
    assert writer.add([7001], X[601]) == (1, 0, 0)
    assert writer.add(np.int32(7002), X[602:603]) == (1, 0, 0)
    assert writer.add(7003, X[603].tolist()) == (1, 0, 0)
    assert writer.add(2**63 - 1, X[604].astype(np.float16)) == (1, 0, 0)
    for row, number in [(600, 7000), (601, 7001), (602, 7002), (603, 7003), (604, 2**63 - 1)]:
        assert writer.search(X[row], k=1).ids.tolist() == [number]
    assert writer.delete(7000).deleted == 1
    assert writer.delete(np.array([7001, 7000, 7001]))[1].tolist() == [7000]


def test_a_search_ends_with_the_last_row_found(writer: pagehop.Index) -> None:
    writer.delete(np.arange(3, 500))
    assert sorted(writer.search(Q[0], k=10, search_list=500).ids.tolist()) == [0, 1, 2]
    writer.vacuum()
    assert sorted(writer.search(Q[0], k=10).ids.tolist()) == [0, 1, 2]
    assert writer.search(Q[0], k=10).distances.shape == (3,)
    hits = writer.search(Q[:2], k=5)
    assert (hits.ids[:, 3:] == -1).all()
    assert (hits.ids[:, :3] >= 0).all()


def test_the_last_row_of_an_id_is_used(path: Path) -> None:
    with pagehop.create(path, DIM) as index:
        index.add([1, 2, 1], X[:3])
        assert len(index) == 2
        assert index.search(X[2], k=1).ids.tolist() == [1]
        index.add([2, 2, 3, 2], X[10:14])
        assert len(index) == 3
        assert index.search(X[13], k=1).ids.tolist() == [2]
        index.check()


def test_unknown_ids_are_reported(writer: pagehop.Index) -> None:
    report = writer.delete([9999, 3, 2**63 - 1, 3, 9999, 4])
    assert report.deleted == 2
    assert report.unknown.tolist() == [9999, 2**63 - 1]
    assert writer.delete([3, 4]).unknown.tolist() == [3, 4]
    assert len(writer) == 498


BAD_ROWS: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "another dimension": ([1], X[:1, 1:], pagehop.DimensionError, "48 dimensions, the vectors have 47"),
    "another dimension of one": (1, X[0, 1:], pagehop.DimensionError, "47"),
    "no vector": (1, [], pagehop.DimensionError, "have 0"),
    "three dimensions": ([1], X[None, :1], pagehop.ArgumentError, "3 dimensions"),
    "a number": (1, 3.0, pagehop.ArgumentError, "0 dimensions"),
    "too few ids": ([1], X[:2], pagehop.ArgumentError, "1 ids for 2 vectors"),
    "too many ids": ([1, 2], X[0], pagehop.ArgumentError, "2 ids for 1 vectors"),
    "negative id": ([3, -1], X[:2], pagehop.ArgumentError, r"ids\[1\] is -1"),
    "huge id": (np.array([3, 2**63], dtype=np.uint64), X[:2], pagehop.ArgumentError, r"ids\[1\]"),
    "beyond any id": (2**70, X[0], pagehop.ArgumentError, "integer type"),
    "fractional id": (1.5, X[0], pagehop.ArgumentError, "float64"),
    "ids in two dimensions": ([[1], [2]], X[:2], pagehop.ArgumentError, "2 dimensions"),
    "no id": (None, X[0], pagehop.ArgumentError, "object"),
    "nan": ([5, 6], np.stack([X[0], np.full(DIM, np.nan, dtype=np.float32)]), pagehop.ArgumentError, r"row 1 \(id 6\)"),
    "infinity": (5, np.full(DIM, np.inf), pagehop.ArgumentError, "row 0"),
    "text": (5, "vector", pagehop.ArgumentError, "type"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_are_refused_and_nothing_changes(name: str, writer: pagehop.Index) -> None:
    ids, vectors, error, text = BAD_ROWS[name]
    commit = writer.info().commit
    with pytest.raises(error, match=text):
        writer.add(ids, vectors)
    assert (len(writer), writer.info().commit) == (500, commit)
    writer.add(1, X[1])


@pytest.mark.parametrize("threads", [pytest.param(0, marks=pytest.mark.long), 1, 5])
def test_rows_are_there_whatever_number_of_threads_added_them(threads: int, path: Path) -> None:
    model = Model()
    with pagehop.create(path, DIM, "l2") as index:
        for call in range(5):
            # A quarter of the rows replaces rows of the previous call.
            ids, vectors = np.arange(300 * call, 300 * call + 400), X[400 * call : 400 * (call + 1)]
            report = index.add(ids, vectors, threads=threads)
            model.add(ids, vectors)
            assert (report.added, report.replaced) == ((400, 0) if call == 0 else (300, 100))
            assert index.check().nodes >= len(index) == len(model.rows)
        assert model.recall(index) > 0.95


@pytest.mark.parametrize("threads", [-1, 1.5, "2", None, 10**6])
def test_a_number_of_threads_is_a_number(threads: Any, writer: pagehop.Index) -> None:
    with pytest.raises(pagehop.ArgumentError, match="threads"):
        writer.add(7, X[7], threads=threads)
    assert len(writer) == 500


@pytest.mark.parametrize("ids", [-1, [1.5], "7", None, 2**63, [[1]]])
def test_bad_ids_to_delete_are_refused(ids: Any, writer: pagehop.Index) -> None:
    with pytest.raises(pagehop.ArgumentError):
        writer.delete(ids)
    assert len(writer) == 500


def test_bad_options_are_refused(path: Path) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"dim": 0}, "dim is 0"),
        ({"dim": 4097}, "dim is 4097"),
        ({"dim": 2.5}, "dim is 2.5"),
        ({"metric": "manhattan"}, "manhattan"),
        ({"metric": 3}, "metric is 3"),
        ({"seed": -1}, "seed is -1"),
        ({"cache": "lots"}, "lots"),
        ({"durability": "never"}, "'never', it must be 'commit' or 'checkpoint'"),
        ({"durability": None}, "durability is None"),
    ]
    for options, text in bad:
        with pytest.raises(pagehop.ArgumentError, match=text):
            pagehop.create(path, **({"dim": 4} | options))
        assert not path.exists()
    pagehop.create(path, 4).close()
    with pytest.raises(pagehop.ArgumentError, match="x"):
        pagehop.create(path, 5)
    with pagehop.create(path, 5, overwrite=True) as index:
        assert index.dim == 5
        nonsense: Any = 7
        with pytest.raises(pagehop.ArgumentError, match="progress is 7"):
            index.add([], [], progress=nonsense)
        with pytest.raises(pagehop.ArgumentError, match="progress is 7"):
            index.vacuum(progress=nonsense)
    with pytest.raises(pagehop.ArgumentError, match="log"):
        pagehop.open(path, log=-1)


def test_an_index_open_for_reading_says_how_to_open_it_for_writing(path: Path) -> None:
    with pagehop.build(path, X[:50]) as index:
        assert not index.writable
        for change in [
            lambda: index.add(1, X[0]),
            lambda: index.add("nonsense", None),
            lambda: index.update_columns("nonsense", None),
            lambda: index.update_payload("nonsense", None),
            lambda: index.delete("nonsense"),
            lambda: index.pop("nonsense"),
            lambda: index.calibrate("nonsense"),
            index.vacuum,
            index.retrain,
            index.checkpoint,
        ]:
            with pytest.raises(pagehop.ArgumentError, match=r"pagehop\.open\(path, write=True\)"):
                change()
        assert len(index) == 50


def test_a_closed_index_cannot_be_changed(writer: pagehop.Index) -> None:
    writer.add(900, X[900])
    writer.close()
    writer.close()
    for change in [lambda: writer.add(1, X[0]), lambda: writer.delete(1), writer.vacuum, writer.checkpoint]:
        with pytest.raises(pagehop.ArgumentError, match="closed"):
            change()
    assert (len(writer), writer.writable) == (501, False)
    assert "501 rows" in repr(writer)
    assert "closed" in repr(writer)


def test_counters_add_up(path: Path) -> None:
    with pagehop.create(path, DIM) as index:
        index.add(np.arange(300), X[:300])
        index.add(np.arange(300, 600), X[300:600])
        info = index.info()
        assert (info.commits, info.checkpoints, info.page_bytes_written) == (2, 0, 0)
        assert info.log_bytes > 0
        assert info.log_bytes_written >= info.log_bytes
        assert (info.rows, info.mark) == (600, (0, 0))
        index.checkpoint()
        after = index.info()
        assert (after.log_bytes, after.checkpoints) == (0, 1)
        assert after.page_bytes_written > 0
        assert after.log_bytes_written == info.log_bytes_written
        assert after.commit == info.commit > 0
        before = after.commit
        index.delete(5)
        assert index.info().commit > before
        with pagehop.open(path) as reader:
            info = reader.info()
            assert (info.rows, info.log_bytes, info.commits) == (599, 0, 0)
    with pagehop.open(path, write=True, log=0) as index:
        for row in range(3):
            index.add(row, X[row + 600])
        assert index.info().checkpoints == 2


def test_threads_search_while_another_adds(path: Path) -> None:
    with pagehop.build(path, X[:1000], write=True) as index:
        stop, failures, counts = threading.Event(), list[BaseException](), list[int]()

        def search() -> None:
            searches, rows = 0, 1000
            try:
                while not stop.is_set() or searches == 0:
                    hits = index.search(Q, k=5, threads=1)
                    assert (hits.ids >= 0).all()
                    assert (np.diff(hits.distances, axis=1) >= 0).all()
                    assert index.search(Q[0], k=5).ids.shape == (5,)
                    now = len(index)
                    assert rows <= now <= 3000
                    assert index.info().rows >= now
                    rows, searches = now, searches + 1
            except BaseException as error:
                failures.append(error)
            counts.append(searches)

        threads = [threading.Thread(target=search) for _ in range(4)]
        for thread in threads:
            thread.start()
        for at in range(1000, 3000, 100):
            index.add(np.arange(at, at + 100), X[at : at + 100], progress=lambda *_: None)
        index.vacuum()
        index.checkpoint()
        stop.set()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert min(counts) >= 1
        assert recall(index.search(Q, search_list=300).ids, nearest(X, Q, 10)) >= 0.95
        index.check()


def test_a_check_waits_for_changes_and_they_for_it(path: Path) -> None:
    with pagehop.build(path, X[:1000], write=True) as index:
        done = threading.Event()

        def add() -> None:
            try:
                for at in range(1000, 3000, 100):
                    index.add(np.arange(at, at + 100), X[at : at + 100])
            finally:
                done.set()

        worker = threading.Thread(target=add)
        worker.start()
        while not done.is_set():
            report = index.check()
            assert report.nodes == report.reachable
        worker.join()
        assert len(index) == 3000


def test_threads_that_change_take_turns(path: Path) -> None:
    with pagehop.create(path, DIM) as index:
        index.add(np.arange(500), X[:500])

        def change(first: int) -> None:
            for at in range(first, first + 500, 50):
                index.add(np.arange(at, at + 50), X[at : at + 50])
                index.delete(np.arange(at, at + 10))

        threads = [threading.Thread(target=change, args=(first,)) for first in [500, 1000, 1500]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert len(index) == 500 + 3 * 10 * 40
        index.vacuum()
        assert index.check().dead_nodes == 0


def test_closing_waits_for_a_change_under_way(path: Path) -> None:
    index = pagehop.create(path, DIM)
    began = threading.Event()
    worker = threading.Thread(target=lambda: index.add(np.arange(3000), X, progress=lambda *_: began.set()))
    worker.start()
    assert began.wait(60)
    index.close()
    worker.join(60)
    assert beside(path) == []
    assert len(index) == 3000


def test_a_change_that_is_stopped_changes_nothing(writer: pagehop.Index) -> None:
    seen: list[tuple[str, int, int]] = []

    def stops(phase: str, done: int, total: int) -> bool:
        seen.append((phase, done, total))
        return False

    def fails(*_: object) -> None:
        raise LookupError

    before = writer.info().commit
    with pytest.raises(pagehop.Interrupted):
        writer.add(np.arange(500, 900), X[500:900], progress=stops)
    assert seen[0] == ("add", 0, 400)
    with pytest.raises(LookupError):
        writer.add(np.arange(500, 900), X[500:900], progress=fails)
    assert (len(writer), writer.info().commit) == (500, before)
    writer.delete(np.arange(100))
    with pytest.raises(pagehop.Interrupted):
        writer.vacuum(progress=lambda *_: False)
    with pytest.raises(LookupError):
        writer.vacuum(progress=fails)
    assert writer.info().dead_rows == 100
    assert writer.vacuum(progress=lambda *_: None).freed == 100
    writer.check()


def test_progress_may_search_but_not_change(writer: pagehop.Index) -> None:
    found: list[Int64] = []
    for forbidden in [
        lambda: writer.add(1, X[1]),
        lambda: writer.delete(1),
        writer.checkpoint,
        writer.check,
        writer.close,
    ]:

        def progress(*_: object, forbidden: Any = forbidden) -> None:
            found.append(writer.search(Q[0]).ids)
            assert writer.info().rows == len(writer) == 500
            forbidden()

        with pytest.raises(pagehop.BusyError, match="progress callback"):
            writer.add(np.arange(500, 900), X[500:900], progress=progress)
    assert len(found) == 5
    assert len(writer) == 500
    writer.add(np.arange(500, 900), X[500:900])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_without_write_permission_is_an_os_error(path: Path) -> None:
    pagehop.build(path, X[:10]).close()
    path.chmod(0o400)
    with pytest.raises(pagehop.IoError) as caught:
        pagehop.open(path, write=True)
    assert caught.value.errno == 13
    path.chmod(0o600)
    path.parent.chmod(0o500)
    with pytest.raises(pagehop.IoError) as caught:
        pagehop.open(path, write=True)
    assert caught.value.errno == 13
    assert len(pagehop.open(path)) == 10
    path.parent.chmod(0o700)


def test_dead_rows_stay_a_share(path: Path) -> None:
    with pagehop.create(path, DIM, auto_vacuum=0.1) as index:
        index.add(range(2000), X[:2000])
        phases: set[str] = set()
        for at in range(0, 1500, 50):
            index.delete(range(at, at + 50))
            index.add(range(1500, 1550), X[at : at + 50], progress=lambda phase, *_: phases.add(phase))
            # A transaction unlinks up to 256 dead rows, and a later transaction frees them.
            assert index.info().dead_rows < len(index) * 0.1 + 3 * 256
        assert "vacuum" in phases
        index.check()
    with pagehop.open(path, write=True, auto_vacuum=None) as index:
        dead = index.info().dead_rows
        index.delete(range(1500, 2000))
        assert index.info().dead_rows == dead + 500
        assert len(index) == 0


@pytest.mark.parametrize("share", [-0.1, float("nan"), float("inf"), "0.2", True])
def test_a_share_of_dead_rows_is_a_number(share: Any, path: Path) -> None:
    with pytest.raises(pagehop.ArgumentError, match=r"auto_vacuum is .*from 0 on, or None"):
        pagehop.create(path, DIM, auto_vacuum=share)
    assert not path.exists()
    pagehop.create(path, DIM).close()
    with pytest.raises(pagehop.ArgumentError, match="auto_vacuum is"):
        pagehop.open(path, auto_vacuum=share)
