"""The servers of all tests have the properties that the tests rely on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from devserver import Cluster, DevServerError, Server
from devserver.folder import made_once


def test_the_extension_and_pgvector_are_there(server: Server, connect: Callable[[], psycopg.Connection]) -> None:
    with connect() as connection:
        rows = connection.execute("SELECT extname FROM pg_extension ORDER BY 1").fetchall()
        assert [name for (name,) in rows] == ["pagehop", "plpgsql", "vector"]
        assert connection.info.server_version // 10_000 == server.major


@pytest.mark.parametrize("_time", [1, 2])
def test_a_test_sees_no_table_of_another(connect: Callable[[], psycopg.Connection], _time: int) -> None:
    with connect() as connection:
        connection.execute("CREATE TABLE here (id int)")


def test_the_loopback_address_wants_the_password(cluster: Cluster) -> None:
    with psycopg.connect(cluster.url()) as connection:
        assert connection.info.user == "postgres"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(cluster.url().replace(cluster.password, "wrong"))


def test_what_was_committed_survives_a_kill(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(work_mem="1MB")
    with psycopg.connect(cluster.dsn()) as writer:
        writer.execute("CREATE TABLE items (embedding vector(2))")
        writer.execute("INSERT INTO items VALUES ('[1,2]')")
        writer.commit()
        writer.execute("INSERT INTO items VALUES ('[3,4]')")
        cluster.kill()
        with pytest.raises(psycopg.OperationalError):
            writer.commit()
    assert not cluster.running
    cluster.start()
    assert "redo done" in cluster.log_text()
    assert cluster.psql("SELECT * FROM items; SHOW work_mem") == "[1,2]\n1MB"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_settings_hold_from_the_next_start_on(new_cluster: Callable[..., Cluster], mode: str) -> None:
    cluster = new_cluster()
    cluster.configure({"wal_consistency_checking": "all", "cluster_name": r"it's \ here", "fsync": False})
    cluster.restart("fast" if mode == "fast" else "immediate")
    shown = cluster.psql("SHOW wal_consistency_checking; SHOW cluster_name; SHOW fsync")
    assert shown.splitlines() == ["all", r"it's \ here", "off"]


def test_a_replica_shows_what_was_committed(new_cluster: Callable[..., Cluster]) -> None:
    primary = new_cluster()
    replica = primary.basebackup({"hot_standby_feedback": True})
    replica.start()
    primary.psql("CREATE TABLE items (id int); INSERT INTO items VALUES (7)")
    primary.wait_for_replay(replica)
    assert replica.psql("SELECT id FROM items; SHOW hot_standby_feedback") == "7\non"
    primary.kill()
    assert replica.psql("SELECT pg_promote(); INSERT INTO items VALUES (8); SELECT count(*) FROM items") == "t\n2"
    replica.remove()


def test_a_cluster_that_does_not_start_shows_its_log(server: Server) -> None:
    cluster = Cluster(server, {"shared_preload_libraries": "nothing_of_that_name"})
    with pytest.raises(DevServerError, match='could not access file "nothing_of_that_name"'):
        cluster.start()
    cluster.remove()
    assert not cluster.folder.exists()


def test_a_failing_statement_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(DevServerError, match='relation "nothing" does not exist'):
        cluster.psql("SELECT * FROM nothing; SELECT 1")


def test_a_folder_that_was_half_made_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "server"

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise DevServerError("no more")

    with pytest.raises(DevServerError, match="no more"):
        made_once(folder, "recipe", fail)
    made_once(folder, "recipe", lambda folder: (folder / "whole").touch())
    assert not (folder / "half").exists()
    made_once(folder, "recipe", fail)
    assert (folder / "whole").exists()
    made_once(folder, "another recipe", lambda folder: (folder / "other").touch())
    assert not (folder / "whole").exists()
