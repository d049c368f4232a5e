"""Databases of other encodings than UTF-8, with names that are not ASCII."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from devserver import Cluster
from tests.items import run

VECTORS = [f"[{n},{n % 7},{n % 5}]" for n in range(200)]


@pytest.fixture(params=["LATIN1", "SQL_ASCII", "EUC_JP", "UTF8"])
def connection(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[psycopg.Connection]:
    """A session in a database of that encoding, whose messages come as UTF-8."""
    name = f"of_{request.param.lower()}"
    cluster.psql(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{request.param}' LOCALE 'C'")
    with psycopg.connect(cluster.dsn(name), autocommit=True, client_encoding="utf8") as connection:
        run(connection, "CREATE EXTENSION pagehop CASCADE")
        yield connection
    cluster.psql(f"DROP DATABASE {name} WITH (FORCE)")


def test_names_may_have_letters_of_the_encoding(connection: psycopg.Connection) -> None:
    [(encoding,)] = run(connection, "SHOW server_encoding")
    # Two names that differ in their last letter alone; EUC_JP has only such letters.
    one, other = ("大", "小") if encoding == "EUC_JP" else ("größe", "größä")
    run(connection, f'CREATE TABLE "{one}" (id int, e vector, "{one}" int, "{other}" text)')
    rows = ",".join(f"({n}, '{vector}', {n % 4}, 'x')" for n, vector in enumerate(VECTORS))
    run(connection, f'INSERT INTO "{one}" VALUES {rows}')
    run(connection, f'CREATE INDEX "{one}_e" ON "{one}" USING pagehop (e vector_l2_ops, "{one}", "{other}")')
    run(connection, "SET enable_seqscan = off; SET enable_sort = off")
    found = run(connection, f"""SELECT id FROM "{one}" WHERE "{one}" = 3 ORDER BY e <-> '[7,0,2]' LIMIT 1""")
    assert found == [(7,)]
    with pytest.raises(errors.DataException, match="different vector dimensions 3 and 2") as raised:
        run(connection, f"""INSERT INTO "{one}" VALUES (999, '[1,2]', 1, 'x')""")
    with pytest.raises(errors.WrongObjectType) as raised_too:
        run(connection, f"""SELECT * FROM pagehop_info('"{one}"')""")
    for said in [raised.value.diag.message_hint, raised_too.value.diag.message_primary]:
        assert said is not None
        assert one in said if encoding == "UTF8" else said.isascii() and re.search(r"[?]+", said), said
    for statement in [f'VACUUM "{one}"', f'REINDEX INDEX "{one}_e"']:
        run(connection, statement)
    run(connection, f"""SELECT * FROM pagehop_check('"{one}_e"')""")
