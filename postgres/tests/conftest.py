"""Fixtures: a server with the extension for all tests, a database for each test, and separate
clusters for tests that damage or configure a server.

PAGEHOP_PG_VERSIONS chooses the servers, as in `17,18`. PAGEHOP_PG_CONFIG names an installed server
in place of them. With `-n 2`, two processes share the tests: each has its own cluster, and one of
them compiles.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import psycopg
import pytest

from devserver import DEFAULT, GIVEN, Cluster, Server, Setting, install, install_extension, open_clusters
from devserver.processes import server_owner
from tests.items import create, run


def versions() -> list[str]:
    if os.environ.get(GIVEN):
        return ["given"]
    return os.environ.get("PAGEHOP_PG_VERSIONS", DEFAULT).replace(",", " ").split()


@pytest.fixture(scope="session", params=versions())
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """An installed PostgreSQL with the extension compiled for it."""
    found = install(request.param)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        install_extension(found)
        return found
    # All processes of this run share the parent folder.
    done = tmp_path_factory.getbasetemp().parent / f"installed-{found.name}"
    with done.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_size == 0:
            install_extension(found)
            file.write("installed\n")
    return found


@pytest.fixture(scope="session")
def cluster(server: Server) -> Iterator[Cluster]:
    """A running cluster that tests share. They must not stop it or change its settings.

    It runs without syncs, because databases are then created and dropped faster, and need not
    survive a loss of power.
    """
    with started(Cluster(server, {"fsync": False})) as cluster:
        yield cluster


@pytest.fixture
def new_cluster(server: Server) -> Iterator[Callable[..., Cluster]]:
    """Creates running clusters for one test alone. They are removed after it."""
    made: list[Cluster] = []

    def make(**settings: Setting) -> Cluster:
        made.append(Cluster(server, settings))
        return started(made[-1])

    yield make
    for cluster in made:
        cluster.remove()


@pytest.fixture
def database(cluster: Cluster) -> Iterator[str]:
    """A database of the shared cluster that only this test uses."""
    name = f"test_{next(_numbers)}"
    cluster.psql(f"CREATE DATABASE {name}")
    yield name
    cluster.psql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def connect(cluster: Cluster, database: str) -> Iterator[Callable[[], psycopg.Connection]]:
    """Connects to the test's database; each statement is a transaction."""
    made: list[psycopg.Connection] = []

    def connect() -> psycopg.Connection:
        made.append(psycopg.connect(cluster.dsn(database), autocommit=True))
        return made[-1]

    yield connect
    for connection in made:
        connection.close()


def started(cluster: Cluster) -> Cluster:
    """Starts a new cluster. Every existing and new database has the extension."""
    cluster.start()
    for database in ["template1", "postgres"]:
        cluster.psql("CREATE EXTENSION pagehop CASCADE", database)
    return cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,  # noqa: ARG001
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the log of each server to the report of a failed test."""
    report = yield
    if report.failed:
        for cluster in open_clusters():
            report.sections.append((f"log of the server on port {cluster.port}", cluster.log_end()))
    return report


_numbers = iter(range(1, 1_000_000))


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A folder for a tablespace, on a file system of 6 MB.

    It is not below `tmp_path`, because the server's user cannot enter pytest's folders. Each run of
    pytest closes the folder that all runs share.
    """
    with tempfile.TemporaryDirectory(prefix="pagehop-disk-") as disk:
        owner = server_owner()
        options = f"size=6m,uid={owner.uid},gid={owner.gid},mode=700"
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk]
        if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
            pytest.skip("only root may mount a small disk")
        yield Path(disk)
        subprocess.run(["umount", disk], check=True)


@pytest.fixture
def busy_cluster(new_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster with an empty table that has two indexes."""
    # The indexes here change all the time and are not calibrated again, so the slack is fixed.
    cluster = new_cluster(**{"autovacuum": False, "pagehop.slack": 0.2})
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        run(connection, "CREATE INDEX ON items (note)")
    return cluster
