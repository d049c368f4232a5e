"""A failure hides nothing of what was measured before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fake_servers
from devserver.releases import ServerMissingError
from pagehop_lab import data
from pagehop_lab.store import RunFolder
from runs import MACHINE, QUICK, fake_engines, of_engines, plan_of, run, server_results

LOAD = QUICK + "repeats = 1\nin_turns = 2\n"
REASON = "it hung: no answer in 20 s"


@pytest.fixture(scope="module", autouse=True)
def sets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with fake_engines(tmp_path_factory.mktemp("data")):
        yield


def fail(folder: Path, kind: str, count: int = 1000, **of: Any) -> None:
    """Adds a failed attempt to records of a kind that have these fields in their identity."""
    with RunFolder.writing(folder, RunFolder(folder).plan, MACHINE) as into:
        chosen = [one for one in into.all(kind) if of.items() <= one.identity.items()][:count]
        assert chosen
        for record in chosen:
            into.add(kind, "again", record.identity, failed=REASON)


def test_a_set_that_is_gone_later_keeps_its_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, _ = run(plan_of("honest", load=LOAD), tmp_path)

    def gone(*_: Any) -> None:
        raise data.DataError("there is no data/generated-16")

    monkeypatch.setattr(data, "prepare", gone)
    after, _ = run(plan_of("honest", load=LOAD), tmp_path)
    assert len(before.points) == len(after.points) == 2
    assert after.datasets == before.datasets
    assert after.sound
    # Points that are still to be measured have the reason.
    more, _ = run(plan_of("honest", load=LOAD.replace("repeats = 1", "repeats = 2")), tmp_path)
    assert len(more.points) == 2
    assert set(more.coverage.failed.values()) == {"no set: there is no data/generated-16"}


def test_a_build_that_fails_later_keeps_its_figures(tmp_path: Path) -> None:
    before, _ = run(plan_of("honest", load=LOAD), tmp_path)
    fail(tmp_path, "builds")
    after = of_engines(tmp_path)
    assert [build.raw for build in after.builds] == [build.raw for build in before.builds] != []
    more, _ = run(plan_of("honest", load=LOAD.replace("repeats = 1", "repeats = 2")), tmp_path)
    assert set(more.coverage.failed.values()) == {f"no index: {REASON}"}, "the latest attempt decides what is left"


def test_an_engine_that_does_not_start_later_stays_in_its_group(tmp_path: Path) -> None:
    text = plan_of("honest", "slow", "costly", load=LOAD)
    before, _ = run(text, tmp_path)
    groups = {point.engine: point.group for point in before.points}
    assert groups == {"honest": 1, "slow": 1, "costly": 2}
    fail(tmp_path, "engines", engine="honest")
    after = of_engines(tmp_path)
    assert {point.engine: point.group for point in after.points} == groups
    (honest, *_) = after.engines
    assert (honest.version, honest.failed) == ("1.0", REASON)
    assert f"1.0, and later: {REASON}" in (tmp_path / "report/index.html").read_text()


def test_an_attempt_that_hangs_keeps_the_figure_of_the_one_before(tmp_path: Path) -> None:
    before, _ = run(plan_of("honest", load=LOAD), tmp_path)
    fail(tmp_path, "points", 1)
    after = of_engines(tmp_path)
    assert [point.qps for point in after.points] == [point.qps for point in before.points]
    noted = [note for point in after.points for note in point.noted if note.startswith("later:")]
    assert noted == [f"later: another attempt failed: {REASON}"]
    assert after.again == 1
    assert after.sound


def test_a_server_that_fails_later_keeps_its_version_and_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    product = fake_servers.FakeProduct()
    before, _ = fake_servers.run(fake_servers.plan_of("old"), tmp_path, fake_servers.FakeBench(), product)
    fail(tmp_path, "builds")
    assert server_results(tmp_path).servers[0].loads == before.servers[0].loads != []

    def missing(_: Any) -> str:
        raise ServerMissingError("the registry does not answer")

    monkeypatch.setattr(product, "version", missing)
    after, _ = fake_servers.run(fake_servers.plan_of("old"), tmp_path, fake_servers.FakeBench(), product)
    (facts,) = after.servers
    assert (facts.version, facts.failed) == ("old.1", "the registry does not answer")
    assert len(after.measured) == len(before.measured) > 0
