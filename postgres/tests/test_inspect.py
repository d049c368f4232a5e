"""The functions that describe an index: pagehop_info returns counts, pagehop_check reads every
page.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.rows import dict_row

from devserver import Cluster
from tests.items import DIM, Connect, create, fill, number, run, value, vectors


def ask(connection: psycopg.Connection, function: str, index: str = "items_embedding") -> dict[str, Any]:
    """The row of pagehop_info or pagehop_check."""
    with connection.cursor(row_factory=dict_row) as cursor:
        query = sql.SQL("SELECT * FROM {}(%s::regclass)").format(sql.Identifier(function))
        row = cursor.execute(query, [index]).fetchone()
    assert row is not None
    return row


def check(connection: psycopg.Connection, index: str = "items_embedding") -> dict[str, Any]:
    """The row of pagehop_check. Fails unless it agrees with pagehop_info, and unless anchors lead
    to every node.
    """
    report, info = ask(connection, "pagehop_check", index), ask(connection, "pagehop_info", index)
    for count in ["pages", "nodes", "dead_nodes", "free_slots"]:
        assert report[count] == info[count], (count, report, info)
    assert report["nodes"] == report["reachable"] == report["anchored"], report
    return report


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_index_says_what_it_is(connect: Connect, when: str) -> None:
    connection = connect()
    if when == "before":
        create(connection, "vector_cosine_ops")
    else:
        run(connection, f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({DIM}))")
    fill(connection, vectors(900, seed=1))
    fill(connection, vectors(100, seed=2), first=900)
    if when == "after":
        run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_cosine_ops)")
    info = ask(connection, "pagehop_info")
    size = number(connection, "SELECT pg_relation_size('items_embedding')")
    assert (info["format_version"], info["metric"], info["dim"]) == (16, "cosine", DIM)
    assert (info["nodes"], info["dead_nodes"], info["deleted_rows"]) == (1000, 0, 0)
    assert (info["bytes"], info["pages"]) == (size, size // 8192)
    assert info["trained_rows"] + info["added_rows"] == 1000
    assert (info["added_rows"] == 0) == (when == "after")
    assert info["max_degree"] >= 16
    assert info["nodes_per_page"] >= 1
    assert info["edge_bits"] >= 1
    report = check(connection)
    assert (report["nodes"], report["stale_edges"]) == (1000, 0)
    assert report["edges"] > 1000


def test_an_empty_index_has_a_meta_page(connect: Connect) -> None:
    connection = connect()
    create(connection)
    info = ask(connection, "pagehop_info")
    assert (info["metric"], info["nodes"], info["pages"], info["trained_rows"]) == ("l2", 0, 1, 0)
    assert check(connection)["nodes"] == 0


def test_the_dead_are_counted_until_they_are_gone(connect: Connect) -> None:
    connection = connect()
    create(connection, "halfvec_ip_ops", "halfvec")
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off)")
    fill(connection, vectors(600, seed=1))
    before = ask(connection, "pagehop_info")
    assert before["metric"] == "ip"
    run(connection, "DELETE FROM items WHERE id % 3 = 0")
    assert check(connection)["nodes"] == 600
    run(connection, "VACUUM items")
    report = check(connection)
    assert (report["nodes"], report["dead_nodes"]) == (400, 0)
    assert ask(connection, "pagehop_info")["trained_rows"] == before["trained_rows"]
    assert report["free_slots"] >= 200


def test_what_is_no_index_of_ours_is_refused(connect: Connect) -> None:
    connection = connect()
    create(connection)
    run(connection, "CREATE INDEX ON items (note)")
    run(connection, f"CREATE TABLE parts (id int, embedding vector({DIM})) PARTITION BY HASH (id)")
    run(connection, "CREATE INDEX parts_embedding ON parts USING pagehop (embedding vector_l2_ops)")
    for function in ["pagehop_info", "pagehop_check"]:
        for other in ["items", "items_note_idx"]:
            with pytest.raises(errors.WrongObjectType, match=f'"{other}" is not a pagehop index'):
                ask(connection, function, other)
        with pytest.raises(errors.WrongObjectType, match='index "parts_embedding" is partitioned') as caught:
            ask(connection, function, "parts_embedding")
        assert "pg_partition_tree" in (caught.value.diag.message_hint or "")
        with pytest.raises(errors.WrongObjectType, match='"77777777" is not a pagehop index'):
            run(connection, f"SELECT {function}(77777777)")
        assert value(connection, f"SELECT {function}(NULL)") is None


def test_a_partition_can_be_asked(connect: Connect) -> None:
    connection = connect()
    run(connection, f"CREATE TABLE items (id int, embedding vector({DIM})) PARTITION BY HASH (id)")
    for part in range(2):
        run(connection, f"CREATE TABLE part_{part} PARTITION OF items FOR VALUES WITH (MODULUS 2, REMAINDER {part})")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    fill(connection, vectors(300, seed=1))
    tree = run(connection, "SELECT relid::regclass::text FROM pg_partition_tree('items_embedding') WHERE isleaf")
    assert sum(check(connection, str(index))["nodes"] for (index,) in tree) == 300


def test_a_temporary_index_belongs_to_its_session(connect: Connect) -> None:
    mine, other = connect(), connect()
    run(mine, f"CREATE TEMP TABLE items (id int, embedding vector({DIM}))")
    run(mine, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    fill(mine, vectors(100, seed=1))
    assert check(mine)["nodes"] == 100
    name = number(mine, "SELECT 'items_embedding'::regclass::oid::int8")
    for function in ["pagehop_info", "pagehop_check"]:
        with pytest.raises(errors.FeatureNotSupported, match="of another session"):
            run(other, f"SELECT {function}({name})")


def test_rights_to_read_and_to_maintain_are_needed(connect: Connect, database: str) -> None:
    connection = connect()
    create(connection)
    someone = f"someone_{database}"
    run(connection, f"CREATE ROLE {someone}")
    try:
        run(connection, f"SET ROLE {someone}")
        with pytest.raises(errors.InsufficientPrivilege, match="permission denied for table items"):
            ask(connection, "pagehop_info")
        run(connection, f"RESET ROLE; GRANT SELECT ON items TO {someone}; SET ROLE {someone}")
        assert ask(connection, "pagehop_info")["nodes"] == 0
        run(connection, f"RESET ROLE; GRANT EXECUTE ON FUNCTION pagehop_check TO {someone}; SET ROLE {someone}")
        with pytest.raises(errors.InsufficientPrivilege, match="permission denied for table items"):
            ask(connection, "pagehop_check")
        run(connection, f"RESET ROLE; GRANT MAINTAIN ON items TO {someone}; SET ROLE {someone}")
        assert ask(connection, "pagehop_check")["nodes"] == 0
        run(connection, f"RESET ROLE; REVOKE EXECUTE ON FUNCTION pagehop_check FROM {someone}; SET ROLE {someone}")
        with pytest.raises(errors.InsufficientPrivilege, match="permission denied for function pagehop_check"):
            ask(connection, "pagehop_check")
    finally:
        run(connection, f"RESET ROLE; DROP OWNED BY {someone}; DROP ROLE {someone}")


def test_rows_can_be_added_after_a_check_in_the_same_transaction(connect: Connect) -> None:
    checker, writer = connect(), connect()
    create(checker)
    fill(checker, vectors(200, seed=1))
    with checker.transaction():
        assert ask(checker, "pagehop_check")["nodes"] == 200
        # The check released its lock at once, not at the end of the transaction.
        fill(writer, vectors(10, seed=2), first=200)
        assert ask(checker, "pagehop_check")["nodes"] == 210


def test_a_check_agrees_with_itself_while_rows_come_and_go(connect: Connect) -> None:
    """If writers did not wait for the check, its counts would disagree."""
    checker, writer = connect(), connect()
    create(checker)
    fill(checker, vectors(1500, seed=1))
    done = threading.Event()
    checks = 0

    def write() -> None:
        for round_ in range(400):
            # On a loaded machine, the checks take longer than the rounds.
            if round_ >= 40 and checks > 3:
                break
            fill(writer, vectors(25, seed=round_ + 2), first=2000 + 100 * round_)
            run(writer, f"DELETE FROM items WHERE id % 40 = {round_}")
            run(writer, "VACUUM items")
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not done.is_set() and thread.is_alive():
        report = ask(checker, "pagehop_check")
        assert report["nodes"] == report["reachable"] == report["anchored"], report
        checks += 1
    thread.join()
    assert done.is_set()
    assert checks > 3


def test_a_check_can_be_canceled(connect: Connect) -> None:
    connection = connect()
    create(connection)
    fill(connection, vectors(2000, seed=1))
    # Long enough for RESET on a loaded machine.
    run(connection, "SET statement_timeout = 500")
    with pytest.raises(errors.QueryCanceled):
        run(connection, "SELECT pagehop_check('items_embedding') FROM generate_series(1, 1000000)")
    run(connection, "RESET statement_timeout")
    assert check(connection)["nodes"] == 2000


def test_an_index_whose_build_failed_is_refused(connect: Connect) -> None:
    connection = connect()
    run(connection, f"CREATE TABLE items (id int, embedding vector({DIM}))")
    fill(connection, vectors(50, seed=1))
    run(
        connection,
        "CREATE FUNCTION broken(v vector) RETURNS vector IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RAISE $$no$$; END'",
    )
    with pytest.raises(errors.RaiseException):
        run(
            connection,
            "CREATE INDEX CONCURRENTLY items_embedding ON items USING pagehop "
            f"((broken(embedding)::vector({DIM})) vector_l2_ops)",
        )
    for function in ["pagehop_info", "pagehop_check"]:
        with pytest.raises(errors.ObjectNotInPrerequisiteState, match='index "items_embedding" is not valid'):
            ask(connection, function)


def test_sql_in_hints_can_be_run(connect: Connect) -> None:
    connection = connect()
    hints: list[str] = []
    connection.add_notice_handler(lambda notice: hints.append(notice.message_hint or ""))
    run(connection, "CREATE SCHEMA other; SET search_path = other, public")
    create(connection)
    run(connection, 'ALTER INDEX items_embedding RENAME TO "Item\'s"')
    run(connection, "ALTER TABLE items SET (autovacuum_enabled = off); SET enable_seqscan = off")
    fill(connection, vectors(999, seed=1))
    fill(connection, vectors(1, seed=2), first=999)
    statement = ""
    for path, name, recall in [("other, public", "'\"Item''s\"'", 0.9), ("public", "'other.\"Item''s\"'", 0.95)]:
        run(connection, f"SET search_path = {path}; SET pagehop.recall = {recall}")
        run(connection, f"SELECT id FROM other.items ORDER BY embedding <-> '{vectors(1, seed=3)[0]}' LIMIT 10")
        statement = f"SELECT pagehop_calibrate({name});"
        assert hints == [f"The next VACUUM calibrates it. {statement} does so now."]
        hints.clear()
    run(connection, statement)
    # The functions have a search path of their own.
    fill(connection, vectors(600, seed=4), first=1000, table="other.items")
    run(connection, "SELECT pagehop_recall('other.\"Item''s\"')")
    [hint] = hints
    assert hint.startswith(f"{statement.removesuffix(';')} measures again")
    run(connection, hint.split(" measures")[0])
    run(connection, f"CREATE TABLE other.parts (id int, embedding vector({DIM})) PARTITION BY HASH (id)")
    run(connection, 'CREATE INDEX "Parts" ON other.parts USING pagehop (embedding vector_l2_ops)')
    with pytest.raises(errors.WrongObjectType) as caught:
        ask(connection, "pagehop_info", 'other."Parts"')
    run(connection, "CREATE TABLE other.part PARTITION OF other.parts FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
    statement = (caught.value.diag.message_hint or "").partition(": ")[2].removesuffix(" lists them.")
    assert "'other.\"Parts\"'" in statement
    assert len(run(connection, statement)) == 1


def test_a_damaged_page_is_named(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(autovacuum=False, fsync=False, ignore_checksum_failure=True)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        fill(connection, vectors(1000, seed=1))
        run(connection, "CHECKPOINT")
        path = str(value(connection, "SELECT pg_relation_filepath('items_embedding')"))
        pages = ask(connection, "pagehop_info")["pages"]
    cluster.stop()
    damage(cluster.data / path, page=pages - 1)
    cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        with pytest.raises(
            errors.IndexCorrupted, match=f'index "items_embedding" is corrupt at block {pages - 1}'
        ) as e:
            ask(connection, "pagehop_check")
        assert "REINDEX INDEX public.items_embedding;" in (e.value.diag.message_hint or "")
        run(connection, "CREATE SCHEMA other; ALTER TABLE items SET SCHEMA other")
        run(connection, 'ALTER INDEX other.items_embedding RENAME TO "Items_Emb"')
        with pytest.raises(errors.IndexCorrupted, match='index "Items_Emb" is corrupt') as e:
            ask(connection, "pagehop_check", 'other."Items_Emb"')
        [statement] = re.findall("REINDEX.*;", e.value.diag.message_hint or "")
        assert statement == 'REINDEX INDEX other."Items_Emb";'
        run(connection, statement)
        run(connection, 'SET search_path = other, public; ALTER INDEX "Items_Emb" RENAME TO items_embedding')
        assert check(connection)["nodes"] == 1000


def damage(file: Path, page: int) -> None:
    """Sets the kind of a page, the byte after PostgreSQL's header, to one that does not exist."""
    with file.open("r+b") as pages:
        pages.seek(page * 8192 + 24)
        pages.write(b"\xff")


def test_a_replica_can_be_asked(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(autovacuum=False, fsync=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        run(connection, f"CREATE UNLOGGED TABLE passing (id int, embedding vector({DIM}))")
        run(connection, "CREATE INDEX passing_embedding ON passing USING pagehop (embedding vector_l2_ops)")
        fill(connection, vectors(300, seed=1))
        replica = cluster.basebackup()
        replica.start()
        fill(connection, vectors(300, seed=2), first=300)
        run(connection, "DELETE FROM items WHERE id < 200")
        run(connection, "VACUUM items")
        # The commit of this row sends the vacuum's records to the replica.
        fill(connection, vectors(1, seed=3), first=600)
        cluster.wait_for_replay(replica)
        with psycopg.connect(replica.dsn(), autocommit=True) as other:
            assert check(other) == check(connection)
            with pytest.raises(errors.FeatureNotSupported, match="during recovery"):
                ask(other, "pagehop_check", "passing_embedding")
    replica.remove()
