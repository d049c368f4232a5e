"""`vector-inserts`: the cost of an index for writes, and of writes for queries and recall."""

from __future__ import annotations

import statistics

from pagehop_lab.suites import of_servers
from pagehop_lab.suites.inserts import tables as inserts
from pagehop_lab.suites.inserts.tables import chart, figure, latencies, of_dict
from pagehop_lab.suites.server_results import Measured, ServerResults
from pagehop_lab.suites.table import Cell, Section, Table, with_marks
from pagehop_lab.suites.vector_inserts.records import VectorStepRecord


def sections(results: ServerResults[VectorStepRecord]) -> list[Section]:
    """Tables of loading, writing, and queries beside writes."""
    tables = [
        inserts.relative(results),
        inserts.absolute(results),
        inserts.sustained(results),
        inserts.loads(results),
        inserts.writes(results),
        queries(results),
        inserts.seconds(results),
        of_servers.invalid(results),
        inserts.points(results),
    ]
    title = f"{results.load['dataset']}: a window of {results.load['rows']:,} rows"
    return [Section(title, with_marks([chart(results), latencies(results)]), tables)]


def queries(results: ServerResults[VectorStepRecord]) -> Table:
    """One client that queries at full speed, beside inserts and deletes at a fixed rate."""
    rows = []
    for server in results.names:
        rest = [one.qps for one in results.of(server, "qv0")]
        for step in results.groups:
            found = [one for one in results.of(server, step) if one.raw.get("write_target") is not None]
            if not found:
                continue
            middle = statistics.median(one.qps for one in found)
            rows.append([
                Cell(server), Cell(step), of_servers.valid_repeats(results, found),
                figure(found, lambda one: one.raw["rows_per_s"], ",.0f"),
                Cell.of(middle, ",.1f", file=found[0].file),
                Cell.of(round(middle / statistics.median(rest), 2) if rest else None, ".2f"),
                figure(found, lambda one: one.raw["recall"], ".4f"),
                *(figure(found, of_dict("latency_ms", name), ",.2f") for name in ("p50", "p95", "p99", "max")),
                figure(found, lambda one: one.raw.get("deadlocks_count"), ",.0f"),
                figure(found, _index_mb, ",.1f"),
                figure(found, lambda one: one.raw["client_share_of_machine"], ".1%"),
            ])  # fmt: skip
    columns = (
        "server", "step", "valid", "rows/s", "QPS", "of qv0", "recall@10", "p50 ms", "p95 ms", "p99 ms", "max ms",
        "deadlocks", "index MB", "clients' share",
    )  # fmt: skip
    note = (
        f"qvN: N rows a second are inserted, and as many deleted, {results.load['commit_rows']} in a commit. Recall is "
        "that of the same requests, over rows that existed from a request's start to its end. A step that wrote less "
        "than 95% is invalid. The size of the index is its size after the step. Figures are medians of the valid "
        "repeats, whose number is shown."
    )
    return Table("queries", "Asking beside writes", columns, rows, note)


def _index_mb(one: Measured[VectorStepRecord]) -> float | None:
    found = one.raw.get("index_bytes")
    return None if found is None else float(found) / 1e6
