"""The microbenchmarks with a real PostgreSQL and a real sysbench. Skipped if either is not
available.
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import threading
import time
from collections.abc import Iterator

import pytest

from devserver import DevServerError, postgres, sysbench
from devserver.configuration import Configuration
from devserver.postgres import Instance
from devserver.tree import Tree
from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.measure.oltp import Ask, MeasureError, load, measure
from pagehop_lab.suites.oltp.cases import CASES

ROWS = 2000
# All scripts except `delete`, which empties the table.
SCRIPTS = ("ceiling", *dict.fromkeys(case.script for case in CASES if case.script != "delete"))
# The statements of the published tests, without their parameters.
PUBLISHED = {
    "hot-points": "SELECT c FROM sbtest1 WHERE id IN (10)",
    "point-query": "SELECT c FROM sbtest1 WHERE id = ?",
    "points-covered-pk": "SELECT id FROM sbtest1 WHERE id IN (10)",
    "points-covered-si": "SELECT k FROM sbtest1 WHERE k IN (10)",
    "points-notcovered-pk": "SELECT id, c FROM sbtest1 WHERE id IN (10)",
    "points-notcovered-si": "SELECT k, c FROM sbtest1 WHERE k IN (10)",
    "random-points": "SELECT c FROM sbtest1 WHERE id IN (10)",
    "range-covered-pk": "SELECT id FROM sbtest1 WHERE id BETWEEN ? AND ?",
    "range-covered-si": "SELECT k FROM sbtest1 WHERE k BETWEEN ? AND ?",
    "range-notcovered-pk": "SELECT id, c FROM sbtest1 WHERE id BETWEEN ? AND ?",
    "range-notcovered-si": "SELECT k, c FROM sbtest1 WHERE k BETWEEN ? AND ?",
    "scan": "SELECT * FROM sbtest1 WHERE LENGTH(c) < 0",
    "update-index": "UPDATE sbtest1 SET k = k + 1 WHERE id = ?",
    "update-inlist": "UPDATE sbtest1 SET c = ? WHERE id IN (10)",
    "update-nonindex": "UPDATE sbtest1 SET c = ? WHERE id = ?",
    "update-one": "UPDATE sbtest1 SET c = ? WHERE id = ?",
    "update-zipf": "UPDATE sbtest1 SET c = ? WHERE id = ?",
    "insert": "INSERT INTO sbtest1 (k, c, pad) VALUES (?)",
}
READS = [
    "BEGIN",
    "SELECT c FROM sbtest1 WHERE id = ?",
    "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?",
    "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?",
    "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
    "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
]
WRITES = [
    "UPDATE sbtest1 SET k = k + 1 WHERE id = ?",
    "UPDATE sbtest1 SET c = ? WHERE id = ?",
    "DELETE FROM sbtest1 WHERE id = ?",
    "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)",
]
TRANSACTIONS = {
    "read-only": [*READS, "COMMIT"],
    "write-only": ["BEGIN", *WRITES, "COMMIT"],
    "read-write": [*READS, *WRITES, "COMMIT"],
}


def ask(script: str, seconds: float = 0.1, slowed: float = 0.0) -> Ask:
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
    assert (raw["server_cpu_us_per_query"] or 0) > 0
    assert raw["client_cpu_us_per_query"] > 0
    assert raw["count"] > 1
    assert abs(raw["clock_jump_s"]) < 0.1
    # For the shortest tests, the client may need a fifth of a small machine's CPU, which a plan's
    # report has to say.
    assert not [reason for reason in judge_load(raw).wrong if not reason.startswith(("cache", "client"))]


def test_statements_are_the_published_ones(tree: Tree, instance: Instance) -> None:
    for case in SCRIPTS[1:]:
        asked, _ = told(tree, instance, case)
        wanted = TRANSACTIONS.get(case) or [PUBLISHED[case]]
        # The last transaction may be cut off.
        assert asked[: len(wanted)] == wanted, case
        assert set(asked) == set(wanted), case


def test_ranges_are_as_long_as_the_published_ones(tree: Tree, instance: Instance) -> None:
    for case, further in (("range-covered-pk", 10), ("range-notcovered-si", 10), ("read-only", 9)):
        _, parameters = told(tree, instance, case)
        lengths = {last - first for first, last in (pair for pair in parameters if len(pair) == 2)}
        assert lengths == {further}, case
    _, parameters = told(tree, instance, "hot-points")
    assert {tuple(row) for row in parameters} == {tuple(range(ROWS // 2 + 1, ROWS // 2 + 11))}
    _, parameters = told(tree, instance, "update-zipf")
    assert statistics.median(row[-1] for row in parameters) < ROWS / 4


def told(tree: Tree, instance: Instance, script: str) -> tuple[list[str], list[list[int]]]:
    """The statements that a server got, with `(10)` for the ten parameters of a list, and their
    numbers.
    """
    begun = instance.log.stat().st_size
    instance.execute("ALTER SYSTEM SET log_statement = 'all'", "SELECT pg_reload_conf()")
    try:
        # Until the client has said twice how far it is, a tenth of a second apart.
        measure(tree, instance, Ask(script, 10, ROWS, 1, 0.0, 0.0, 1))
    finally:
        instance.execute("ALTER SYSTEM RESET log_statement", "SELECT pg_reload_conf()")
    log = instance.log.read_text()[begun:]
    statements, parameters = [], []
    for line in log.splitlines():
        if found := re.search(r"(?:execute [^:]*|statement): (.*)", line):
            text = re.sub(r"\$\d+", "?", found[1]).replace("(?" + ",?" * 9 + ")", "(10)")
            text = re.sub(r"VALUES \(\d+, '[-\d]+', '[-\d]+'\)", "VALUES (?)", text)
            if "sbtest1" in text or text in ("BEGIN", "COMMIT"):
                statements.append(text)
        elif "arameters: " in line:
            parameters.append([int(number) for number in re.findall(r"\$\d+ = '(\d+)'", line)])
    one_by_one = [text for at, text in enumerate(statements) if at == 0 or statements[at - 1] != text]
    return one_by_one, parameters


def test_indexes_are_cleaned_before_reads_after_writes(instance: Instance) -> None:
    assert postgres.vacuum(11) == "VACUUM (ANALYZE)"
    assert postgres.vacuum(12, "sbtest1") == "VACUUM (ANALYZE, INDEX_CLEANUP ON) sbtest1"
    begun = instance.log.stat().st_size
    instance.execute("ALTER SYSTEM SET log_statement = 'all'", "SELECT pg_reload_conf()")
    try:
        instance.settle()
    finally:
        instance.execute("ALTER SYSTEM RESET log_statement", "SELECT pg_reload_conf()")
    assert "VACUUM (ANALYZE, INDEX_CLEANUP ON)\n" in instance.log.read_text()[begun:]


def test_a_delete_that_finds_nothing_is_no_delete(tree: Tree, instance: Instance) -> None:
    with pytest.raises(MeasureError, match="every row was deleted: the plan needs more rows, or fewer seconds"):
        measure(tree, instance, ask("delete", 60))
    instance.execute("TRUNCATE sbtest1")
    assert load_again(tree, instance) == ROWS


def load_again(tree: Tree, instance: Instance) -> int:
    instance.execute("DROP TABLE sbtest1")
    load(tree, instance, ROWS, 1, 60)
    return int(instance.execute("SELECT count(*) FROM sbtest1")[0][0])


def test_a_test_that_is_not_there_is_said(tree: Tree, instance: Instance) -> None:
    with pytest.raises(MeasureError, match="there is no test 'point-qery'"):
        measure(tree, instance, ask("point-qery"))


def test_a_server_that_stands_still_for_a_third_of_the_time_is_as_much_slower(tree: Tree, instance: Instance) -> None:
    for _ in range(5):
        figures = [measure(tree, instance, ask("scan", 0.7, share))["qps"] for share in (0.0, 0.33, 0.0, 0.33)]
        ratio = (figures[1] + figures[3]) / (figures[0] + figures[2])
        # Other work on the machine may slow down one of the measurements, but rarely in all
        # attempts.
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
