"""Servers that never answer: each wait for them ends, and says so."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devserver import DevServerError, innodb, mongo, postgres, running
from devserver.processes import children, run
from fake_servers import FakeBench, FakeProduct, plan_of
from fake_servers import run as run_plan

LONG_S = 60.0


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short limits; the test fails if it takes long, which without a limit is for ever."""

    def late(*_: Any) -> None:
        raise AssertionError("the wait did not end")

    monkeypatch.setattr(postgres, "QUESTION_S", 2.0)
    monkeypatch.setattr(postgres, "GRACE_S", 1.0)
    monkeypatch.setattr(running, "QUESTION_S", 1.0)
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LONG_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Instance]:
    try:
        instance = postgres.Instance(postgres.install("18"), {})
    except DevServerError as error:
        pytest.skip(str(error))
    with instance:
        yield instance


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(("scheme", "module"), [("mysql", "pymysql"), ("postgresql", "psycopg")])
def test_a_url_of_a_server_that_says_nothing_is_not_one_that_runs(silent: int, scheme: str, module: str) -> None:
    pytest.importorskip(module)
    given = running.of_url(f"{scheme}://me@127.0.0.1:{silent}/db", "sbtest1")
    assert not given.running
    with pytest.raises(DevServerError, match=rf"^{scheme}://me@127"):
        given.version()
    given.limit(0.5)
    with pytest.raises(DevServerError, match=rf"^{scheme}://me@127"):
        given.settle()


@pytest.mark.usefixtures("soon")
def test_a_statement_of_innodb_ends_at_the_limit(silent: int) -> None:
    pytest.importorskip("pymysql")
    options = {"host": "127.0.0.1", "port": silent, "user": "me"}
    with pytest.raises(DevServerError, match="timed out"):
        innodb.executed(lambda: innodb.connected(options, 0.5), "mariadb 11", ("SELECT 1",))


@pytest.mark.usefixtures("soon")
def test_a_statement_of_postgres_ends_at_the_limit(server: postgres.Instance) -> None:
    server.limit(0.5)
    with pytest.raises(DevServerError, match="canceling statement due to statement timeout"):
        server.execute("SELECT pg_sleep(600)")
    assert server.execute("SELECT 1", "SELECT 2") == [(2,)]


@pytest.mark.usefixtures("soon")
def test_a_stopped_backend_ends_no_run(server: postgres.Instance) -> None:
    server.limit(0.5)
    try:
        with pytest.raises(DevServerError, match=r"it hung: no answer in 1\.5 s"):
            # The parent of the shell is the backend.
            server.execute("CREATE TEMPORARY TABLE said (word text)", "COPY said FROM PROGRAM 'kill -STOP $PPID'")
    finally:
        for process in children(server.pid):
            os.kill(process, signal.SIGCONT)
    assert server.execute("SELECT 1") == [(1,)]


@pytest.mark.usefixtures("soon")
def test_a_stopped_server_ends_no_run(server: postgres.Instance) -> None:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(DevServerError, match="timeout"):
            server.settle()
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.mark.usefixtures("soon")
def test_a_program_that_hangs_is_ended() -> None:
    begun = time.monotonic()
    with pytest.raises(DevServerError, match=r"sleep hung: it did not end in 0\.2 s"):
        run(["sleep", "600"], limit_s=0.2)
    assert time.monotonic() - begun < LONG_S


def test_commands_of_mongo_have_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pymongo")
    told: list[Any] = []

    def connected(_: str, **options: Any) -> Any:
        told.append(options)
        raise DevServerError("there is no server")

    monkeypatch.setattr(mongo, "connected", connected)
    database = mongo.Database("mongodb://127.0.0.1/lab")
    database.limit(2.0)
    with pytest.raises(DevServerError):
        database.data_bytes()
    assert told == [{"socketTimeoutMS": 2000}]


def test_the_limit_is_that_of_the_plan(tmp_path: Path) -> None:
    product = FakeProduct()
    run_plan(plan_of("old").replace("[load]\n", "[load]\nload_timeout_s = 77\n"), tmp_path, FakeBench(), product)
    assert [one.limit_s for one in product.made] == [77]
