"""Bad input: the error names it and says what to do, and the server continues to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import psycopg
import pytest

from devserver import Cluster
from tests.items import (
    QUERIES,
    Connect,
    by_index,
    create,
    everything,
    explain,
    fill,
    only_by_index,
    recall,
    run,
    value,
    vectors,
)


@pytest.fixture
def connection(connect: Connect) -> psycopg.Connection:
    """Connects to a database with a table that has columns of every type and no index."""
    made = connect()
    run(
        made,
        """CREATE TABLE items (id int PRIMARY KEY, embedding vector(24), other vector(24),
        untyped vector, half halfvec(24), wide vector(5000), sparse sparsevec(24), bits bit(24))""",
    )
    return made


@pytest.mark.parametrize(
    ("columns", "message", "hint"),
    [
        ("(untyped vector_l2_ops)", "column does not have dimensions", "vector(n)"),
        ("(wide vector_l2_ops)", "column cannot have more than 4096 dimensions for pagehop index", None),
        ("(embedding)", "no default operator class", "operator class"),
        ("(embedding halfvec_l2_ops)", 'operator class "halfvec_l2_ops" does not accept data type vector', None),
        ("(half vector_l2_ops)", 'operator class "vector_l2_ops" does not accept data type halfvec', None),
        ("(id vector_l2_ops)", "does not accept data type integer", None),
        ("(sparse)", "no default operator class", None),
        ("(bits)", "no default operator class", None),
        ("(embedding vector_l1_ops)", 'operator class "vector_l1_ops" does not exist', None),
        (
            "(embedding vector_l2_ops, other vector_l2_ops)",
            "column 2 of the index cannot be a filter column",
            "int2, int4",
        ),
        ("(embedding vector_l2_ops) INCLUDE (id)", "does not support included columns", None),
        ("(embedding vector_l2_ops DESC)", "does not support ASC/DESC options", None),
        ("(embedding vector_l2_ops) WITH (m = 16)", 'unrecognized parameter "m"', "only storage parameter is recall"),
        ("(embedding vector_l2_ops) WITH (fillfactor = 70)", 'unrecognized parameter "fillfactor"', "is recall"),
        ("(embedding vector_l2_ops) WITH (recall = 0.9, m = 16)", 'unrecognized parameter "m"', "is recall"),
        ("(embedding vector_l2_ops) WITH (recall = 1)", 'value 1 out of bounds for option "recall"', None),
        ("(embedding vector_l2_ops) WITH (recall = -0.5)", 'value -0.5 out of bounds for option "recall"', None),
        ("(embedding vector_l2_ops) WITH (recall = 'NaN')", 'invalid value for floating point option "recall"', None),
        ("(embedding vector_l2_ops) WITH (recall = much)", 'invalid value for floating point option "recall"', None),
    ],
)
def test_an_index_that_cannot_be_made_is_refused(
    connection: psycopg.Connection, columns: str, message: str, hint: str | None
) -> None:
    with pytest.raises(psycopg.Error) as raised:
        run(connection, f"CREATE INDEX items_embedding ON items USING pagehop {columns}")
    assert message in str(raised.value)
    assert (hint or "") in (raised.value.diag.message_hint or "")
    assert value(connection, "SELECT to_regclass('items_embedding')") is None


def test_neither_unique_nor_clustering_indexes_can_be_made(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="does not support unique indexes"):
        run(connection, "CREATE UNIQUE INDEX ON items USING pagehop (embedding vector_l2_ops)")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="does not support clustering"):
        run(connection, "CLUSTER items USING items_embedding")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match='unrecognized parameter "ef_construction"'):
        run(connection, "ALTER INDEX items_embedding SET (ef_construction = 64)")


def test_rows_of_another_dimension_stop_a_build(connection: psycopg.Connection) -> None:
    run(connection, "INSERT INTO items (id, untyped) VALUES (1, '[1,2,3]'), (2, '[1,2]')")
    with pytest.raises(psycopg.errors.DataException, match="expected 3 dimensions, not 2"):
        run(connection, "CREATE INDEX items_embedding ON items USING pagehop ((untyped::vector(3)) vector_l2_ops)")
    run(connection, "DELETE FROM items WHERE id = 2")
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop ((untyped::vector(3)) vector_l2_ops)")
    with pytest.raises(psycopg.errors.DataException, match="expected 3 dimensions, not 4"):
        run(connection, "INSERT INTO items (id, untyped) VALUES (3, '[1,2,3,4]')")
    run(connection, "INSERT INTO items (id, untyped) VALUES (3, '[1,2,4]')")
    assert by_index(connection, "[1,2,4]", column="(untyped::vector(3))") == [3, 1]


def test_a_query_of_another_dimension_is_an_error(connect: Connect) -> None:
    connection = connect()
    create(connection)
    for rows in [0, 500]:
        fill(connection, vectors(rows, seed=1))
        with only_by_index(connection):
            ordered = "SELECT id FROM items ORDER BY embedding <-> '[1,2]' LIMIT 3"
            assert "items_embedding" in explain(connection, ordered)
            with pytest.raises(psycopg.errors.DataException) as raised, connection.transaction():
                run(connection, ordered)
            assert "different vector dimensions 24 and 2" in str(raised.value)
            assert raised.value.diag.message_hint == 'Index "items_embedding" has vectors of 24 dimensions.'
        assert len(by_index(connection, QUERIES[0])) == min(rows, 10)


def test_the_wrong_operator_does_not_use_the_index(connect: Connect) -> None:
    connection = connect()
    create(connection)
    fill(connection, vectors(500, seed=1))
    for operator in ["<=>", "<#>", "<+>"]:
        with only_by_index(connection):
            ordered = f"SELECT id FROM items ORDER BY embedding {operator} '{QUERIES[0]}' LIMIT 10"
            plan = explain(connection, ordered)
            assert "items_embedding" not in plan, plan
            assert len(run(connection, ordered)) == 10


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("pagehop.search_list = -1", "outside the valid range"),
        ("pagehop.search_list = 100001", r"outside the valid range for parameter .* \(0 \.\. 100000\)"),
        ("pagehop.search_list = 'many'", "invalid value for parameter"),
        ("pagehop.slack = -2", r"outside the valid range for parameter .* \(-1 \.\. Infinity\)"),
        ("pagehop.slack = 'nan'", "invalid value for parameter"),
        ("pagehop.beam_width = 65", r"outside the valid range for parameter .* \(0 \.\. 64\)"),
        ("pagehop.scan_order = none", 'invalid value for parameter "pagehop.scan_order": "none"'),
        ("pagehop.recall = 1.01", r"outside the valid range for parameter .* \(0 \.\. 1\)"),
        ("pagehop.ef_search = 40", 'invalid configuration parameter name "pagehop.ef_search"'),
    ],
)
def test_a_wrong_setting_is_refused(connect: Connect, setting: str, message: str) -> None:
    connection = connect()
    create(connection)
    with pytest.raises(psycopg.Error, match=message):
        run(connection, f"SET {setting}")


def test_a_setting_made_before_the_library_is_loaded_is_checked_then(connect: Connect) -> None:
    create(connect())
    connection, said = connect(), list[str]()
    connection.add_notice_handler(lambda notice: said.append(f"{notice.severity}: {notice.message_primary}"))
    run(connection, "SET pagehop.ef_search = 9; SET pagehop.search_list = -7; SET pagehop.beam_width = 4")
    assert said == []
    by_index(connection, QUERIES[0])
    assert 'WARNING: invalid configuration parameter name "pagehop.ef_search", removing it' in said
    assert any(said_line.startswith("WARNING: -7 is outside the valid range") for said_line in said), said
    assert value(connection, "SHOW pagehop.search_list") == "0"
    assert value(connection, "SHOW pagehop.beam_width") == "4"


@pytest.mark.parametrize(
    "setting",
    [
        "slack = 'inf'",
        "slack = 1e300",
        "slack = 0",
        "search_list = 1",
        "search_list = 100000",
        "beam_width = 1",
        "beam_width = 64",
        "max_scan_pages = 2147483647",
        "scan_mem_multiplier = 1000",
        "read_ahead = auto",
        "read_ahead = on",
        "read_ahead = off",
    ],
)
def test_extreme_settings_give_rows_in_order(connect: Connect, setting: str) -> None:
    connection = connect()
    create(connection)
    fill(connection, vectors(700, seed=1))
    run(connection, f"SET pagehop.{setting}")
    for limit in [1, 10, 11, 100]:
        assert len(by_index(connection, QUERIES[0], limit)) == limit


@pytest.mark.parametrize("setting", ["max_scan_pages = 1", "scan_mem_multiplier = 0.000001"])
def test_the_lowest_limit_of_a_scan_leaves_its_first_row(connect: Connect, setting: str) -> None:
    """Limits are checked between rows, so a scan returns at least one."""
    connection = connect()
    create(connection)
    fill(connection, vectors(700, seed=1))
    for limit in [1, 10, 100]:
        # A scan keeps its buffers for the next scan of the session, and they count as its memory.
        session = connect()
        run(session, f"SET pagehop.{setting}")
        assert len(by_index(session, QUERIES[0], limit)) == 1
        ended_by = value(session, "SELECT ended_by FROM pagehop_last_scan()")
        assert limit == 1 or ended_by == setting.partition(" ")[0]


def test_zero_vectors_have_no_place_under_cosine_alone(connect: Connect) -> None:
    zero = "[" + ",".join(["0"] * 24) + "]"
    for operators, operator, placed in [
        ("vector_l2_ops", "<->", 3),
        ("vector_ip_ops", "<#>", 3),
        ("vector_cosine_ops", "<=>", 0),
    ]:
        connection = connect()
        create(connection, operators)
        fill(connection, [zero, zero, zero])
        assert everything(connection, operator) == list(range(placed))
        fill(connection, vectors(300, seed=1), first=10)
        assert recall(connection, operator=operator) > 0.95
        # Under cosine, a query without a direction has no distances: any order is right, and the
        # scan still returns rows.
        with only_by_index(connection):
            ordered = f"SELECT id FROM items ORDER BY embedding {operator} '{zero}' LIMIT 10"
            assert "Index Scan using items_embedding" in explain(connection, ordered)
            assert len({row[0] for row in run(connection, ordered)}) == 10
        run(connection, "DROP TABLE items")


def test_vectors_too_long_for_floats_are_refused(connect: Connect) -> None:
    long = "[" + ",".join(["3e38"] * 24) + "]"
    connection = connect()
    create(connection)
    fill(connection, vectors(100, seed=1))
    with pytest.raises(psycopg.Error, match="too large for 32-bit floats"):
        run(connection, f"INSERT INTO items (id, embedding) VALUES (1000, '{long}')")
    with only_by_index(connection), pytest.raises(psycopg.Error, match="too large for 32-bit floats"):
        run(connection, f"SELECT id FROM items ORDER BY embedding <-> '{long}' LIMIT 1")
    assert everything(connection) == list(range(100))


def test_tiny_vectors_are_vectors(connect: Connect) -> None:
    connection = connect()
    create(connection)
    fill(connection, ["[" + ",".join([f"{at}e-30"] * 24) + "]" for at in range(300)])
    assert everything(connection) == list(range(300))
    fill(connection, vectors(300, seed=1), first=1000)
    assert everything(connection) == [*range(300), *range(1000, 1300)]
    assert recall(connection) > 0.95


def test_hundreds_of_equal_vectors_hide_no_row(connect: Connect) -> None:
    connection = connect()
    create(connection)
    fill(connection, ["[" + ",".join(["0"] * 24) + "]"] * 300)
    fill(connection, vectors(300, seed=1), first=1000)
    assert everything(connection) == [*range(300), *range(1000, 1300)]
    assert recall(connection) > 0.9
    run(connection, "REINDEX INDEX items_embedding")
    assert everything(connection) == [*range(300), *range(1000, 1300)]
    assert recall(connection) > 0.9


def damage(cluster: Cluster, path: str, blocks: Iterable[int], first: int, data: bytes) -> None:
    """Overwrites bytes of some blocks while the server is down."""
    cluster.stop()
    with (cluster.data / path).open("r+b") as file:
        for block in blocks:
            file.seek(block * 8192 + first)
            file.write(data)
    cluster.start()


def without_checksums(new_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster that does not detect damaged pages before the extension reads them. Its index has
    about 60 pages.
    """
    cluster = new_cluster(autovacuum=False, ignore_checksum_failure=True, zero_damaged_pages=False)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        create(connection)
        fill(connection, vectors(600, seed=1))
    return cluster


@pytest.mark.parametrize("what", ["zeros", "header", "body", "meta"])
def test_a_damaged_block_is_named_and_the_server_stays_up(new_cluster: Callable[..., Cluster], what: str) -> None:
    cluster = without_checksums(new_cluster)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        path = str(value(connection, "SELECT pg_relation_filepath('items_embedding')"))
        size = value(connection, "SELECT pg_relation_size('items_embedding') / 8192")
    assert isinstance(size, int)
    first, data = {
        "zeros": (0, bytes(8192)),
        "header": (24, b"\xff" * 64),
        "body": (24, b"\x5a" * 8168),
        "meta": (24, b"\xff" * 200),
    }[what]
    blocks = {"meta": range(1)}.get(what, range(size // 2, size))
    damage(cluster, path, blocks, first, data)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        said = r'index "items_embedding" (is corrupt at block \d+|cannot be read): '
        with pytest.raises(psycopg.errors.IndexCorrupted, match=said) as raised:
            everything(connection)
        assert str(raised.value.diag.message_hint).endswith(
            "REINDEX INDEX items_embedding; builds it again from the table."
        )
        run(connection, "DELETE FROM items WHERE id < 10")
        for change in [f"INSERT INTO items (id, embedding) VALUES (-1, '{QUERIES[0]}')", "VACUUM items"]:
            with pytest.raises(psycopg.errors.IndexCorrupted, match=said):
                run(connection, change)
        assert value(connection, "SELECT 1") == 1
        run(connection, "REINDEX INDEX items_embedding")
        run(connection, "VACUUM items")
        assert everything(connection) == list(range(10, 600))
        assert recall(connection) > 0.95
    assert "PANIC" not in cluster.log_text()
    assert "terminated by signal" not in cluster.log_text()


def test_an_index_of_a_newer_extension_is_refused(new_cluster: Callable[..., Cluster]) -> None:
    cluster = without_checksums(new_cluster)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        path = str(value(connection, "SELECT pg_relation_filepath('items_embedding')"))
    damage(cluster, path, [0], 24 + 8, (1000).to_bytes(4, "little"))
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.IndexCorrupted, match="has format version 1000; this build reads") as raised:
            everything(connection)
        assert "A newer extension may have made it: install that one, and connect again." in str(
            raised.value.diag.message_hint
        )
        with pytest.raises(psycopg.errors.IndexCorrupted):
            fill(connection, vectors(1, seed=2), first=1000)
        assert value(connection, "SELECT count(*) FROM items") == 600


def test_a_file_that_was_cut_short_is_an_error(new_cluster: Callable[..., Cluster]) -> None:
    cluster = without_checksums(new_cluster)
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        path = str(value(connection, "SELECT pg_relation_filepath('items_embedding')"))
    cluster.stop()
    with (cluster.data / path).open("r+b") as file:
        file.truncate(8192 * 8)
    cluster.start()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.IndexCorrupted, match='index "items_embedding" '):
            by_index(connection, QUERIES[0], 600)
        run(connection, "REINDEX INDEX items_embedding")
        assert everything(connection) == list(range(600))
