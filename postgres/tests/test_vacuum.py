"""VACUUM as PostgreSQL runs it: beside vacuums of TOAST tables, in parallel, by autovacuum."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable

import numpy as np
import psycopg
import pytest

from devserver import Cluster
from tests.items import RELAXED, Connect, by_index, create, everything, fill, number, run, value, vectors
from tests.test_inspect import check
from tests.test_maintenance import wait
from tests.test_memory import notices
from tests.test_training import TRAINED, WANTS, grow

# Dimensions and number of vectors that are stored in the TOAST table.
WIDE, WIDE_ROWS = 600, 1700


def test_a_training_reads_no_vector_that_another_vacuum_has_removed(connect: Connect) -> None:
    """Other backends once ignored the training's snapshot while it read the table."""
    connection, vacuum, watcher = connect(), connect(), connect()
    create(connection, dim=WIDE)
    run(connection, "ALTER TABLE items ALTER embedding SET STORAGE EXTERNAL, ALTER note SET STORAGE PLAIN")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)")
    # Notes make the table long enough for a vacuum that sleeps after a few blocks.
    run(connection, "ALTER TABLE items ALTER note SET DEFAULT repeat('x', 700)")
    grow(connection, vectors(WIDE_ROWS, seed=1, dim=WIDE))
    assert value(connection, WANTS) is True
    toast = value(connection, "SELECT reltoastrelid::regclass::text FROM pg_class WHERE relname = 'items'")
    run(vacuum, "SET vacuum_cost_delay = 10; SET vacuum_cost_limit = 20")
    failed: list[Exception] = []

    def train() -> None:
        try:
            run(vacuum, "VACUUM items")
        except psycopg.Error as error:
            failed.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    sleeps = (
        "SELECT count(*) FROM pg_stat_progress_vacuum JOIN pg_stat_activity a USING (pid) WHERE heap_blks_scanned > 80"
        f" AND phase = 'scanning heap' AND a.pid = {vacuum.info.backend_pid} AND wait_event = 'VacuumDelay'"
    )

    def is_stopped() -> bool:
        """Stops the vacuum at a time when it holds no lock that an UPDATE waits for."""
        os.kill(vacuum.info.backend_pid, signal.SIGSTOP)
        if number(watcher, sleeps) == 1:
            return True
        os.kill(vacuum.info.backend_pid, signal.SIGCONT)
        return not thread.is_alive()

    wait(is_stopped)
    # The vacuum has already read the blocks of these rows, so their old versions stay.
    new = vectors(200, seed=2, dim=WIDE)
    with connection.cursor() as cursor:
        cursor.executemany("UPDATE items SET embedding = %s WHERE id = %s", [(new[at], at) for at in range(200)])
    run(connection, f"VACUUM {toast}")
    assert number(watcher, sleeps) == 1
    os.kill(vacuum.info.backend_pid, signal.SIGCONT)
    thread.join()
    assert failed == []
    assert number(connection, TRAINED) >= WIDE_ROWS
    check(connection)
    query = vectors(1, seed=3, dim=WIDE)[0]
    with connection.transaction():
        run(connection, RELAXED)
        assert sorted(by_index(connection, query, WIDE_ROWS + 1)) == list(range(WIDE_ROWS))


def test_workers_of_a_parallel_vacuum_leave_the_index_to_the_leader(connect: Connect) -> None:
    """Each worker would take as much memory as the whole vacuum may."""
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    run(connection, "CREATE INDEX items_cosine ON items USING pagehop (embedding vector_cosine_ops)")
    run(connection, "SET min_parallel_index_scan_size = 0; SET max_parallel_maintenance_workers = 2")
    said: list[str] = []
    connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    grow(connection, vectors(1500, seed=1))
    run(connection, "DELETE FROM items WHERE id % 3 = 0")
    run(connection, "VACUUM (VERBOSE, PARALLEL 2, INDEX_CLEANUP on) items")
    # The only other index is that of the primary key, which the leader vacuums, too.
    assert not any("parallel vacuum worker" in line for line in said), said
    for index in ["items_embedding", "items_cosine"]:
        report = check(connection, index)
        assert (report["nodes"], report["dead_nodes"]) == (1000, 0)


def test_a_training_without_enough_memory_leaves_the_index_as_it_is(new_cluster: Callable[..., Cluster]) -> None:
    """Autovacuum has a setting of its own. VACUUM tells its user which one is too small."""
    settings = {"autovacuum_naptime": 1, "autovacuum_work_mem": "1MB", "maintenance_work_mem": "64MB"}
    cluster, rows = new_cluster(fsync=False, **settings), 16_600
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        said = notices(connection)
        create(connection)
        run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
        # With up to 16,384 rows, a training takes the memory that it needs.
        grow(connection, vectors(rows, seed=1), step=1000)
        assert value(connection, WANTS) is True
        run(connection, "ALTER TABLE items SET (autovacuum_enabled = on)")
        refused = "was trained with far fewer rows, and autovacuum_work_mem is too small to train it again"
        wait(lambda: refused in cluster.log_text())
        assert value(connection, WANTS) is True
        run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
        logged = len(cluster.log_text())
        run(connection, "SET maintenance_work_mem = '1MB'")
        run(connection, "VACUUM items")
        wanted = 'the model of index "items_embedding" was trained with far fewer rows, and maintenance_work_mem is too'
        assert any(wanted in text and "SET maintenance_work_mem" in text for text in said), said
        assert value(connection, WANTS) is True
        # VACUUM has a search path without the schema.
        assert re.search(r"REINDEX INDEX CONCURRENTLY (public\.)?items_embedding;", cluster.log_text()[logged:])
        assert everything(connection) == list(range(rows))
        run(connection, "RESET maintenance_work_mem")
        run(connection, "VACUUM items")
        assert (value(connection, WANTS), number(connection, TRAINED)) == (False, rows)
    cluster.remove()


def test_a_vacuum_of_mostly_dead_rows_costs_the_same_for_each(connect: Connect) -> None:
    """It once read the list of all dead rows five times for each 64: here 890 buffers a row."""
    connection, dead = connect(), 8000
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(1000, seed=1))
    with connection.transaction():
        fill(connection, vectors(dead, seed=2), first=2000)
        raise psycopg.Rollback
    said: list[str] = []
    connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    run(connection, "VACUUM (VERBOSE) items")
    # The first is of the table, the second of its TOAST table.
    hits = re.search(r"buffer usage: (\d+) hits", "\n".join(said))
    assert hits is not None, said
    assert int(hits[1]) < 720 * dead, hits[0]
    found = check(connection)
    assert (found["nodes"], found["dead_nodes"]) == (1000, 0), found


@pytest.mark.parametrize(("count", "dead", "memory"), [(3000, "id % 5 = 0", "64MB"), (6000, "id % 5 <> 0", "1MB")])
def test_a_vacuum_leaves_few_edges_to_removed_rows(connect: Connect, count: int, dead: str, memory: str) -> None:
    """Short vectors are near many others, which a search for a removed one does not come to. With
    1 MB, edges to 2,048 nodes are looked for at a time.
    """
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    lengths = np.exp(1.2 * np.random.default_rng(6).standard_normal(count))
    rows = [np.array(row[1:-1].split(","), dtype=float) for row in vectors(count, seed=5)]
    grow(connection, [str((row * length).tolist()) for row, length in zip(rows, lengths, strict=True)])
    run(connection, "REINDEX INDEX items_embedding")
    run(connection, f"DELETE FROM items WHERE {dead}")
    run(connection, f"SET maintenance_work_mem = '{memory}'")
    run(connection, "VACUUM items")
    found = check(connection)
    assert (found["nodes"], found["dead_nodes"]) == (number(connection, "SELECT count(*) FROM items"), 0), found
    # Walks alone leave hundreds where most rows live. Where most are dead, the edges to the first
    # 2,048 nodes alone left 47.
    assert found["stale_edges"] < 30, found
