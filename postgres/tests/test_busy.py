"""What happens to an index that sessions are writing: large rollbacks, an update of the extension,
and other processes on the same core.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from devserver import Cluster, Server
from tests.items import Connect, by_index, create, everything, fill, number, run, value, vectors
from tests.test_concurrency import Crowd, Reader, Writer, assert_sound, vacuum
from tests.test_inspect import check

# 100,000 rows take a minute.
ROWS = min(int(os.environ.get("PAGEHOP_PG_ROWS", "4000")), 100_000)
KEPT = 1200
NEXT = "0.1.0.next"


def test_a_large_transaction_leaves_nothing_when_it_is_rolled_back(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(KEPT, seed=1))
    run(connection, "REINDEX INDEX items_embedding")
    queries = vectors(20, seed=2)
    before = [by_index(connection, query, 10) for query in queries]
    random = f"ARRAY(SELECT random() + 0 * i FROM generate_series(1, {len(queries[0].split(','))}))::vector"
    run(connection, "SELECT setseed(0.5)")
    with connection.transaction(force_rollback=True):
        run(connection, f"INSERT INTO items SELECT {KEPT} + i, {random} FROM generate_series(1, {ROWS}) i")
        assert number(connection, "SELECT count(*) FROM items") == KEPT + ROWS
    assert everything(connection) == list(range(KEPT))
    run(connection, "VACUUM items")
    found = check(connection)
    assert (found["nodes"], found["dead_nodes"]) == (KEPT, 0), found
    after = [by_index(connection, query, 10) for query in queries]
    same = sum(len({*one} & {*other}) for one, other in zip(before, after, strict=True))
    assert same >= 0.97 * 10 * len(queries), same
    pages = found["pages"]
    fill(connection, vectors(1000, seed=3), first=KEPT)
    assert check(connection)["pages"] == pages, "rows use the space of those that were rolled back"


@pytest.fixture
def later_version(server: Server) -> Iterator[str]:
    """A version of the extension whose script replaces the access method's handler."""
    install = (Path(__file__).parents[1] / "sql" / "pagehop--0.1.0.sql").read_text()
    [handler] = [part for part in install.split(";") if "RETURNS index_am_handler" in part]
    script = handler[handler.index("CREATE FUNCTION") :].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    path = server.extension_folder / f"pagehop--0.1.0--{NEXT}.sql"
    path.write_text(f"{script};\nCREATE FUNCTION pagehop_next() RETURNS int LANGUAGE sql AS 'SELECT 1';\n")
    yield NEXT
    path.unlink()


def test_the_extension_is_updated_while_sessions_write(busy_cluster: Cluster, later_version: str) -> None:
    writers, reader = [Writer(1), Writer(2), Writer(3)], Reader(1)
    crowd = Crowd(busy_cluster)
    with crowd.beside([reader.step, vacuum]):
        threads: list[threading.Thread] = crowd.take([writer.step for writer in writers], 300)
        with psycopg.connect(busy_cluster.dsn(), autocommit=True) as connection:
            while number(connection, "SELECT count(*) FROM items") < 100:
                crowd.raise_failures()
            run(connection, f"ALTER EXTENSION pagehop UPDATE TO '{later_version}'")
            assert any(thread.is_alive() for thread in threads), "all writers had ended"
            assert value(connection, "SELECT pagehop_next()") == 1
        for thread in threads:
            thread.join()
    assert_sound(busy_cluster, writers)


@contextmanager
def busy_beside(pid: int) -> Iterator[None]:
    """A process that never waits, on the same core as process `pid`."""
    core = {min(os.sched_getaffinity(pid))}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            os.sched_setaffinity(busy.pid, core)
            os.sched_setaffinity(pid, core)
            yield
        finally:
            busy.kill()


def switches(pid: int) -> int:
    """How often process `pid` lost its core to another while it had work."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("nonvoluntary_ctxt_switches"))


def test_an_insertion_lets_others_use_its_core(connect: Connect) -> None:
    # The kernel alone takes the core from it every few milliseconds, ten times in all.
    connection, rows = connect(), vectors(900, seed=4)
    create(connection)
    fill(connection, rows[:500])
    run(connection, "REINDEX INDEX items_embedding")
    server = connection.info.backend_pid
    with busy_beside(server):
        before = switches(server)
        fill(connection, rows[500:], first=500)
        after = switches(server)
    assert after - before > 100, f"{after - before} switches in 400 rows"
