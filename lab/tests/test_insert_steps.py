"""The Insert Benchmark on a real server: rows come and go, answers are complete, a crash is
reported.

Skipped if the server is not installed: nothing is fetched.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from devserver import postgres
from devserver.releases import FOLDER
from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.measure import steps
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.steps import State
from pagehop_lab.measure.wires import PostgresWire
from pagehop_lab.suites.inserts import sales

VERSION = "18"


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Instance]:
    if importlib.util.find_spec("psycopg") is None or not (FOLDER / f"postgres-{VERSION}").is_dir():
        pytest.skip(f"no PostgreSQL {VERSION} in {FOLDER}")
    instance = postgres.Instance(postgres.install(VERSION), {"shared_buffers": "32MB"})
    try:
        instance.start()
        yield instance
    finally:
        instance.remove()


def counted(server: postgres.Instance) -> tuple[int, int, int]:
    """The number of rows, the first key and the last key."""
    rows: tuple[int, int, int] = server.execute("SELECT count(*), min(transactionid), max(transactionid) FROM sales")[0]
    return rows


def test_a_window_of_rows_moves_and_is_asked(server: postgres.Instance) -> None:
    said = sales.load(server, 2000, 1, 60)
    assert counted(server) == (2000, 0, 1999)
    assert set(said["index_seconds"]) == set(sales.INDEXES)
    assert said["index_bytes"] > 3 * 2000 * 16
    state = State(0, said["rows"])
    raw = sales.write(server, 1, state, 50, 0.3)
    # The rows that were inserted and not yet deleted when the clients were stopped.
    assert 0 <= state.high - state.low - 2000 <= 1000
    assert counted(server) == (state.high - state.low, state.low, state.high - 1)
    assert raw["count"] == state.high - said["rows"]
    for kind in ("range", "point"):
        raw = sales.query(server, 1, state, kind, 200, 0.5)
        assert raw["count"] > 0
        assert raw["rows_short_count"] == 0
        assert raw["rows_per_answer"] > 9.5
        # A busy machine may make writes late, but never early. Ten rows are inserted at the start
        # of the second.
        assert 0 < raw["rows_per_s"] <= 240
        assert sum(raw["per_second"]["asked"]) == raw["count"]
    assert counted(server) == (state.high - state.low, state.low, state.high - 1)


def test_what_a_server_refuses_is_said(server: postgres.Instance) -> None:
    wire = PostgresWire(server.dsn())
    assert wire.numbers("SELECT $1::int WHERE $1::int > $2::int").ask((7, 6)) == 1
    assert wire.numbers("SELECT $1::int WHERE $1::int > $2::int").ask((6, 7)) == 0
    with pytest.raises(RuntimeError, match="division by zero"):
        wire.numbers("SELECT 1 / $1::int").ask((0,))
    with pytest.raises(RuntimeError, match="nowhere"):
        wire.execute(b"SELECT * FROM nowhere")


def test_a_clock_that_is_set_during_a_step_is_reported_and_rates_stand(
    server: postgres.Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    true, set_by = time.time, [0.0]
    monkeypatch.setattr("time.time", lambda: true() + set_by[0])
    watch = steps._watch

    def watched(*given: Any) -> Any:
        """Clients start slowly on a busy machine, so the timer starts here."""
        threading.Timer(1.5, lambda: set_by.__setitem__(0, -3600.0)).start()
        return watch(*given)

    monkeypatch.setattr(steps, "_watch", watched)
    low, high = counted(server)[1:]
    raw = sales.query(server, 1, State(low, high + 1), "point", 0, 2.0)
    assert set_by == [-3600.0]
    assert raw["clock_jump_s"] == pytest.approx(-3600, abs=1)
    # By the changed clock, the time would be an hour less.
    assert 0 < raw["elapsed_s"] < 600
    assert raw["qps"] * raw["elapsed_s"] == pytest.approx(raw["count"])
    assert any("the clock was set by -3" in note for note in judge_load(raw).noted)


def test_a_server_that_dies_in_the_middle_fails_the_step(server: postgres.Instance) -> None:
    low, high = counted(server)[1:]
    killer = threading.Timer(1.5, lambda: os.kill(server.pid, signal.SIGQUIT))
    killer.start()
    with pytest.raises(MeasureError, match=r"a client (failed|did not begin).*: .*(server|terminat|closed)"):
        sales.write(server, 1, State(low, high + 1), 50, 60.0)
    killer.join()
