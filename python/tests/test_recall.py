"""Recall as a setting: builds calibrate it, searches reach it, audits measure it, warnings report
it.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import pagehop
from oracle import nearest
from pagehop.arrays import Float32, Int64
from pagehop.recall_warnings import RecallWarnings

DIM = 32
ROWS = 6000


def rows(count: int, seed: int) -> Float32:
    """Rows near a curved surface of few dimensions, like embeddings."""
    latent = np.random.default_rng(seed).normal(size=(count, 6))
    plane = np.random.default_rng(99).normal(size=(6, DIM))
    noise = 0.05 * np.random.default_rng(seed + 1000).normal(size=(count, DIM))
    return np.asarray(np.sin(latent @ plane) + noise, dtype=np.float32)


def share(found: Int64, right: Int64) -> float:
    """Mean share of the true ids that was found."""
    return float(np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, right, strict=True)]) / right.shape[1])


@pytest.fixture(scope="module")
def vectors() -> Float32:
    return rows(ROWS, 1)


@pytest.fixture(scope="module")
def path(vectors: Float32, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recall") / "items.pagehop"
    pagehop.build(path, vectors).close()
    return path


def test_a_search_reaches_the_recall_that_is_given(path: Path, vectors: Float32) -> None:
    queries = rows(300, 2)
    right = nearest(vectors, queries, 10)
    with pagehop.open(path) as index:
        hops = 0
        for recall in [0.9, 0.95, 0.98, 0.99]:
            hits = index.search(queries, recall=recall)
            # The sampling error of 300 queries is added to that of the calibration.
            assert abs(share(hits.ids, right) - recall) < 0.2 * (1 - recall) + 0.012
            assert hits.stats.hops >= hops
            hops = hits.stats.hops
        exact = index.search(queries, recall=1.0)
        # Distances from codes may swap the tenth and the eleventh row.
        assert share(exact.ids, right) > 0.995
        assert exact.stats.per_query.distances.tolist() == [ROWS] * len(queries)
        np.testing.assert_array_equal(exact.ids, index.search(queries, search_list=ROWS).ids)
        np.testing.assert_array_equal(index.search(queries[7], k=3, recall=1).ids, exact.ids[7, :3])


def test_a_build_calibrates_unless_told_not_to(path: Path, vectors: Float32, tmp_path: Path) -> None:
    phases = []
    with pagehop.build(tmp_path / "same", vectors, progress=lambda *step: phases.append(step[0])) as index:
        known = index.calibration
        assert known is not None
        assert (known.rows, known.samples) == (ROWS, 256)
        assert sorted({setting.k for setting in known.settings}) == [1, 10, 100]
        assert index.info().calibrated == pagehop.Measured(ROWS, 256, False, 0, False, False)
    assert phases[-1] == "search"
    assert "scan" in phases
    with pagehop.open(path) as index:
        assert index.calibration == known, "the same rows and seed give the same calibration"
    with pagehop.build(tmp_path / "without", vectors, calibrate=False) as index:
        assert index.calibration is None
        assert index.info().calibrated is None
        with pytest.warns(
            pagehop.RecallWarning, match=r"never calibrated.*recall=0\.9 are not known; calibrate\(\)"
        ) as warned:
            hits, _ = index.search(vectors[:9], recall=0.9), index.search(vectors[0], recall=0.95)
        [warning] = warned
        assert warning.filename == __file__, "the warning is about this call"
        assert hits.stats.hops == index.search(vectors[:9], search_list=400, slack=0.4).stats.hops
        with pytest.raises(pagehop.ArgumentError, match="open for reading"):
            index.calibrate()
    with pagehop.open(tmp_path / "without") as index, pytest.warns(pagehop.RecallWarning, match="never calibrated"):
        assert index.recall(10, 50, recall=0.9).target == 0.9
    with pagehop.open(tmp_path / "without", write=True) as index:
        assert index.calibrate() == known
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            index.search(vectors[0], recall=0.9)
    with pagehop.open(tmp_path / "without") as index:
        assert index.calibration == known


def test_a_build_stopped_during_calibration_leaves_nothing(vectors: Float32, tmp_path: Path) -> None:
    with pytest.raises(pagehop.Interrupted):
        pagehop.build(tmp_path / "items", vectors, progress=lambda phase, *_: phase != "scan")
    assert list(tmp_path.iterdir()) == []


def test_a_stop_in_the_calibration_of_a_retrain_leaves_it_trained(vectors: Float32, tmp_path: Path) -> None:
    with pagehop.build(tmp_path / "items", vectors[:2000], write=True) as index:
        before, known = index.info().commit, index.calibration
        with pytest.raises(pagehop.Interrupted):
            index.retrain(progress=lambda phase, *_: phase != "train")
        assert index.info().commit == before
        index.retrain(progress=lambda phase, *_: phase != "scan")
        assert index.info().commit > before
        assert index.calibration == known

        def fails(phase: str, *_: int) -> None:
            if phase == "scan":
                raise LookupError

        before = index.info().commit
        with pytest.raises(LookupError):
            index.retrain(progress=fails)
        assert index.info().commit > before
        index.check()


def test_an_audit_agrees_with_brute_force(path: Path, vectors: Float32) -> None:
    queries = rows(200, 3)
    with pagehop.open(path) as index:
        by_hand = share(index.search(queries, search_list=30).ids, nearest(vectors, queries, 10))
        report = index.recall(10, queries=queries, search_list=30)
        assert abs(report.recall - by_hand) < 0.004
        assert (report.k, report.target, report.samples) == (10, None, 200)
        assert 0 < report.half_interval < 0.05
        report = index.recall(5, 150, recall=0.9)
        assert (report.k, report.target, report.samples) == (5, 0.9, 150)
        assert index.info().audit is None, "an index that is open for reading stores no audit"


def test_changes_and_a_missed_recall_are_warned_of_until_it_is_calibrated_again(
    vectors: Float32, tmp_path: Path
) -> None:
    path = tmp_path / "items"
    strange = 3 * np.random.default_rng(4).normal(size=(400, DIM)).astype(np.float32)
    with pagehop.build(path, vectors, write=True) as index, pagehop.open(path) as reader:
        with pytest.warns(pagehop.RecallWarning, match=r"recall=0\.9 find 0\.\d+ .* calibrate\(queries\)"):
            index.recall(10, queries=strange, recall=0.9)
        audit = index.info().audit
        assert audit is not None
        assert (audit.k, audit.target, audit.samples, audit.changes) == (10, 0.9, 400, 0)
        assert reader.info().audit == audit
        index.delete(range(500))
        audit, measured = index.info().audit, index.info().calibrated
        assert audit is not None
        assert measured is not None
        assert (audit.changes, measured.changes, measured.outdated) == (500, 500, False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            reader.search(vectors[0], recall=0.9)
            index.delete(range(500, 1300))
            reader.search(vectors[0], search_list=50)
        for asked in [reader, index]:
            with pytest.warns(pagehop.RecallWarning, match="1300 rows were added or deleted"):
                asked.search(vectors[0], recall=0.9)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                asked.search(vectors[0], recall=0.9)
        known = index.calibrate()
        assert known is not None
        assert known.rows == ROWS - 1300
        assert reader.calibration == known
        assert index.info().calibrated == pagehop.Measured(ROWS - 1300, known.samples, False, 0, False, False)
        index.calibrate(strange)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            index.recall(10, queries=3 * rows(1, 5).repeat(50, axis=0) + strange[:50], recall=0.9)


def test_a_calibration_that_was_not_asked_for_is_followed_by_new_warnings(vectors: Float32, tmp_path: Path) -> None:
    def is_warned(asked: pagehop.Index, *, recall: float = 0.9, k: int = 10) -> bool:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            asked.search(vectors[0], k, recall=recall)
        return bool(caught)

    with pagehop.build(tmp_path / "items", vectors, write=True) as index, pagehop.open(tmp_path / "items") as reader:
        for first in [0, 1300]:
            index.delete(range(first, first + 1300))
            assert [is_warned(asked) for asked in (index, reader, index, reader)] == [True, True, False, False]
            index.vacuum()
            measured = index.info().calibrated
            assert measured is not None
            assert measured.changes == 0, "vacuum calibrates it"
            assert not is_warned(index)
            assert not is_warned(reader)


def test_each_recall_out_of_reach_is_warned_of_once_for_a_calibration() -> None:
    given = RecallWarnings("items")

    def is_warned(k: int, recall: float, calibration: int) -> bool:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            given.of_plan(k, recall, False, 0.9985, None, calibration)
        return bool(caught)

    for calibration in (1, 2):
        for k, recall in [(10, 0.9999), (1000, 0.9999), (1000, 0.999)]:
            assert is_warned(k, recall, calibration)
            assert not is_warned(k, recall, calibration)


def test_a_longer_row_under_the_inner_product_is_warned_of(vectors: Float32, tmp_path: Path) -> None:
    longest = vectors[np.linalg.norm(vectors, axis=1).argmax()]
    with pagehop.build(tmp_path / "items", vectors[:2000], metric="ip", write=True) as index:
        index.add(2000, 2 * longest)
        measured = index.info().calibrated
        assert measured is not None
        assert (measured.changes, measured.longer_rows, measured.outdated) == (1, True, True)
        with pytest.warns(pagehop.RecallWarning, match="rows longer than all earlier ones were added"):
            index.search(vectors[0], recall=0.9)
        index.calibrate()
        measured = index.info().calibrated
        assert measured is not None
        assert (measured.longer_rows, measured.outdated) == (False, False)


def test_rows_that_train_the_model_calibrate_the_index(vectors: Float32, tmp_path: Path) -> None:
    with pagehop.create(tmp_path / "items", DIM) as index:
        index.add(range(700), vectors[:700])
        assert index.info().calibrated is None
        # A search visits all rows of a small index.
        right = nearest(vectors[:700], vectors[:20], 10)
        assert share(index.search(vectors[:20], recall=0.99).ids, right) > 0.99
        assert index.calibrate() is None
        index.add(range(700, 1100), vectors[700:1100])
        measured = index.info().calibrated
        assert measured is not None
        assert measured.rows == 1100, "the index has enough rows for a calibration"
        index.add(range(1100, ROWS), vectors[1100:])
        assert index.info().trained_rows == ROWS
        measured = index.info().calibrated
        assert measured is not None
        assert (measured.rows, measured.changes) == (ROWS, 0)


def test_rows_that_double_the_index_calibrate_it(vectors: Float32, tmp_path: Path) -> None:
    with pagehop.build(tmp_path / "items", vectors[:2000], write=True) as index:
        index.add(range(10_000, 11_999), rows(1999, 8))
        measured = index.info().calibrated
        assert measured is not None
        assert (measured.rows, measured.changes) == (2000, 1999)
        index.add([20_000], rows(1, 9))
        measured = index.info().calibrated
        assert measured is not None
        assert (measured.rows, measured.changes) == (4000, 0)
        # A calibrated index gives no warning.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            index.search(vectors[0], recall=0.9)


def test_a_calibration_by_queries_stays_until_the_next(vectors: Float32, tmp_path: Path) -> None:
    with pagehop.create(tmp_path / "items", DIM) as index:
        index.add(range(400), vectors[:400])
        index.add(range(400, 1100), vectors[400:1100])
        by_queries = index.calibrate(vectors[:60] + 1)
        assert by_queries is not None
        assert by_queries.by_queries
        before = index.info().trained_rows
        index.add(range(1100, ROWS), vectors[1100:])
        assert index.info().trained_rows > before, "these rows train the model"
        measured = index.info().calibrated
        assert measured == pagehop.Measured(1100, 60, True, ROWS - 1100, False, True)
        assert index.calibration == by_queries
        with pytest.warns(pagehop.RecallWarning, match=f"{ROWS - 1100} rows were added or deleted"):
            index.search(vectors[0], recall=0.9)
        index.calibrate()
        again = index.info().calibrated
        assert again is not None
        assert not again.by_queries


def test_a_recall_out_of_reach_warns_once_and_searches_as_hard_as_was_tried(path: Path, vectors: Float32) -> None:
    queries = rows(60, 6)
    right = nearest(vectors, queries, 10)
    with pagehop.open(path) as index:
        known = index.calibration
        assert known is not None
        best = max(setting.best for setting in known.settings if setting.k == 10)
        if best < 0.999999:
            with pytest.warns(pagehop.RecallWarning, match=f"recall=0.999999 is above .* 10 rows, which is {best:.4f}"):
                index.search(queries, recall=0.999999)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            hits = index.search(queries, recall=0.999999)
        assert share(hits.ids, right) > 0.995
        assert hits.stats.hops == index.search(queries, search_list=3200).stats.hops


def test_more_rows_than_were_calibrated_are_found_with_the_recall_that_is_given(path: Path, vectors: Float32) -> None:
    queries = rows(60, 7)
    with pagehop.open(path) as index:
        for k in [150, 600]:
            right = nearest(vectors, queries, k)
            for recall in [0.9, 0.98]:
                assert share(index.search(queries, k, recall=recall).ids, right) > recall - 0.01
            assert share(index.search(queries, k).ids, right) > 0.97, "the default recall is 0.98"


def test_the_default_search_has_the_recall_that_info_says(path: Path, vectors: Float32, tmp_path: Path) -> None:
    queries = rows(200, 8)
    with pagehop.open(path) as index:
        assert index.info().default_recall == 0.98
        default, asked = index.search(queries), index.search(queries, recall=0.98)
        np.testing.assert_array_equal(default.ids, asked.ids)
        assert default.stats.hops == asked.stats.hops
    with pagehop.build(tmp_path / "never", vectors, calibrate=False) as index:
        assert index.info().default_recall is None
        assert index.search(queries).stats.hops == index.search(queries, search_list=100, slack=0.2).stats.hops


def test_wrong_arguments_are_errors_that_say_what_is_accepted(path: Path, vectors: Float32) -> None:
    with pagehop.open(path, write=True) as index:
        query = vectors[0]
        for recall in [0, -0.5, 1.01, float("nan"), "much"]:
            with pytest.raises(pagehop.ArgumentError, match="recall is"):
                index.search(query, recall=recall)  # type: ignore[arg-type]
        with pytest.raises(pagehop.ArgumentError, match="recall cannot be given with search_list or slack"):
            index.search(query, recall=0.9, slack=0.1)
        assert len(index.search(query, k=101, recall=1).ids) == 101
        with pytest.raises(pagehop.ArgumentError, match="recall is 1, which is what"):
            index.recall(recall=1)
        with pytest.raises(pagehop.ArgumentError, match="there are 49 queries, a calibration takes 50"):
            index.calibrate(vectors[:49])
        with pytest.raises(pagehop.DimensionError):
            index.calibrate(vectors[:50, 1:])
        for queries in [query, vectors[:0]]:
            with pytest.raises(pagehop.ArgumentError, match="queries has"):
                index.recall(queries=queries)
        for samples in [0, -1, 2.5]:
            with pytest.raises(pagehop.ArgumentError, match="samples is"):
                index.recall(10, samples)  # type: ignore[arg-type]
        with pytest.raises(pagehop.Interrupted):
            index.calibrate(progress=lambda *_: False)
