"""Ctrl-C in every phase of a run: nothing is lost or left, and the same command continues."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fake_servers
import runs
from devserver.processes import children
from fake_servers import FakeBench, FakeInstance, FakeProduct
from pagehop_lab import command, data, report
from pagehop_lab.report import files
from pagehop_lab.run.child import Child
from pagehop_lab.run.servers import ServersRunner
from pagehop_lab.site import pages
from pagehop_lab.store import RunFolder, StoreError

CASES = 4
"""Number of tests in a plan of servers."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, which must be empty after each test."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    before = children(os.getpid())
    yield place
    assert list(place.iterdir()) == []
    assert set(children(os.getpid())) <= set(before), "processes of the run are still there"


class Interrupted:
    """Raises KeyboardInterrupt in one call of a function, before the function does anything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, at: Callable[..., bool]) -> None:
        ours: Callable[..., Any] = getattr(owner, name)
        self.came = False

        def called(*given: Any, **named: Any) -> Any:
            if not self.came and at(*given, **named):
                self.came = True
                raise KeyboardInterrupt
            return ours(*given, **named)

        monkeypatch.setattr(owner, name, called)


def nth(number: int) -> Callable[..., bool]:
    """A function that returns true in its `number`-th call, counted from 1."""
    calls = iter(range(1, 10**6))
    return lambda *_, **__: next(calls) == number


def raw_files(folder: Path) -> dict[str, bytes]:
    """Every raw file of a run."""
    return {str(path): path.read_bytes() for path in folder.glob("*/*.json") if path.parent.name != "report"}


def assert_nothing_is_half_done(folder: Path) -> None:
    assert not list(folder.rglob(".unfinished*"))
    assert RunFolder(folder).damaged == []
    # No other process holds the folder.
    with RunFolder.adding(folder):
        pass


@pytest.mark.parametrize(
    ("owner", "name", "at", "points"),
    [
        (FakeProduct, "version", nth(2), 0),
        (FakeInstance, "start", nth(2), 0),
        (FakeBench, "load", nth(2), 0),
        # The first two calls belong to loading, the third cleans up after the writes.
        (FakeInstance, "settle", nth(3), 4),
        (FakeBench, "measure", nth(6), 5),
        (ServersRunner, "_keep", nth(3), 2),
        (files, "as_json", nth(1), 2 * CASES),
    ],
    ids=["fetch", "start", "load", "settle", "measure", "keep", "report"],
)
def test_a_run_of_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, at: Callable[..., bool], points: int
) -> None:
    text, folder, product = fake_servers.plan_of("old", "new"), tmp_path / "run", FakeProduct()
    stop = Interrupted(monkeypatch, owner, name, at)
    with pytest.raises(KeyboardInterrupt):
        fake_servers.run(text, folder, FakeBench(), product)
    assert stop.came
    assert all(one.removed for one in product.made), "a server is still running"
    assert_nothing_is_half_done(folder)
    kept = raw_files(folder)
    assert sum("/points/" in path for path in kept) == points
    results, said = fake_servers.run(text, folder, FakeBench(), product)
    assert results.sound
    assert len(results.measured) == 2 * CASES
    assert (f"{points} of them measured before" in said) == (points > 0)
    assert raw_files(folder).items() >= kept.items(), "a raw file was written again"
    assert (folder / "report/index.html").is_file()


def asks(command: str, number: int = 1) -> Callable[..., bool]:
    """A function that is true for the `number`-th request of `command` to an engine's process,
    counted from 1.
    """
    is_nth = nth(number)
    return lambda _, asked, *__, **___: asked == command and is_nth()


@pytest.mark.parametrize(
    ("owner", "name", "at", "points"),
    [
        (data, "prepare", nth(1), 0),
        pytest.param(Child, "ask", asks("hello"), 0, marks=pytest.mark.long),
        (Child, "ask", asks("build"), 0),
        pytest.param(Child, "ask", asks("ceiling"), 0, marks=pytest.mark.long),
        (Child, "ask", asks("measure", 3), 2),
        pytest.param(Child, "ask", asks("close"), 4, marks=pytest.mark.long),
        (files, "as_json", nth(1), 4),
    ],
    ids=["set", "start", "build", "ceiling", "measure", "close", "report"],
)
def test_a_run_of_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, at: Callable[..., bool], points: int
) -> None:
    text, folder = runs.plan_of("honest", load=runs.QUICK + "repeats = 2\n"), tmp_path / "run"
    stop = Interrupted(monkeypatch, owner, name, at)
    with runs.fake_engines(tmp_path / "data"):
        with pytest.raises(KeyboardInterrupt):
            runs.run(text, folder)
        assert stop.came
        assert_nothing_is_half_done(folder)
        kept = raw_files(folder)
        # Points that a busy machine disturbed are measured again: a third attempt may be for the
        # first point.
        found = len(RunFolder(folder).all("points"))
        assert found in ((1, 2) if points == 2 else (points,))
        results, _ = runs.run(text, folder)
    assert results.coverage.complete
    assert not results.coverage.failed
    assert len(results.points) == 4
    assert raw_files(folder).items() >= kept.items(), "a raw file was written again"


@pytest.mark.parametrize(("owner", "name"), [(report, "write"), (pages, "index")], ids=["copies", "pages"])
def test_a_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], owner: object, name: str
) -> None:
    fake_servers.run(fake_servers.plan_of("old"), tmp_path / "runs/one", FakeBench(), FakeProduct())
    made = tmp_path / "made"
    assert command.main(["site", str(tmp_path / "runs"), "--into", str(made)]) == 0
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    stop = Interrupted(monkeypatch, owner, name, nth(1))
    assert command.main(["site", str(tmp_path / "runs"), "--into", str(made)]) == command.INTERRUPTED
    assert stop.came
    assert "run the same command to continue" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "runs", "temporary"]
    assert command.main(["site", str(tmp_path / "runs"), "--into", str(made)]) == 0


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
def test_a_kill_and_a_lost_terminal_end_a_run_as_ctrl_c_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: signal.Signals
) -> None:
    before = {one: signal.signal(one, lambda *_: None) for one in (signal.SIGTERM, signal.SIGHUP)}

    def writing(*_: object) -> None:
        try:
            signal.raise_signal(by)
        except KeyboardInterrupt:
            # The shell and the kernel both tell that a terminal was lost.
            if by == signal.SIGHUP:
                signal.raise_signal(by)
            raise
        raise StoreError("the run goes on")

    monkeypatch.setattr(RunFolder, "writing", writing)
    try:
        assert command.main(["smoke", "--into", str(tmp_path / "run")]) == command.INTERRUPTED
        # `nohup` ignores a lost terminal.
        if by == signal.SIGHUP:
            signal.signal(by, signal.SIG_IGN)
            assert command.main(["smoke", "--into", str(tmp_path / "run")]) == 1
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
