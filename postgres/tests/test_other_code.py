"""The extension beside other code in C: pins that it leaves to it, and errors that come from it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from devserver import Server
from tests.items import QUERIES, Connect, explain, number, only_by_index, run
from tests.test_inspect import check
from tests.test_scans import ROWS, filled, last_scan
from tests.test_snapshots import compiled

CODE = """
#include "postgres.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_state.h"
#endif
#include "fmgr.h"
#include "storage/buf_internals.h"
#include "utils/rel.h"
#include "utils/relcache.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(pinned);

/* pinned(relation regclass): the number of its pages that any backend has pinned */
Datum
pinned(PG_FUNCTION_ARGS)
{
    Relation    relation = RelationIdGetRelation(PG_GETARG_OID(0));
    int         count = 0;

    for (int at = 0; at < NBuffers; at++)
    {
        BufferDesc *buffer = GetBufferDescriptor(at);

        if (BufTagGetRelNumber(&buffer->tag) == relation->rd_locator.relNumber &&
            BUF_STATE_GET_REFCOUNT(pg_atomic_read_u32(&buffer->state)) > 0)
            count++;
    }
    RelationClose(relation);
    PG_RETURN_INT32(count);
}

#if PG_VERSION_NUM >= 180000
static void
refuse(PlanState *state, List *ancestors, const char *relationship, const char *name, ExplainState *es)
{
    elog(ERROR, "this node is not explained");
}
#endif

PG_FUNCTION_INFO_V1(refuse_nodes);

/* refuse_nodes(): makes EXPLAIN fail at each node */
Datum
refuse_nodes(PG_FUNCTION_ARGS)
{
#if PG_VERSION_NUM >= 180000
    explain_per_node_hook = refuse;
#endif
    PG_RETURN_VOID();
}
"""


@pytest.fixture
def connection(server: Server, connect: Connect) -> Iterator[psycopg.Connection]:
    """A session with the functions above, which has not used the extension yet."""
    with compiled(server, CODE) as library:
        maker = connect()
        filled(maker)
        functions = ["pinned(regclass) RETURNS int", "refuse_nodes() RETURNS void"]
        for function in functions:
            name = function.split("(")[0]
            run(maker, f"CREATE FUNCTION {function} AS '{library}', '{name}' LANGUAGE c STRICT")
        maker.close()
        yield connect()


@pytest.mark.parametrize("ahead", ["on", "off"])
def test_a_cursor_that_rests_has_no_page_pinned(connection: psycopg.Connection, connect: Connect, ahead: str) -> None:
    """VACUUM waits for pins of others on pages that it cleans up."""
    run(connection, f"SET pagehop.read_ahead = {ahead}")
    watcher = connect()
    pinned = "SELECT pinned('{}'::regclass)"
    with only_by_index(connection):
        run(connection, f"DECLARE near CURSOR FOR SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}'")
        for count in [1, 30, 300]:
            assert len(run(connection, f"FETCH {count} FROM near")) == count
            assert number(watcher, pinned.format("items_embedding")) == 0
            # The executor keeps the page of the row that it returned last.
            assert number(watcher, pinned.format("items")) <= 1
    assert number(watcher, pinned.format("items")) == 0


def test_an_error_of_another_hook_of_explain_leaves_the_session_as_it_was(
    server: Server, connection: psycopg.Connection
) -> None:
    """The extension's hook calls the one that was there before it, and C errors pass through."""
    if server.major < 18:
        pytest.skip("PostgreSQL 17 has no such hook")
    nearest = f"SELECT id FROM items ORDER BY embedding <-> '{QUERIES[0]}' LIMIT 10"
    run(connection, "SELECT refuse_nodes()")
    run(connection, "LOAD 'pagehop'")
    for _ in range(20):
        with pytest.raises(errors.InternalError, match="this node is not explained"):
            explain(connection, nearest, "ANALYZE")
    with only_by_index(connection):
        assert len(run(connection, nearest)) == 10
    assert last_scan(connection)["rows"] >= 10
    assert check(connection)["nodes"] == ROWS
