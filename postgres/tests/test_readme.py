"""Runs every block of SQL in the executed documents in psql, without changes."""

from __future__ import annotations

import subprocess

import psycopg
import pytest

from blocks import EXECUTED, agrees, blocks
from devserver import Cluster
from tests.items import Connect, explain, run


@pytest.mark.parametrize("document", EXECUTED)
def test_every_block_of_sql_runs_and_prints_what_the_document_shows(
    document: str, cluster: Cluster, connect: Connect, database: str
) -> None:
    run(connect(), "DROP EXTENSION pagehop; DROP EXTENSION vector")
    for block in blocks(document):
        if block.language != "sql":
            continue
        psql = [str(cluster.server.bin / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", cluster.dsn(database)]
        done = subprocess.run(psql, input=block.code, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{document}:{block.line}: {done.stderr}"
        if block.shown is not None:
            assert agrees(block.shown, done.stdout), f"{document}:{block.line} prints\n{done.stdout}"
        assert_queries_use_the_index(connect(), block.code)


def assert_queries_use_the_index(connection: psycopg.Connection, code: str) -> None:
    for query in [line for line in code.splitlines() if line.startswith("SELECT") and " ORDER BY " in line]:
        plan = explain(connection, query)
        assert "Index Scan using items_embedding" in plan, plan
