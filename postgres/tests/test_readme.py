"""What the README tells a newcomer to run in PostgreSQL, run as it stands there."""

from __future__ import annotations

import re

import psycopg

from devserver import Cluster
from devserver.folder import REPOSITORY
from tests.items import Connect, explain, number, run

SECTION = (REPOSITORY / "README.md").read_text().split("\n## PostgreSQL\n")[1].split("\n## ")[0]


def test_the_quick_start_runs_as_it_is_pasted(cluster: Cluster, connect: Connect, database: str) -> None:
    run(connect(), "DROP EXTENSION pagehop; DROP EXTENSION vector")
    [pasted] = re.findall(r"```sql\n(.*?)```", SECTION, re.DOTALL)
    said = cluster.psql(pasted, database).splitlines()
    assert said[0] == "7|0"
    nearest = [line.split("|") for line in said[:5]]
    assert sorted(float(distance) for _, distance in nearest) == [float(distance) for _, distance in nearest]
    of_topic = [int(line) for line in said[5:10]]
    assert of_topic[0] == 7
    assert all(one % 10 == 7 for one in of_topic)
    nodes, pages, degree = map(int, said[10].split("|"))
    connection = connect()
    assert 9000 < nodes <= number(connection, "SELECT count(*) FROM items")
    assert 0 < degree < nodes
    assert 0 < pages < nodes
    assert_queries_use_the_index(connection, pasted)


def assert_queries_use_the_index(connection: psycopg.Connection, pasted: str) -> None:
    queries = [line for line in pasted.splitlines() if "ORDER BY" in line]
    assert len(queries) == 2
    for query in queries:
        plan = explain(connection, query)
        assert "Index Scan using items_embedding" in plan, plan
