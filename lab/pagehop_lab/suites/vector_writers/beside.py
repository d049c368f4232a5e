"""Writers beside something else: autovacuum of dead rows, and searches on a schedule."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from pagehop_lab.measure.crew import Crew, Job, Look
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.steps import Float64, percentiles, raw_of_spent
from pagehop_lab.suites.vector_writers import clients
from pagehop_lab.suites.vector_writers.clients import TABLE
from pagehop_lab.suites.vector_writers.measure import Asked, between, refuse_few, writers, written
from pagehop_lab.suites.vector_writers.records import WritersRecord

_COMING_S = 30.0
# With fewer searches there is no 99th percentile.
_SEARCHES_MIN = 200


def vacuum(asked: Asked, count: int) -> WritersRecord:
    """Rows a second while autovacuum works on dead rows, and the rates shortly before and after."""
    load, server = asked.load, asked.server
    parts = round(1 / load.dead_share)
    with server.connection() as connection:
        connection.execute(f"DELETE FROM {TABLE} WHERE id % {parts} = 0")
        connection.execute("CHECKPOINT")
        state = _Vacuum(connection)
        try:
            with Crew(writers(asked, count, None)) as crew:
                before = Look(asked.pid, crew.pids)
                crew.begin()
                crew.wait(load.seconds, crew.is_any_done)
                server.autovacuum(True)
                connection.execute(
                    f"ALTER TABLE {TABLE} SET (autovacuum_enabled = true, autovacuum_vacuum_scale_factor = 0.05, "
                    "autovacuum_vacuum_insert_threshold = -1)"
                )
                crew.wait(_COMING_S, state.works)
                if not state.works():
                    raise MeasureError(f"autovacuum did not begin in {_COMING_S:g} s")
                begun_s = time.monotonic()
                crew.wait(load.vacuum_seconds, lambda: crew.is_any_done() or not state.works())
                end_s, is_over = time.monotonic(), not state.works()
                server.autovacuum(False)
                crew.wait(load.seconds, crew.is_any_done)
                after = Look(asked.pid, crew.pids)
                refuse_few(crew, asked, after.at_s - before.at_s)
                times = crew.stop()
        finally:
            server.autovacuum(False)
    spent = after.since(before)
    stop_s = spent.begun_s + spent.elapsed_s
    stretches = (spent.begun_s, spent.begun_s + load.seconds), (begun_s, end_s), (end_s, stop_s)
    first, beside, last = (_rate(times, *one) for one in stretches)
    return written(spent, between(times, spent.begun_s, stop_s)) | {
        "rows_before_per_s": first,
        "rows_beside_per_s": beside,
        "rows_after_per_s": last if is_over else None,
        "vacuum_s": end_s - begun_s,
        "vacuum_ended": is_over,
        "vacuum_share": beside / first,
    }


def _rate(times: list[Float64], begun_s: float, end_s: float) -> float:
    return len(between(times, begun_s, end_s)) / (end_s - begun_s)


@dataclass(frozen=True)
class _Vacuum:
    """Autovacuum, as the server tells of it."""

    connection: Any

    def works(self) -> bool:
        """Whether autovacuum works on the table at this moment."""
        asked = f"SELECT 1 FROM pg_stat_progress_vacuum WHERE relid = '{TABLE}'::regclass"
        return bool(self.connection.execute(asked).fetchall())


def search(asked: Asked, count: int) -> WritersRecord:
    """Searches on a schedule: alone, and beside writers at a share of their full rate.

    The full rate is measured in between.
    """
    load, server = asked.load, asked.server
    searcher = Job(clients.search, (asked.place, load.search_rate))
    index_used = server.is_index_used(asked.supply.dataset.queries[0], load.k)
    with Crew([searcher]) as crew:
        crew.begin()
        crew.wait(load.search_seconds)
        (idle,) = crew.stop()
    full = _full_rate(asked, count)
    server.begin_step()
    target = full * load.write_share
    with Crew([searcher, *writers(asked, count, None, target)]) as crew:
        before = Look(asked.pid, crew.pids)
        crew.begin()
        crew.wait(load.search_seconds, crew.is_any_done)
        after = Look(asked.pid, crew.pids)
        beside, *times = crew.stop()
    spent = after.since(before)
    rows = between(times, spent.begun_s, spent.begun_s + spent.elapsed_s)
    said: WritersRecord = {
        **WritersRecord(),
        **raw_of_spent(spent, len(beside)),
        "storage_reads_per_query": None,
        "rows_full_per_s": full,
        "write_target": target,
        "rows_per_s": len(rows) / spent.elapsed_s,
        "index_used": index_used,
    }
    return said | latencies(idle, beside) | {"arrays": {"idle": idle, "beside": beside}}


def latencies(idle: Float64, beside: Float64) -> WritersRecord:
    """Latencies of searches, from when they were due and from when they were sent.

    The second leaves out how late they were sent.
    """
    if min(len(idle), len(beside)) < _SEARCHES_MIN:
        raise MeasureError(
            f"{min(len(idle), len(beside))} searches have no 99th percentile: plan more search_seconds, or a higher "
            "search_rate"
        )
    due = [percentiles((one[:, 2] - one[:, 0]) * 1e3) for one in (idle, beside)]
    sent = [percentiles((one[:, 2] - one[:, 1]) * 1e3) for one in (idle, beside)]
    return {
        "idle_ms": due[0], "latency_ms": due[1], "idle_sent_ms": sent[0], "sent_ms": sent[1],
        "search_p50_ms": due[1]["p50"], "search_p99_ms": due[1]["p99"],
        "p50_over_idle": due[1]["p50"] / due[0]["p50"], "p99_over_idle": due[1]["p99"] / due[0]["p99"],
    }  # fmt: skip


def _full_rate(asked: Asked, count: int) -> float:
    """Rows a second of a number of writers at full speed."""
    with Crew(writers(asked, count, None)) as crew:
        begun_s = time.monotonic()
        crew.begin()
        crew.wait(asked.load.seconds, crew.is_any_done)
        end_s = time.monotonic()
        refuse_few(crew, asked, end_s - begun_s)
        return _rate(crew.stop(), begun_s, end_s)
