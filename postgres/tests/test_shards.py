"""Rows on four servers that postgres_fdw joins, as in docs/scale-out.md. The document's SQL runs
without changes, except for addresses and the number of dimensions.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import psycopg
import pytest

from blocks import Block, blocks
from devserver import Cluster, Server, Setting, install_contrib
from tests.items import DIM, QUERIES, assert_ascending, explain, fill, ids, number, run, value, vectors

DOCUMENT = "docs/scale-out.md"
LATER = "-- Later, on "
SHARDS = 4
ROWS = 6000
TENANTS = 3
SMALL: dict[str, Setting] = {
    "shared_buffers": "16MB",
    "fsync": False,
    "max_connections": 20,
    "autovacuum": False,
    # As on an SSD. With PostgreSQL's default, the planner would read and sort these few rows.
    "random_page_cost": 1.1,
}


@dataclass
class Shards:
    """Four servers with a quarter of the rows each, and the coordinator's database."""

    servers: list[Cluster]
    coordinator: str
    truths: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.coordinator, autocommit=True)

    def connect_to(self, shard: int) -> psycopg.Connection:
        return psycopg.connect(self.servers[shard - 1].dsn("vectors"), autocommit=True)


@pytest.fixture(scope="module")
def shards(server: Server, cluster: Cluster) -> Iterator[Shards]:
    install_contrib(server, "postgres_fdw")
    made = [Cluster(server, SMALL) for _ in range(SHARDS)]
    cluster.psql("CREATE DATABASE coordinator TEMPLATE template0")
    try:
        for shard in made:
            shard.start()
            shard.psql("CREATE DATABASE vectors")
        found = Shards(made, cluster.dsn("coordinator"))
        set_up(found, cluster)
        yield found
    finally:
        for shard in made:
            shard.remove()
        cluster.psql("DROP DATABASE coordinator WITH (FORCE)")


def set_up(shards: Shards, cluster: Cluster) -> None:
    """Runs each block of the document on the servers that it names, and loads the rows."""
    for block in blocks(DOCUMENT):
        if block.language != "sql" or block.code.startswith(LATER):
            continue
        if block.code.startswith("-- On each shard"):
            for at, shard in enumerate(shards.servers):
                code = block.code.replace("REMAINDER 0", f"REMAINDER {at}").replace("items_1", f"items_{at + 1}")
                psql(shard, "vectors", block, code)
        else:
            assert block.code.startswith("-- On the coordinator"), f"{DOCUMENT}:{block.line} does not say where it runs"
            psql(cluster, "coordinator", block, addressed(shards, block.code))
    for at, shard in enumerate(shards.servers, start=1):
        shard.psql("CREATE VIEW last AS SELECT *, pg_is_in_recovery() AS standby FROM pagehop_last_scan()", "vectors")
        shard.psql("GRANT SELECT ON last TO app", "vectors")
        columns = "hops bigint, rows bigint, standby bool"
        cluster.psql(f"CREATE FOREIGN TABLE last_{at} ({columns}) SERVER shard{at} OPTIONS (table_name 'last')",
                     "coordinator")  # fmt: skip
    with shards.connect() as connection, connection.cursor().copy(b"COPY items FROM STDIN") as copy:
        for at, row in enumerate(vectors(ROWS, seed=1)):
            copy.write_row((at, at % TENANTS, row))
    for shard in shards.servers:
        # Autovacuum would do this.
        shard.psql("VACUUM ANALYZE items", "vectors")
    cluster.psql("ANALYZE items", "coordinator")


def psql(cluster: Cluster, database: str, block: Block, code: str) -> None:
    command = [str(cluster.server.bin / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", cluster.dsn(database)]
    code = code.replace("vector(384)", f"vector({DIM})")
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{DOCUMENT}:{block.line}: {done.stderr}"


def bring_back(shards: Shards, shard: int) -> None:
    """Starts a killed server again. If its port has changed, the coordinator gets the new one."""
    server = shards.servers[shard - 1]
    port = server.port
    server.start()
    if server.port != port:
        with shards.connect() as connection:
            run(connection, f"ALTER SERVER shard{shard} OPTIONS (SET port '{server.port}')")


def later_block(where: str) -> str:
    """The block of the document that is run after the rows are loaded."""
    [found] = [block.code for block in blocks(DOCUMENT) if block.code.startswith(LATER + where)]
    return found


def addressed(shards: Shards, code: str) -> str:
    """The code with the addresses of the running servers."""

    def here(address: re.Match[str]) -> str:
        return f"host '127.0.0.1', port '{shards.servers[int(address[1]) - 1].port}'"

    return re.sub(r"host 'shard(\d)\.example', port '5432'", here, code)


@pytest.fixture
def connection(shards: Shards) -> Iterator[psycopg.Connection]:
    with shards.connect() as made:
        yield made


def nearest(query: str, limit: int = 10) -> str:
    return f"SELECT id, distance FROM nearest('{query}', {limit})"


def plain(query: str, limit: int = 10, where: str = "true") -> str:
    distance = f"embedding <-> '{query}'"
    return f"SELECT id, {distance} FROM items WHERE {where} ORDER BY {distance} LIMIT {limit}"


def truth(shards: Shards, query: str, limit: int = 10) -> list[tuple[object, ...]]:
    """The nearest rows of all shards, at most 100, by reading every row."""
    if query not in shards.truths:
        shards.truths[query] = merged(shards, query, 100, "SET pagehop.recall = 1")
    return shards.truths[query][:limit]


def merged(shards: Shards, query: str, limit: int, setting: str = "") -> list[tuple[object, ...]]:
    """The results of the single shards, sorted by distance."""
    found = []
    for at in range(1, SHARDS + 1):
        with shards.connect_to(at) as connection:
            run(connection, setting)
            found += run(connection, plain(query, limit))
    return sorted(found, key=lambda row: cast(float, row[1]))[:limit]


def scans(connection: psycopg.Connection) -> list[tuple[int, int]]:
    """Hops and returned rows of each shard's last scan, in this connection's sessions."""
    found = [run(connection, f"SELECT hops, rows FROM last_{at}")[0] for at in range(1, SHARDS + 1)]
    return cast(list[tuple[int, int]], found)


def recall(shards: Shards, connection: psycopg.Connection, ask: str, limit: int) -> float:
    """The share of the true nearest rows that `ask` finds, a query that contains `{query}`."""
    found = 0
    for query in QUERIES:
        rows = run(connection, ask.format(query=query))
        assert len(rows) == limit
        assert_ascending(row[1] for row in rows)
        found += len({row[0] for row in rows} & {row[0] for row in truth(shards, query, limit)})
    return found / len(QUERIES) / limit


def test_the_function_sends_order_and_limit_and_waits_for_all_shards_at_once(
    shards: Shards, connection: psycopg.Connection
) -> None:
    plan = explain(connection, nearest(QUERIES[0]), "VERBOSE, COSTS off")
    assert plan.count("Async Foreign Scan") == SHARDS, plan
    sent = re.findall(r"Remote SQL: .* ORDER BY \(embedding OPERATOR\(public\.<->\) .* LIMIT 10", plan)
    assert len(sent) == SHARDS, plan
    assert recall(shards, connection, nearest("{query}"), 10) > 0.97
    run(connection, nearest(QUERIES[0]))
    # The executor asks for a row more if it is not sure of the order.
    assert all(10 <= rows <= 15 for _, rows in scans(connection))
    assert sum(hops for hops, _ in scans(connection)) < ROWS / 10


def test_the_merge_is_that_of_what_the_shards_return(shards: Shards, connection: psycopg.Connection) -> None:
    for query in QUERIES[:5]:
        expected = merged(shards, query, 10)
        assert run(connection, nearest(query)) == expected
        assert run(connection, plain(query)) == expected


@pytest.mark.parametrize("limit", [10, 100])
def test_a_query_of_the_table_is_a_cursor_on_each_shard(
    shards: Shards, connection: psycopg.Connection, limit: int
) -> None:
    plan = explain(connection, plain(QUERIES[0], limit), "VERBOSE, COSTS off")
    assert "Merge Append" in plan, plan
    assert plan.count("ORDER BY (embedding OPERATOR(public.<->) ") == SHARDS, plan
    assert recall(shards, connection, plain("{query}", limit), limit) > 0.97
    run(connection, plain(QUERIES[0], limit))
    assert all(10 <= rows <= limit + 10 for _, rows in scans(connection))
    assert sum(hops for hops, _ in scans(connection)) < ROWS / 5


def test_a_shard_says_what_its_rows_take(shards: Shards) -> None:
    code = later_block("a shard").partition("\n")[2]
    with shards.connect_to(1) as shard:
        size, near, cost = [run(shard, one) for one in code.split(";\n") if one]
    assert 200 < cast(int, size[0][0]) < 8192
    assert len(near) == 10
    assert cast(int, cost[0][0]) > 0


def test_conditions_are_sent_to_the_shards(connection: psycopg.Connection) -> None:
    ask = plain(QUERIES[0], 10, "tenant_id = 1")
    sent = re.findall(r"WHERE \(\(tenant_id = 1\)\) ORDER BY", explain(connection, ask, "VERBOSE, COSTS off"))
    assert len(sent) == SHARDS
    found = run(connection, ask)
    assert all(10 <= rows <= 15 for _, rows in scans(connection))
    assert all(cast(int, row[0]) % TENANTS == 1 for row in found)
    near = [row for row in run(connection, nearest(QUERIES[0], 100)) if cast(int, row[0]) % TENANTS == 1]
    assert len(near) > 10
    assert len(set(found) & set(near[:10])) >= 9


def test_the_recall_of_a_session_goes_to_the_shards(shards: Shards) -> None:
    hops = []
    for asked in ["0.8", "0.999", "1"]:
        with shards.connect() as connection:
            alter(connection, f"SET options '-c pagehop.recall={asked}'")
            try:
                rows = [run(connection, nearest(query)) for query in QUERIES]
                hops += [one[0] for one in scans(connection)[:1]]
            finally:
                alter(connection, "SET options '-c cursor_tuple_fraction=0'")
    assert 0 < hops[0] < hops[1]
    # An exact search does not scan the index.
    assert hops[2] is None
    assert rows == [truth(shards, query) for query in QUERIES]


def alter(connection: psycopg.Connection, options: str) -> None:
    for at in range(1, SHARDS + 1):
        run(connection, f"ALTER SERVER shard{at} OPTIONS ({options})")


def test_statements_are_prepared_with_the_query_as_a_parameter(connection: psycopg.Connection) -> None:
    for statement, ask in [("PREPARE a (vector, int) AS SELECT id, distance FROM nearest($1, $2)", nearest),
                           ("PREPARE b (vector, int) AS SELECT id, embedding <-> $1 FROM items "
                            "ORDER BY embedding <-> $1 LIMIT $2", plain)]:  # fmt: skip
        run(connection, statement)
        for mode in ["force_generic_plan", "force_custom_plan"]:
            run(connection, f"SET plan_cache_mode = {mode}")
            for query in QUERIES[:3]:
                assert run(connection, f"EXECUTE {statement.split()[1]} ('{query}', 15)") == run(
                    connection, ask(query, 15)
                )


def test_equal_distances_and_rows_without_a_vector(connection: psycopg.Connection) -> None:
    run(connection, "BEGIN")
    fill(connection, [QUERIES[0]] * 12 + [None] * 4, first=ROWS)
    for ask in [nearest, plain]:
        found = run(connection, ask(QUERIES[0], 12))
        assert {row[0] for row in found} == set(range(ROWS, ROWS + 12))
        assert all(row[1] == 0 for row in found)
    assert len(ids(connection, "SELECT id FROM items WHERE embedding IS NULL")) == 4
    run(connection, "ROLLBACK")
    assert ids(connection, f"SELECT id FROM items WHERE id >= {ROWS}") == []


def test_writes_go_to_the_shard_of_their_row(shards: Shards, connection: psycopg.Connection) -> None:
    run(connection, f"INSERT INTO items SELECT id, 3, '{QUERIES[0]}' FROM generate_series({ROWS}, {ROWS + 39}) id")
    counts = []
    for at in range(1, SHARDS + 1):
        with shards.connect_to(at) as shard:
            here = f"SELECT count(*) FROM items WHERE id >= {ROWS}"
            counts.append(number(shard, here))
            assert value(shard, "SELECT pagehop_check('items_embedding') IS NOT NULL") is True
    assert sum(counts) == 40
    assert min(counts) > 0
    run(connection, f"UPDATE items SET embedding = '{QUERIES[1]}' WHERE id = {ROWS + 7}")
    assert ids(connection, nearest(QUERIES[1], 1)) == [ROWS + 7]
    with pytest.raises(psycopg.errors.UniqueViolation):
        run(connection, f"INSERT INTO items VALUES ({ROWS}, 3, NULL)")
    run(connection, f"DELETE FROM items WHERE id >= {ROWS}")
    assert number(connection, "SELECT count(*) FROM items") == ROWS


def test_a_row_does_not_move_to_another_shard(shards: Shards, connection: psycopg.Connection) -> None:
    with shards.connect_to(1) as shard:
        mine, other = ids(shard, "SELECT id FROM items ORDER BY id LIMIT 1")[0], None
    with shards.connect_to(2) as shard:
        other = ids(shard, "SELECT id FROM items ORDER BY id LIMIT 1")[0]
        with pytest.raises(psycopg.errors.CheckViolation, match="violates partition constraint"):
            run(shard, f"INSERT INTO items_2 VALUES ({mine}, 3, NULL)")
        run(shard, "GRANT UPDATE (id) ON items_2 TO app")
    try:
        with pytest.raises(psycopg.errors.CheckViolation, match="violates partition constraint"):
            run(connection, f"UPDATE items SET id = {mine} WHERE id = {other}")
    finally:
        with shards.connect_to(2) as shard:
            run(shard, "REVOKE UPDATE (id) ON items_2 FROM app")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run(connection, f"UPDATE items SET id = {mine} WHERE id = {other}")


def test_a_shard_that_is_down_is_named_and_is_back_later(shards: Shards, connection: psycopg.Connection) -> None:
    rows = run(connection, nearest(QUERIES[0]))
    shards.servers[1].kill()
    try:
        for ask in [nearest(QUERIES[0]), plain(QUERIES[0]), "SELECT count(*) FROM items"]:
            with pytest.raises(psycopg.OperationalError, match='could not connect to server "shard2"'):
                run(connection, ask)
        assert len(ids(connection, "SELECT id FROM items_1 LIMIT 5")) == 5
    finally:
        bring_back(shards, 2)
    assert run(connection, nearest(QUERIES[0])) == rows


def test_a_shard_that_goes_down_in_a_transaction_ends_it(shards: Shards, connection: psycopg.Connection) -> None:
    run(connection, "BEGIN")
    fill(connection, [QUERIES[0]] * 20, first=ROWS)
    shards.servers[2].kill()
    try:
        # For a broken connection, postgres_fdw names the statement, which contains the shard's
        # table.
        with pytest.raises(psycopg.errors.ConnectionFailure, match=r"(?s)closed the connection.*FROM public\.items_3 "):
            run(connection, nearest(QUERIES[0]))
        run(connection, "ROLLBACK")
        with pytest.raises(psycopg.OperationalError, match='could not connect to server "shard3"'):
            run(connection, nearest(QUERIES[0]))
    finally:
        bring_back(shards, 3)
    assert number(connection, "SELECT count(*) FROM items") == ROWS


def test_searches_go_to_a_replica_that_is_up(shards: Shards, connection: psycopg.Connection) -> None:
    """The first address has no server, the second one a standby, the third one the primary."""
    expected = run(connection, nearest(QUERIES[0]))
    primary = shards.servers[0]
    replica = primary.basebackup()
    try:
        replica.start()
        primary.wait_for_replay(replica)
        later = later_block("the coordinator")
        hosts, ports = "127.0.0.1,127.0.0.1,127.0.0.1", f"1,{replica.port},{primary.port}"
        changed = later.replace("replica-a,replica-b,primary", hosts).replace("5432,5432,5432", ports)
        assert hosts in changed
        assert ports in changed
        run(connection, changed)
        try:
            assert run(connection, nearest(QUERIES[0])) == expected
            assert [value(connection, f"SELECT standby FROM last_{at}") for at in (1, 2)] == [True, False]
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                run(connection, "DELETE FROM items_1")
        finally:
            back = f"SET host '127.0.0.1', SET port '{primary.port}'"
            run(connection, f"ALTER SERVER shard1 OPTIONS ({back}, DROP target_session_attrs, DROP load_balance_hosts)")
        assert run(connection, nearest(QUERIES[0])) == expected
    finally:
        replica.remove()
