"""Servers that do not settle after writes: what is read afterwards is not a valid figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devserver import DevServerError, innodb
from fake_servers import CASES, FakeBench, FakeInstance, FakeProduct, plan_of, run

WRITES = 2
"""Number of the first case after the writes in CASES."""


@pytest.mark.parametrize("rounds", [1, 8])
def test_a_server_that_fails_to_settle_is_left_out_of_the_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    def settle(self: FakeInstance) -> None:
        self.settled += 1
        if self.name == "old" and self.settled == 2:
            raise DevServerError("the connection was lost")

    text = plan_of("old", "new").replace("[load]\n", f"[load]\nrounds = {rounds}\n")
    with monkeypatch.context() as failing:
        failing.setattr(FakeInstance, "settle", settle)
        results, said = run(text, tmp_path, FakeBench(), FakeProduct())
    found = {
        name: [one.case for one in results.measured if one.server == f"postgres {name}"] for name in ("old", "new")
    }
    assert found == {"old": list(CASES[:WRITES]), "new": list(CASES)}
    assert "left out of the rest of this repeat, it did not settle: DevServerError: the connection was lost" in said
    assert "[8/8]" in said
    # The same command measures the rest.
    results, _ = run(text, tmp_path, FakeBench(), FakeProduct())
    assert results.sound


@pytest.mark.parametrize("rounds", [1, 8])
def test_a_run_goes_on_if_no_server_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    def settle(self: FakeInstance) -> None:
        self.settled += 1
        if self.settled == 2:
            raise DevServerError("the connection was lost")

    load = f"[load]\nrounds = {rounds}\n"
    monkeypatch.setattr(FakeInstance, "settle", settle)
    results, said = run(plan_of("old", repeats=2).replace("[load]\n", load), tmp_path, FakeBench(), FakeProduct())
    assert [(one.repeat, one.case) for one in results.measured] == [
        (repeat, case) for repeat in (0, 1) for case in CASES[:WRITES]
    ]
    assert "[6/8" in said, "what was left out counts, too"
    results, _ = run(plan_of("stillborn").replace("[load]\n", load), tmp_path / "none", FakeBench(), FakeProduct())
    assert not results.measured


def test_what_is_read_before_all_is_purged_is_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(self: FakeInstance) -> None:
        self.settled += 1
        self.unsettled = "900 old versions were not purged" if self.settled == 2 else None

    monkeypatch.setattr(FakeInstance, "settle", settle)
    results, _ = run(plan_of("old"), tmp_path, FakeBench(), FakeProduct())
    wrong = [one.wrong for one in results.measured]
    assert wrong == [()] * WRITES + [("settling: 900 old versions were not purged",)] * (len(CASES) - WRITES)


def innodb_of(dirty: int, history: Callable[[], int], said: list[str]) -> Callable[[str], Any]:
    """Answers of an InnoDB server; `said` gets the statements that set something."""

    def execute(statement: str) -> Any:
        if statement.startswith("SET"):
            said.append(statement.rpartition("= ")[2])
        answers = {"SHOW TABLES": [], "SELECT @@": [(90,)], "SHOW GLOBAL": [("pages", dirty)]}
        known = [answer for begin, answer in answers.items() if statement.startswith(begin)]
        return known[0] if known else [(history(),)] if "history" in statement else []

    return execute


@pytest.mark.parametrize(("dirty", "is_left"), [(2, False), (5000, True)])
def test_pages_that_are_not_written_in_time_are_told(
    monkeypatch: pytest.MonkeyPatch, dirty: int, is_left: bool
) -> None:
    monkeypatch.setattr(innodb, "_SETTLE_S", 0.05)
    monkeypatch.setattr(innodb, "_LOOK_S", 0.01)
    said: list[str] = []
    left = innodb.settle(innodb_of(dirty, lambda: 7, said))
    assert left == ("7 old versions were not purged or 5,000 pages not written in 0.05 s" if is_left else None)
    assert said == ["0", "90"]


def test_a_setting_of_the_server_is_restored_if_settling_fails() -> None:
    def lost() -> int:
        raise DevServerError("the connection was lost")

    said: list[str] = []
    with pytest.raises(DevServerError, match="the connection was lost"):
        innodb.settle(innodb_of(2, lost, said))
    assert said == ["0", "90"]
