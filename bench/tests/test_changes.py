"""The measurements of changes, in miniature: they run, add up what was spent, and notice what is lost."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import numpy as np
import pytest

import pagehop
from pagehop_bench.changes import insert, latency, recovery, rounds, vacuum, vectors
from pagehop_bench.changes.command import SECTIONS, measure
from pagehop_bench.changes.meter import Spent, percentiles
from pagehop_bench.changes.scale import Scale, smoke
from pagehop_bench.engines import Float32, Int64
from pagehop_bench.engines.pgvector import copy_rows
from pagehop_bench.recall import recall_at
from pagehop_bench.report import Report

changeable = pytest.mark.skipif(not hasattr(pagehop, "create"), reason="this pagehop cannot be changed")


@pytest.fixture
def scale(tmp_path: Path) -> Scale:
    return dataclasses.replace(smoke(tmp_path), peer=False, repeats=1)


class Pretended:
    """Spends a second and ten CPU milliseconds on every batch, by a clock of its own, and remembers the rows."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.batches = 0
        self.checkpoints = 0

    def add(self, ids: Int64, rows: Float32) -> None:
        assert len(ids) == len(rows)
        np.testing.assert_array_equal(rows[:, 0], ids)
        self.ids += ids.tolist()
        self.batches += 1

    def spent(self) -> Spent:
        return Spent(
            wall_s=float(self.batches),
            cpu_s=self.batches / 100,
            logged_bytes=10 * len(self.ids),
            paged_bytes=500 * self.checkpoints,
            handed_bytes=15 * len(self.ids),
            written_bytes=20 * len(self.ids),
        )

    def checkpoint(self) -> None:
        self.checkpoints += 1


NUMBERED = np.repeat(np.arange(130, dtype=np.float32)[:, None], 3, axis=1)


def test_every_row_is_added_once_in_order_and_what_was_spent_adds_up() -> None:
    engine = Pretended()
    run = insert.added(engine, NUMBERED, 30, batch=7, steps=4)
    assert engine.ids == list(range(30, 130))
    assert [step["rows"] for step in run["steps"]] == [25, 25, 25, 25]
    assert run["rows"] == 100
    assert run["rows_per_s"] == pytest.approx(100 / 16)
    assert run["cpu_us_per_row"] == pytest.approx(16 * 10_000 / 100)
    assert run["logged_bytes_per_row"] == 10
    assert run["paged_bytes_per_row"] == 5
    assert (run["handed_bytes_per_row"], run["written_bytes_per_row"]) == (15, 20)
    assert not run["stopped_early"]


def test_a_time_that_is_over_stops_the_adding() -> None:
    engine = Pretended()
    run = insert.added(engine, NUMBERED, 30, batch=10, seconds=3.5, steps=5)
    assert run["rows"] == len(engine.ids) == 40
    assert run["stopped_early"]


def test_rates_are_compared_over_the_rows_that_both_added() -> None:
    run = {"steps": [{"rows": 10, "wall_s": 1.0}, {"rows": 10, "wall_s": 3.0}]}
    assert insert.over_first(run, 10, "wall_s") == 1
    assert insert.over_first(run, 15, "wall_s") == pytest.approx(2.5)
    with pytest.raises(ValueError, match="earlier"):
        insert.over_first(run, 21, "wall_s")


def test_percentiles_name_middle_and_tail() -> None:
    told = percentiles(range(1001))
    assert (told["p50"], told["p99"], told["max"]) == (500, 990, 1000)


def test_rows_are_what_copy_reads() -> None:
    written = copy_rows(np.array([7, -1]), np.array([[1, 2, 3], [4, 5, 6.5]], dtype=np.float32))
    row = struct.Struct(">hiqihh3f")
    assert list(row.iter_unpack(written)) == [(2, 8, 7, 16, 3, 0, 1, 2, 3), (2, 8, -1, 16, 3, 0, 4, 5, 6.5)]


def test_the_truth_follows_shuffled_rows(scale: Scale) -> None:
    plain = vectors.dataset(scale, vectors.GENERATED)
    other = rounds.shuffled(plain)
    assert not np.array_equal(plain.base, other.base)
    assert recall_at(10, other.truth.ids, other.truth, other.base, other.queries).by_id == 1
    nearest = other.base[other.truth.ids[:, 0]]
    distances = ((nearest.astype(np.float64) - other.queries) ** 2).sum(axis=1)
    np.testing.assert_allclose(distances, plain.truth.distances[:, 0], rtol=1e-9)


def test_deletions_do_not_repeat_a_row(scale: Scale) -> None:
    chosen = np.concatenate(vacuum.deletions(dataclasses.replace(scale, repeats=5)))
    assert len(np.unique(chosen)) == len(chosen) == 5 * scale.rows // 100


def test_a_copy_of_an_index_is_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.pagehop").write_text("pages")
    (tmp_path / "a.pagehop-log").write_text("log")
    (tmp_path / "b.pagehop-old").write_text("of another time")
    vectors.copied(tmp_path / "a.pagehop", tmp_path / "b.pagehop")
    found = {path.name: path.read_text() for path in tmp_path.glob("b*")}
    assert found == {"b.pagehop": "pages", "b.pagehop-log": "log"}


@changeable
@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_measures(scale: Scale, section: str) -> None:
    report = Report()
    measure(report, scale, [section])
    assert report.rows
    assert all(row.figure is not None and np.isfinite(row.figure) for row in report.rows)


@changeable
def test_changing_a_small_index_back_loses_nothing(scale: Scale) -> None:
    dataset = vectors.dataset(scale, vectors.GENERATED)
    told = rounds.rounds(dataset, scale.new("x.pagehop"), 2, 0.2, 50)
    assert [after["rows"] for after in told["rounds"]] == [scale.rows] * 2
    assert told["rounds"][-1]["settings"]["200"]["recall"] > told["fresh"]["settings"]["200"]["recall"] - 0.02


@changeable
def test_writers_write_while_searches_are_timed(scale: Scale) -> None:
    base = vectors.rows(scale, scale.rows + scale.added)
    asked = vectors.queries(scale, 50)
    source = vectors.built(scale, base[: scale.rows])
    for mode in ["writing thread", "writing process"]:
        path = vectors.copied(source, scale.new("y.pagehop"))
        told = latency.measured(scale, mode, path, base, asked)
        assert told["searches"] == scale.searches
        assert 0 < told["wrote"]["rows"] <= scale.added


@changeable
def test_what_a_killed_writer_was_told_is_durable_is_there(scale: Scale) -> None:
    base = vectors.rows(scale, scale.rows + scale.added)
    image = vectors.copied(vectors.built(scale, base[: scale.rows]), scale.new("z.pagehop"))
    left = recovery.killed(scale, image, base)
    assert left["durable"] > scale.rows
    told = recovery.opened(image, base, left["durable"], write=True)
    assert told["complete"]
    assert told["rows"] >= left["durable"]
    assert not recovery.opened(image, base, left["durable"] + 50, write=False)["complete"]
