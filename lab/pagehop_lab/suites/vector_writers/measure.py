"""The steps that write: clients that commit each row, COPY, bytes of log, and recall afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pagehop_lab.analysis.recalls import recalls
from pagehop_lab.data.truth import neighbors
from pagehop_lab.measure.crew import Crew, Job, Look, of_this_process
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.steps import Float64, Spent, percentiles, raw_of_spent
from pagehop_lab.suites.vector_writers import clients
from pagehop_lab.suites.vector_writers.clients import Place, Searcher, Share
from pagehop_lab.suites.vector_writers.plan import WritersLoad
from pagehop_lab.suites.vector_writers.records import WritersRecord
from pagehop_lab.suites.vector_writers.servers import INDEX, WriterServer
from pagehop_lab.suites.vector_writers.vectors import Supply

# Work that a connection does only once is done before a step begins.
WARM_ROWS = 5


@dataclass(frozen=True)
class Asked:
    """A step of a server: its table was just copied."""

    server: WriterServer
    supply: Supply
    load: WritersLoad

    @property
    def place(self) -> Place:
        return self.server.place(self.supply.vectors, self.load.k)

    @property
    def pid(self) -> int:
        """The server's first process."""
        pid = self.server.pid
        assert pid is not None
        return pid


def writers(asked: Asked, count: int, rows: int | None, rate: float = 0.0) -> list[Job]:
    """Clients that insert the next `rows` of the set, or until they are stopped.

    `rate` is for all.
    """
    first = asked.load.rows
    end = asked.supply.count if rows is None else first + rows
    return [
        Job(clients.write, (asked.place, Share(first + at, end, count, rate / count, at / count, WARM_ROWS)))
        for at in range(count)
    ]


def write(asked: Asked, count: int, seconds: float, *, is_split: bool = False) -> WritersRecord:
    """Inserts at full speed for some seconds, one row a commit.

    The log counts from the checkpoint before.
    """
    start = asked.server.log_end()
    with Crew(writers(asked, count, None)) as crew:
        before = Look(asked.pid, crew.pids)
        crew.begin()
        crew.wait(seconds, crew.is_any_done)
        after = Look(asked.pid, crew.pids)
        refuse_few(crew, asked, after.at_s - before.at_s)
        times = crew.stop()
    spent, end = after.since(before), asked.server.log_end()
    # The log also has rows from before all writers began, and from after the last look.
    rows = sum(map(len, times)) + count * WARM_ROWS
    inserted = between(times, spent.begun_s, spent.begun_s + spent.elapsed_s)
    return written(spent, inserted) | log(asked, start, end, rows, is_split=is_split)


def write_rows(asked: Asked, count: int, rows: int) -> WritersRecord:
    """Inserts a number of rows at full speed, one a commit.

    The log counts from the checkpoint before.
    """
    start = asked.server.log_end()
    with Crew(writers(asked, count, rows)) as crew:
        before = Look(asked.pid, crew.pids)
        crew.begin()
        crew.wait(asked.load.load_timeout_s, crew.is_done)
        if not crew.is_done():
            raise MeasureError(f"{rows:,} rows were not inserted in {asked.load.load_timeout_s:g} s")
        after = Look(asked.pid, crew.pids)
        times = crew.stop()
    spent, end = after.since(before), asked.server.log_end()
    return written(spent, np.concatenate(times)) | log(asked, start, end, rows, is_split=True)


def copy(asked: Asked) -> WritersRecord:
    """One COPY into the indexed table, by one client: this process."""
    first, count = asked.load.rows, asked.load.copy_rows
    rows = asked.supply.vectors.open().rows(first, first + count)
    start = asked.server.log_end()
    with asked.server.connection() as connection:
        before = Look(asked.pid, of_this_process())
        asked.server.copy(connection, first, rows)
        spent = Look(asked.pid, of_this_process()).since(before)
    said: WritersRecord = {
        **WritersRecord(), **raw_of_spent(spent, count), "storage_reads_per_query": None,
        "rows_per_s": count / spent.elapsed_s,
    }  # fmt: skip
    return said | log(asked, start, asked.server.log_end(), count, is_split=False)


def recall(asked: Asked, count: int) -> WritersRecord:
    """Recall after many clients added rows, and after one build over these rows, by list."""
    load, server = asked.load, asked.server
    said = write_rows(asked, count, load.recall_rows)
    rows = load.rows + load.recall_rows
    base = asked.supply.vectors.open().rows(0, rows)
    queries = asked.supply.dataset.queries
    truth = neighbors(base, queries, "euclidean")

    def found(candidates: int) -> float:
        searcher = Searcher(server.place(asked.supply.vectors, load.k, candidates))
        answers = [searcher.ask(number) for number in range(len(queries))]
        if any(len(one) != load.k for one in answers):
            raise MeasureError(f"an answer has fewer than {load.k} rows, at a list of {candidates}")
        judged = recalls(np.asarray(answers), *truth, base, queries, "euclidean", load.k)
        return float(judged.with_ties.mean())

    after = [found(candidates) for candidates in load.recall_lists]
    with server.connection() as connection:
        connection.execute(f"DROP INDEX {INDEX}")
        index_s = server.index(connection)
    built = [found(candidates) for candidates in load.recall_lists]
    gains = [one - other for one, other in zip(after, built, strict=True)]
    return said | {
        "recall": after[0],
        "recall_after": after,
        "recall_built": built,
        "recall_gain": min(gains),
        "index_s": index_s,
        "index_used": server.is_index_used(queries[0], load.k),
    }


# ---- what a step says ----


def written(spent: Spent, inserted: Float64) -> WritersRecord:
    """Figures of the rows that were inserted within a time."""
    if not len(inserted):
        raise MeasureError("no row came")
    return {
        **WritersRecord(),
        **raw_of_spent(spent, len(inserted)),
        # A writer also reads old files of the log, and no state of caches was declared.
        "storage_reads_per_query": None,
        "rows_per_s": len(inserted) / spent.elapsed_s,
        "commit_ms": percentiles((inserted[:, 1] - inserted[:, 0]) * 1e3),
    }


def log(asked: Asked, start: str, end: str, rows: int, *, is_split: bool) -> WritersRecord:
    """Bytes of log per row, by kind."""
    found = asked.server.log_between(start, end, is_split)
    said: WritersRecord = {"log_bytes": found.bytes / rows, "log_rows": rows}
    if is_split:
        said |= {"log_record_bytes": found.record_bytes / rows, "log_image_bytes": found.image_bytes / rows}
    return said


def between(times: Sequence[Float64], begun_s: float, end_s: float) -> Float64:
    """The rows whose commit ended between two moments."""
    rows = np.concatenate(times)
    return np.asarray(rows[(rows[:, -1] >= begun_s) & (rows[:, -1] < end_s)])


def refuse_few(crew: Crew, asked: Asked, seconds: float) -> None:
    """MeasureError if the set has no rows left."""
    if crew.is_any_done():
        raise MeasureError(
            f"{asked.supply.dataset.facts.name} has {asked.supply.count:,} rows that are different, and they were all "
            f"inserted after {seconds:.0f} s: name a larger set, or plan fewer seconds"
        )
