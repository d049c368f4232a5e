"""Servers of MariaDB and MySQL that are already installed: they are created, queried and ended.

Nothing is fetched.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devserver import DevServerError, innodb, mariadb, mysql, running, sysbench
from devserver.configuration import Configuration
from devserver.releases import FOLDER, releases
from pagehop_lab.measure.oltp import Ask, MeasureError, load, measure

pytest.importorskip("pymysql")

ROWS = 2000
SCRIPTS = ("point-query", "points-covered-si", "range-notcovered-pk", "scan", "update-inlist", "read-write", "insert")


# If this variable is set, all installed servers are tested, which takes more than a minute.
ALL = "PAGEHOP_LAB_ALL_SERVERS"


def is_here(product: str, name: str) -> bool:
    folder = mariadb.FOLDER / "trixie" if (product, name) == ("mariadb", "11.8") else FOLDER / f"{product}-{name}"
    return (folder / ".complete").is_file()


HERE = [(product, name) for product in ("mariadb", "mysql") for name in releases(product) if is_here(product, name)]
HERE = HERE if os.environ.get(ALL) else [one for one in HERE if one == ("mariadb", "11.8")]


def program(product: str, name: str) -> innodb.Program:
    try:
        return mariadb.of_version(name) if product == "mariadb" else mysql.install(name)
    except DevServerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=HERE, ids=lambda one: "-".join(one))
def instance(request: pytest.FixtureRequest) -> Iterator[innodb.Instance]:
    found = program(*request.param)
    settings = Configuration(cache_mib=32).settings(found.product, found.version)
    with innodb.Instance(found, settings) as instance:
        try:
            load(sysbench.install(), instance, ROWS, 1, 60)
        except DevServerError as error:
            pytest.skip(f"no sysbench: {error}")
        instance.settle()
        yield instance


def test_every_version_is_measured_and_settled(instance: innodb.Instance) -> None:
    tree = sysbench.install()
    for script in SCRIPTS:
        raw = measure(tree, instance, Ask(script, 10, ROWS, 1, 0.05, 0.1, 1))
        assert raw["qps"] > 10, script
        assert (raw["server_cpu_us_per_query"] or 0) > 0
    instance.settle()
    ((rows,),) = instance.execute("SELECT count(*) FROM sbtest1")
    assert rows > ROWS
    assert instance.data_bytes() > ROWS * 180
    ((version, cache),) = instance.execute("SELECT version(), @@innodb_buffer_pool_size")
    assert version.startswith(instance.program.version)
    assert cache == 32 << 20
    instance.restart()
    assert instance.execute("SELECT count(*) FROM sbtest1") == [(rows,)]
    with pytest.raises(DevServerError, match="Unknown column"):
        instance.execute("SELECT missing FROM sbtest1")


def test_rows_are_read_by_handler_past_the_parser(instance: innodb.Instance) -> None:
    def counted(name: str) -> int:
        return int(instance.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])

    before = {name: counted(name) for name in ("Handler_read_key", "Com_ha_read", "Com_select")}
    raw = measure(sysbench.install(), instance, Ask("point-handler", 1, ROWS, 1, 0.05, 0.2, 1))
    grown = {name: counted(name) - figure for name, figure in before.items()}
    assert raw["errors"] == 0
    assert grown["Com_ha_read"] >= raw["count"] > 10
    assert grown["Handler_read_key"] >= grown["Com_ha_read"]
    assert grown["Com_select"] < 10


def test_a_setting_counts_from_the_next_start_on(instance: innodb.Instance) -> None:
    instance.configure({"innodb_buffer_pool_size": "48M"})
    assert instance.execute("SELECT @@innodb_buffer_pool_size") == [(32 << 20,)]
    instance.restart()
    assert instance.execute("SELECT @@innodb_buffer_pool_size") == [(48 << 20,)]


def test_a_server_that_is_killed_ends_its_measurement(instance: innodb.Instance) -> None:
    os.kill(instance.pid, signal.SIGKILL)
    with pytest.raises(MeasureError, match="sysbench: "):
        measure(sysbench.install(), instance, Ask("scan", 10, ROWS, 1, 0.05, 5, 1))
    late = time.monotonic() + 60
    while instance.running and time.monotonic() < late:
        time.sleep(0.05)
    assert not instance.running
    # The server starts again with all committed rows.
    instance.start()
    assert instance.execute("SELECT count(*) >= 2000 FROM sbtest1") == [(1,)]


def test_a_server_that_runs_already_is_left_as_it_was(instance: innodb.Instance) -> None:
    """A server by its URL: its cost is not known, and the lab's table is dropped at the end."""
    instance.execute("CREATE DATABASE IF NOT EXISTS other")
    with pytest.raises(DevServerError, match=r"has a table sbtest1 already: .* which a killed run may have left"):
        running.of_url(instance.url(), "sbtest1").start()
    # A table of the same name in another database of the server is not the lab's.
    given = running.of_url(instance.url().replace("/lab?", "/other?"), "sbtest1")
    assert given.data_bytes() == 0
    given.start()
    tree = sysbench.install()
    load(tree, given, ROWS, 1, 60)
    given.settle()
    assert given.data_bytes() > ROWS * 180
    raw = measure(tree, given, Ask("point-query", 10, ROWS, 1, 0.05, 0.1, 1))
    assert raw["qps"] > 10
    assert raw["server_cpu_us_per_query"] is None
    assert given.version() == instance.program.version.split("-")[0]
    assert given.running
    given.remove()
    assert instance.execute("SHOW TABLES FROM other") == []
    assert instance.execute("SHOW TABLES FROM lab") == [("sbtest1",)]


@pytest.mark.skipif(not HERE, reason="no MariaDB or MySQL is here")
def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    found = program(*HERE[0])
    with (
        pytest.raises(DevServerError, match="unknown variable 'no-such-option"),
        innodb.Instance(found, {"no_such_option": "1"}),
    ):
        raise AssertionError(tmp_path)


def test_a_url_that_leads_nowhere_is_said() -> None:
    with pytest.raises(DevServerError, match="write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE"):
        running.of_url("oracle://me:secret@there/db", "sbtest1")
    missing = running.of_url("mysql://me:secret@127.0.0.1:1/db", "sbtest1")
    with pytest.raises(DevServerError, match=r"^mysql://me@127\.0\.0\.1:1/db: ") as raised:
        missing.start()
    assert "secret" not in str(raised.value)
    assert not missing.running
