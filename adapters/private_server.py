"""Fixtures for tests of adapters and examples: a private server with the extension."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator

import pytest

from devserver import Cluster, install, install_extension

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running server, on which every database can create the extension. Its data do not survive a
    loss of power.
    """
    if shutil.which("cargo") is None:
        pytest.skip("compiling the extension for a server needs cargo")
    server = install()
    install_extension(server)
    with Cluster(server, {"fsync": False}) as cluster:
        yield cluster


@pytest.fixture
def database(cluster: Cluster) -> Iterator[str]:
    """The name of an empty database that only this test uses."""
    name = f"test_{next(_numbers)}"
    cluster.psql(f"CREATE DATABASE {name}")
    yield name
    cluster.psql(f"DROP DATABASE {name} WITH (FORCE)")
