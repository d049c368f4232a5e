"""The microbenchmarks against a real PostgreSQL, with a real sysbench; skipped where either cannot be had."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from devserver import DevServerError
from labservers import postgres, sysbench
from labservers.configuration import Configuration
from labservers.postgres import Instance
from labservers.tree import Tree
from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.measure.oltp import Ask, MeasureError, load, measure

ROWS = 2000
SCRIPTS = (
    "ceiling", "hot-points", "point-query", "points-covered-si", "range-notcovered-pk", "read-only", "scan",
    "update-inlist", "update-zipf", "write-only", "read-write", "insert",
)  # fmt: skip


def ask(script: str, seconds: float = 0.2, slowed: float = 0.0) -> Ask:
    return Ask(script, 10, ROWS, 1, 0.05, seconds, 1, slowed)


@pytest.fixture(scope="module")
def tree() -> Tree:
    try:
        return sysbench.install()
    except DevServerError as error:
        pytest.skip(f"no sysbench: {error}")


@pytest.fixture(scope="module")
def instance(tree: Tree) -> Iterator[Instance]:
    try:
        server = postgres.install("18")
    except DevServerError as error:
        pytest.skip(f"no PostgreSQL 18: {error}")
    with Instance(server, Configuration(cache_mib=32).settings("postgres", server.version)) as instance:
        assert load(tree, instance, ROWS, 1, 60) > 0
        instance.settle()
        yield instance


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_kind_of_test_is_measured(tree: Tree, instance: Instance, script: str) -> None:
    raw = measure(tree, instance, ask(script))
    assert raw["qps"] > 10
    assert raw["server_cpu_us_per_query"] > 0
    assert raw["client_cpu_us_per_query"] > 0
    assert raw["count"] > 1
    assert abs(raw["clock_jump_s"]) < 0.1
    # The shortest of them may take the client a fifth of a small machine's CPU: that is for a plan's report to say.
    assert not [reason for reason in judge_load(raw).wrong if not reason.startswith(("cache", "client"))]


def test_a_delete_that_finds_nothing_is_no_delete(tree: Tree, instance: Instance) -> None:
    with pytest.raises(MeasureError, match="every row was deleted: the plan needs more rows, or fewer seconds"):
        measure(tree, instance, ask("delete", 60))
    instance.execute("TRUNCATE items")
    assert load_again(tree, instance) == ROWS


def load_again(tree: Tree, instance: Instance) -> int:
    instance.execute("DROP TABLE items")
    load(tree, instance, ROWS, 1, 60)
    return int(instance.execute("SELECT count(*) FROM items")[0][0])


def test_a_test_that_is_not_there_is_said(tree: Tree, instance: Instance) -> None:
    with pytest.raises(MeasureError, match="there is no test 'point-qery'"):
        measure(tree, instance, ask("point-qery"))


def test_a_server_that_stands_still_for_a_third_of_the_time_is_as_much_slower(tree: Tree, instance: Instance) -> None:
    for _ in range(5):
        figures = [measure(tree, instance, ask("scan", 0.7, share))["qps"] for share in (0.0, 0.33, 0.0, 0.33)]
        ratio = (figures[1] + figures[3]) / (figures[0] + figures[2])
        # Other work on the machine may slow one of them more, but hardly every time.
        if 0.4 < ratio < 0.9:
            break
    assert 0.4 < ratio < 0.9


def test_a_server_that_is_killed_ends_its_measurement_and_nothing_else(tree: Tree, instance: Instance) -> None:
    other = Instance(instance.server, {"shared_buffers": "16MB", "listen_addresses": ""})
    with other:
        load(tree, other, ROWS, 1, 60)
        killer = threading.Timer(0.5, os.kill, (other.pid, signal.SIGQUIT))
        killer.start()
        begun = time.monotonic()
        with pytest.raises(MeasureError, match="sysbench: "):
            measure(tree, other, ask("point-query", 60))
        assert time.monotonic() - begun < 30
        late = time.monotonic() + 30
        while other.running and time.monotonic() < late:
            time.sleep(0.05)
        assert not other.running
    assert instance.running
