"""Whether a scan that is asked for a recall has it: `./dev bench recall`, in PostgreSQL."""

from __future__ import annotations

import numpy as np
import psycopg

from devserver import DEFAULT, install, install_extension
from pagehop_bench import truth
from pagehop_bench.postgres.servers import memory_for, running
from pagehop_bench.report import Report
from pagehop_bench.settings import RECALLS, Float32, Int64, Task, accuracy, share_of

MANY = 100
"""Rows that are asked for beside ten."""
MANY_QUERIES = 1000
"""Queries that ask for so many: each of them counts a hundred rows."""


def run(report: Report, task: Task) -> None:
    """After the build, and when 30% of the rows were updated: calibrated again, before VACUUM and after."""
    server = install(DEFAULT)
    install_extension(server)
    with running(server, **memory_for(task.base)) as server_running:
        connection = server_running.connection
        connection.execute(f"CREATE TABLE items (id int PRIMARY KEY, embedding vector({task.base.shape[1]}))")
        fill(connection, "items", np.arange(len(task.base)), task.base)
        connection.execute("CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
        connection.execute("SET enable_seqscan = off")
        for recall in RECALLS:
            accuracy(report, task, "PostgreSQL, built", recall, found(connection, task.queries, task.before, recall))
        many = task.queries[:MANY_QUERIES]
        right = truth.compute(task.base, many, MANY).ids
        for recall in RECALLS:
            accuracy(report, task, f"PostgreSQL, LIMIT {MANY}", recall, found(connection, many, right, recall))
        connection.execute("ALTER TABLE items SET (autovacuum_enabled = off)")
        connection.execute("CREATE TEMP TABLE others (LIKE items)")
        fill(connection, "others", task.replaced, task.more)
        connection.execute("UPDATE items SET embedding = others.embedding FROM others WHERE items.id = others.id")
        for when, first in {"30% replaced, before VACUUM": None, "30% replaced": "VACUUM items"}.items():
            if first is not None:
                connection.execute(first)
            connection.execute("SELECT count(*) FROM pagehop_calibrate('items_embedding')")
            for recall in RECALLS:
                share = found(connection, task.queries, task.after, recall)
                accuracy(report, task, f"PostgreSQL, {when}", recall, share)


def fill(connection: psycopg.Connection, table: str, ids: Int64, vectors: Float32) -> None:
    """Rows of a table."""
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for number, vector in zip(ids, vectors, strict=True):
            copy.write_row((int(number), text(vector)))


def found(connection: psycopg.Connection, queries: Float32, right: Int64, recall: float) -> float:
    """Share of the true neighbors that scans find."""
    connection.execute(f"SET pagehop.recall = {recall}")
    answers = np.full(right.shape, -1)
    ask = f"SELECT id FROM items ORDER BY embedding <-> %s::vector LIMIT {right.shape[1]}"
    for answer, query in zip(answers, queries, strict=True):
        ids = [row[0] for row in connection.execute(ask, [text(query)])]
        answer[: len(ids)] = ids
    return share_of(answers, right)


def text(vector: Float32) -> str:
    """A vector as pgvector reads it."""
    return str(vector.tolist())
