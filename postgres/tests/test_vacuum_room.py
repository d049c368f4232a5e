"""VACUUM where something is missing that a training takes: disk space, room for temporary files, a
new snapshot. It goes on without the training.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import DIM, QUERIES, Connect, by_index, create, everything, number, run, value, vectors
from tests.test_inspect import ask, check
from tests.test_memory import dead_rows, delete, notices
from tests.test_training import GROWN, PAGES, TRAINED, WANTS, grow


def test_a_vacuum_goes_on_without_disk_space_for_a_training(
    new_cluster: Callable[..., Cluster], small_disk: Path
) -> None:
    cluster = new_cluster(autovacuum=False, fsync=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
        run(connection, f"CREATE TABLESPACE small LOCATION '{small_disk}'")
        run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}), note text)")
        index = "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops) TABLESPACE small"
        run(connection, index)
        grow(connection, vectors(GROWN, seed=1))
        delete(connection, "id < 10")
        before, size = number(connection, TRAINED), number(connection, PAGES) * 8192
        assert value(connection, WANTS) is True
        # VACUUM needs pages for its list of dead nodes.
        subprocess.run(["mount", "-o", f"remount,size={size + (256 << 10)}", small_disk], check=True)
        said = notices(connection)
        run(connection, "VACUUM items")
        [notice] = said
        assert f"there is no room to train it again: a build of {GROWN - 10} rows" in notice
        assert "MiB of disk space" in notice
        assert (number(connection, TRAINED), dead_rows(connection)) == (before, 0)
        assert everything(connection) == list(range(10, GROWN))
        subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
        run(connection, "VACUUM items")
        assert number(connection, TRAINED) == GROWN - 10
        run(connection, "DROP TABLE items")
        run(connection, "DROP TABLESPACE small")


def test_a_vacuum_goes_on_without_room_for_temporary_files(connect: Connect) -> None:
    connection, dim = connect(), 600
    create(connection, dim=dim)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    grow(connection, vectors(2000, seed=1, dim=dim))
    assert value(connection, WANTS) is True
    said = notices(connection)
    run(connection, "SET maintenance_work_mem = '1MB'; SET temp_file_limit = '1MB'")
    delete(connection, "id < 10")
    run(connection, "VACUUM items")
    [notice] = said
    assert "there is no room to train it again: its rows need 5 MiB of temporary files, 1 MiB are free" in notice
    assert dead_rows(connection) == 0
    # The rows fit, and the codes that are put aside, too.
    run(connection, "SET temp_file_limit = '64MB'")
    run(connection, "VACUUM items")
    assert number(connection, TRAINED) == 1990
    assert len(said) == 1


def test_a_vacuum_that_keeps_its_snapshot_does_not_train(connect: Connect) -> None:
    """The rows that it would read may have lost their vectors in TOAST since the snapshot."""
    connection = connect()
    create(connection)
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    grow(connection, vectors(GROWN, seed=1))
    delete(connection, "id < 10")
    run(connection, "SET default_transaction_isolation = 'repeatable read'")
    said, before = notices(connection), number(connection, TRAINED)
    run(connection, "VACUUM items")
    assert 'index "items_embedding" was not trained: the transaction keeps its snapshot' in said[0]
    assert (number(connection, TRAINED), dead_rows(connection)) == (before, 0)
    run(connection, "RESET default_transaction_isolation")
    said.clear()
    run(connection, "VACUUM items")
    assert (number(connection, TRAINED), said) == (GROWN - 10, [])


def test_a_training_says_that_a_calibration_by_queries_is_of_the_graph_before(
    new_cluster: Callable[..., Cluster],
) -> None:
    """Rows do not replace real queries, so it stays."""
    cluster = new_cluster(autovacuum=False, fsync=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        grow(connection, vectors(GROWN, seed=1))
        asked = f"ARRAY[{','.join(repr(vector) for vector in vectors(60, seed=4))}]::vector[]"
        run(connection, f"SELECT pagehop_calibrate('items_embedding', {asked})")
        run(connection, "VACUUM items")
        assert number(connection, TRAINED) == GROWN
        info = ask(connection, "pagehop_info")
        assert (info["calibrated_by_queries"], info["changes_since_calibration"]) == (True, 0)
        kept = "was trained again, which gave it another graph since it was calibrated by queries"
        assert cluster.log_text().count(kept) == 1
        run(connection, "VACUUM items")
        assert cluster.log_text().count(kept) == 1
        run(connection, "DELETE FROM items WHERE id % 4 = 0")
        run(connection, "VACUUM items")
        assert f"has had {GROWN // 4} rows added or deleted since it was calibrated by queries" in cluster.log_text()
        run(connection, "REINDEX INDEX items_embedding")
        assert ask(connection, "pagehop_info")["calibrated_by_queries"] is False


def test_an_error_of_a_concurrent_build_does_not_disturb_the_session(new_cluster: Callable[..., Cluster]) -> None:
    """PostgreSQL sorts the places of all rows while this access method lists them, and the sort
    fails.
    """
    cluster = new_cluster(autovacuum=False, fsync=False)
    if cluster.server.major < 18:
        pytest.skip("PostgreSQL 17 gives maintenance at least 1 MB, in which 5,000 places are sorted")
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        grow(connection, vectors(5000, seed=1), step=5000)
        run(connection, "SET maintenance_work_mem = '64kB'; SET temp_file_limit = 0")
        with pytest.raises(errors.ConfigurationLimitExceeded, match="temp_file_limit"):
            run(connection, "REINDEX INDEX CONCURRENTLY items_embedding")
        new = "items_embedding_ccnew"
        assert value(connection, f"SELECT indisvalid FROM pg_index WHERE indexrelid = '{new}'::regclass") is False
        assert check(connection)["nodes"] == 5000
        grow(connection, vectors(200, seed=2), first=5000)
        run(connection, "DELETE FROM items WHERE id < 100")
        run(connection, "VACUUM (INDEX_CLEANUP on) items")
        assert check(connection)["nodes"] == 5100
        assert len(by_index(connection, QUERIES[0])) == 10
        run(connection, f"DROP INDEX {new}; RESET maintenance_work_mem; RESET temp_file_limit")
        run(connection, "REINDEX INDEX CONCURRENTLY items_embedding")
        assert check(connection)["nodes"] == 5100
