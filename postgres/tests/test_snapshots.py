"""What a scan may return: rows of an MVCC snapshot, from pages that are consistent."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster, Server
from tests.items import QUERIES, Connect, create, everything, fill, number, run, value, vectors
from tests.test_bad_input import damage, without_checksums

# Only C code can scan an index with another snapshot than that of its statement.
SCAN = """
#include "postgres.h"
#include "access/genam.h"
#include "access/relscan.h"
#include "access/table.h"
#include "fmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(nearest_tid);

/* nearest_tid(index regclass, query vector, dirty bool): whether the scan has a first row */
Datum
nearest_tid(PG_FUNCTION_ARGS)
{
    Relation    index = index_open(PG_GETARG_OID(0), AccessShareLock);
    Relation    table = table_open(index->rd_index->indrelid, AccessShareLock);
    ScanKeyData order = {.sk_flags = SK_ORDER_BY, .sk_attno = 1, .sk_argument = PG_GETARG_DATUM(1)};
    SnapshotData dirty;
    IndexScanDesc scan;
    bool        found;

    InitDirtySnapshot(dirty);
#if PG_VERSION_NUM >= 180000
    scan = index_beginscan(table, index, PG_GETARG_BOOL(2) ? &dirty : GetActiveSnapshot(), NULL, 0, 1);
#else
    scan = index_beginscan(table, index, PG_GETARG_BOOL(2) ? &dirty : GetActiveSnapshot(), 0, 1);
#endif
    index_rescan(scan, NULL, 0, &order, 1);
    found = index_getnext_tid(scan, ForwardScanDirection) != NULL;
    index_endscan(scan);
    table_close(table, AccessShareLock);
    index_close(index, AccessShareLock);
    PG_RETURN_BOOL(found);
}
"""


@pytest.fixture
def module(server: Server) -> Iterator[Path]:
    with compiled(server, SCAN) as library:
        yield library


@contextmanager
def compiled(server: Server, code: str) -> Iterator[Path]:
    """C code as a library of the server, in a folder that its user can read."""
    include = subprocess.run([server.pg_config, "--includedir-server"], check=True, capture_output=True, text=True)
    with tempfile.TemporaryDirectory(prefix="pagehop-module-") as folder:
        Path(folder).chmod(0o755)
        source, library = Path(folder, "scan.c"), Path(folder, "scan.so")
        source.write_text(code)
        flags = ["-shared", "-fPIC", "-I", include.stdout.strip()]
        subprocess.run(["cc", *flags, "-o", library, source], check=True)
        yield library


def test_a_snapshot_that_is_not_mvcc_is_refused(connect: Connect, module: Path) -> None:
    """Without a pin, the scan could return a row that took the place of another one."""
    connection = connect()
    create(connection)
    fill(connection, vectors(100, seed=1))
    function = "nearest_tid(regclass, vector, bool) RETURNS bool LANGUAGE c STRICT"
    run(connection, f"CREATE FUNCTION {function} AS '{module}', 'nearest_tid'")
    scan = f"SELECT nearest_tid('items_embedding', '{QUERIES[0]}', {{}})"
    assert value(connection, scan.format(False)) is True
    with pytest.raises(errors.FeatureNotSupported, match="non-MVCC snapshots are not supported with pagehop index"):
        run(connection, scan.format(True))
    assert value(connection, scan.format(False)) is True


def test_what_replay_changed_during_a_scan_is_no_damage(new_cluster: Callable[..., Cluster]) -> None:
    """If replay has moved since the scan began, inconsistent pages are a serialization failure,
    after which programs repeat the statement.
    """
    primary = without_checksums(new_cluster)
    standby = primary.basebackup()
    standby.start()
    primary.wait_for_replay(standby)
    with psycopg.connect(standby.dsn(), autocommit=True) as connection:
        path = str(value(connection, "SELECT pg_relation_filepath('items_embedding')"))
        size = number(connection, "SELECT (pg_relation_size('items_embedding') / 8192)::int")
    # This page of nodes stands for one that replay changes during the scan.
    damage(standby, path, [size - 1], 24, b"\x5a" * 8168)
    with psycopg.connect(standby.dsn(), autocommit=True) as connection:
        with pytest.raises(errors.IndexCorrupted):
            everything(connection)
        begin_scan(connection)
        with psycopg.connect(primary.dsn(), autocommit=True) as writer:
            fill(writer, QUERIES[:1], first=10_000)
        primary.wait_for_replay(standby)
        with pytest.raises(errors.SerializationFailure, match="recovery changed index") as raised:
            run(connection, "FETCH ALL FROM nearest")
        assert raised.value.sqlstate == "40001"
        run(connection, "ROLLBACK")
        begin_scan(connection)
        with pytest.raises(errors.IndexCorrupted):
            run(connection, "FETCH ALL FROM nearest")
    standby.remove()


def test_what_replay_changed_during_a_function_is_no_damage(new_cluster: Callable[..., Cluster]) -> None:
    primary = without_checksums(new_cluster)
    standby = primary.basebackup()
    standby.start()
    primary.wait_for_replay(standby)
    with psycopg.connect(standby.dsn(), autocommit=True) as connection:
        path = str(value(connection, "SELECT pg_relation_filepath('items_embedding')"))
        size = number(connection, "SELECT (pg_relation_size('items_embedding') / 8192)::int")
    damage(standby, path, [size - 1], 24, b"\x5a" * 8168)
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(primary.dsn(), autocommit=True) as writer:
            run(writer, "CREATE TABLE other (id int); SET synchronous_commit = remote_apply")
            while not stop.is_set():
                run(writer, "INSERT INTO other VALUES (1)")

    measured = "SELECT * FROM pagehop_recall('items_embedding')"
    with psycopg.connect(standby.dsn(), autocommit=True) as connection:
        with pytest.raises(errors.IndexCorrupted):
            run(connection, measured)
        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(500):
                with pytest.raises((errors.IndexCorrupted, errors.SerializationFailure)) as raised:
                    run(connection, measured)
                if "recovery changed index" in str(raised.value):
                    break
            else:
                pytest.fail("replay did not move during any of them")
            assert isinstance(raised.value, errors.SerializationFailure)
        finally:
            stop.set()
            thread.join()
        primary.wait_for_replay(standby)
        with pytest.raises(errors.IndexCorrupted):
            run(connection, measured)
    standby.remove()


def begin_scan(connection: psycopg.Connection) -> None:
    """Opens a cursor over all rows. Its first row is found without the damaged page."""
    for query in vectors(100, seed=77):
        run(connection, "BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        run(connection, "SET LOCAL pagehop.scan_order = relaxed_order; SET LOCAL pagehop.slack = 0")
        run(connection, "SET LOCAL pagehop.search_list = 10")
        run(connection, f"DECLARE nearest CURSOR FOR SELECT id FROM items ORDER BY embedding <-> '{query}'")
        try:
            assert len(run(connection, "FETCH 1 FROM nearest")) == 1
        except errors.IndexCorrupted:
            run(connection, "ROLLBACK")
        else:
            return
    pytest.fail("every search reads the damaged page")
