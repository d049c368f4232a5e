"""Installing the extension and updating it: both give the same objects."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from devserver import Cluster, Server
from devserver.extension import CRATE
from tests.items import QUERIES, Connect, by_index, by_scan, create, fill, run, value, vectors

CURRENT = re.findall(r"^default_version = '(.+)'$", (CRATE / "pagehop.control").read_text(), re.MULTILINE)[0]
RELEASED = [
    path.stem.split("--")[1] for path in sorted((CRATE / "sql").glob("pagehop--*.sql")) if path.stem.count("--") == 1
]
MADE_UP = "0.0.1"
ADDED_SINCE = re.compile(
    r"CREATE FUNCTION pagehop_last_scan\(.*?;\n|COMMENT ON FUNCTION pagehop_last_scan.*?;\n", re.DOTALL
)


@pytest.fixture
def made_up(server: Server) -> Iterator[str]:
    """A version that never existed: it lacks a function, which an update adds."""
    script = (CRATE / f"sql/pagehop--{CURRENT}.sql").read_text()
    files = {
        server.extension_folder / f"pagehop--{MADE_UP}.sql": ADDED_SINCE.sub("", script),
        server.extension_folder / f"pagehop--{MADE_UP}--{CURRENT}.sql": "".join(ADDED_SINCE.findall(script)),
    }
    for path, text in files.items():
        path.write_text(text)
    yield MADE_UP
    for path in files:
        path.unlink()


def objects(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    """All objects of the extension, each function with its definition and rights."""
    return run(
        connection,
        """SELECT pg_describe_object(classid, objid, 0),
                  CASE classid WHEN 'pg_proc'::regclass THEN pg_get_functiondef(objid) END,
                  (SELECT proacl::text FROM pg_proc
                   WHERE classid = 'pg_proc'::regclass AND oid = objid),
                  obj_description(objid, classid::regclass::name)
           FROM pg_depend
           WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
             AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pagehop')
           ORDER BY 1""",
    )


def test_an_update_brings_what_a_new_installation_has(connect: Connect, made_up: str) -> None:
    connection = connect()
    new = objects(connection)
    for version in [made_up, *(version for version in RELEASED if version != CURRENT)]:
        run(connection, f"DROP EXTENSION pagehop CASCADE; CREATE EXTENSION pagehop VERSION '{version}'")
        create(connection)
        fill(connection, vectors(600, seed=1))
        before = by_index(connection, QUERIES[0])
        assert version != made_up or objects(connection) != new, "the comparison does not detect the missing function"
        run(connection, "ALTER EXTENSION pagehop UPDATE")
        assert objects(connection) == new
        assert by_index(connection, QUERIES[0]) == before == by_scan(connection, QUERIES[0])
        run(connection, "SELECT pagehop_check('items_embedding'); DROP TABLE items")


def test_a_pgvector_that_is_too_old_is_named(connect: Connect) -> None:
    connection = connect()
    run(connection, "DROP EXTENSION pagehop")
    newer = value(connection, "SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    run(connection, "UPDATE pg_extension SET extversion = '0.6.2' WHERE extname = 'vector'")
    with pytest.raises(
        psycopg.errors.RaiseException, match=r"needs pgvector 0\.7 or newer, and here it is 0\.6\.2"
    ) as refused:
        run(connection, "CREATE EXTENSION pagehop")
    assert "ALTER EXTENSION vector UPDATE" in str(refused.value)
    run(connection, f"UPDATE pg_extension SET extversion = '{newer}' WHERE extname = 'vector'")
    run(connection, "CREATE EXTENSION pagehop")


def test_operators_of_others_are_not_run_by_the_installation(connect: Connect) -> None:
    """It is a superuser's, and its schema may be one in which others can make operators."""
    connection = connect()
    run(connection, "DROP EXTENSION pagehop; CREATE SCHEMA shared; CREATE TABLE calls (of text)")
    for name, left, right in [("=", "name", "text"), ("<", "int[]", "int[]")]:
        body = f"INSERT INTO public.calls VALUES ('{name}') RETURNING true"
        run(connection, f"CREATE FUNCTION shared.spy({left}, {right}) RETURNS bool LANGUAGE sql AS $$ {body} $$")
        arguments = f"LEFTARG = {left}, RIGHTARG = {right}"
        run(connection, f"CREATE OPERATOR shared.{name} (FUNCTION = shared.spy, {arguments})")
    run(connection, "CREATE EXTENSION pagehop SCHEMA shared")
    assert run(connection, "SELECT * FROM calls") == []


def test_a_session_loads_one_file_of_the_extension(connect: Connect, server: Server) -> None:
    other = server.library_folder / "pagehop_other.so"
    shutil.copy(server.library_folder / "pagehop.so", other)
    try:
        for first, second in [("pagehop", other.stem), (other.stem, "pagehop")]:
            connection = connect()
            # The setting is a placeholder until the library is loaded. This must not prevent the
            # loading.
            run(connection, f"SET pagehop.recall = 0.9; LOAD '$libdir/{first}'")
            with pytest.raises(
                psycopg.errors.ObjectNotInPrerequisiteState, match="loaded another file of the extension pagehop"
            ) as refused:
                run(connection, f"LOAD '$libdir/{second}'")
            assert "should name one file" in str(refused.value.diag.message_hint)
            assert value(connection, "SHOW pagehop.recall") == "0.9"
    finally:
        other.unlink()


def test_a_session_shows_the_version_that_it_has_loaded(connect: Connect, server: Server) -> None:
    if server.major < 18:
        pytest.skip("PostgreSQL shows versions of libraries since 18")
    connection = connect()
    run(connection, "LOAD 'pagehop'")
    modules = "SELECT module_name, version FROM pg_get_loaded_modules() WHERE file_name = 'pagehop.so'"
    assert run(connection, modules) == [("pagehop", CURRENT)]


def test_installcheck_passes(server: Server, cluster: Cluster, tmp_path: Path) -> None:
    url = psycopg.conninfo.conninfo_to_dict(cluster.url())
    where = {f"PG{name.upper()}": str(url[name]) for name in ["host", "port", "user", "password"]}
    make = ["make", "--no-print-directory", "-C", str(CRATE), "installcheck", f"PG_CONFIG={server.pg_config}"]
    done = subprocess.run(
        [*make, f"REGRESS_OUTPUT={tmp_path}"], env=os.environ | where, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
