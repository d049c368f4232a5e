"""The servers' counters of writes to their logs, by their own names if they have any."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from devserver import DevServerError
from pagehop_lab.suites.log_writes.records import PagesRecord

# Counters of PostgreSQL, with the first version that has each; later ones win.
_POSTGRES_OWN = (
    (9, "wal_lsn", "SELECT pg_xlog_location_diff(pg_current_xlog_insert_location(), '0/0')"),
    (10, "wal_lsn", "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"),
    (14, "pg_stat_wal wal_bytes", "SELECT wal_bytes FROM pg_stat_wal"),
)
_COUNTED_FROM = 18
_POSTGRES_IO = {
    "pg_stat_io wal write_bytes": "sum(write_bytes) FILTER (WHERE object = 'wal')",
    "pg_stat_io wal init write_bytes": "sum(write_bytes) FILTER (WHERE object = 'wal' AND context = 'init')",
    "pg_stat_io wal writes": "sum(writes) FILTER (WHERE object = 'wal')",
    "pg_stat_io wal fsyncs": "sum(fsyncs) FILTER (WHERE object = 'wal')",
    "pg_stat_io data bytes": "sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)) FILTER (WHERE object <> 'wal')",
}
_INNODB_OWN = (
    "Innodb_lsn_current", "Innodb_os_log_written", "Innodb_os_log_fsyncs", "Innodb_log_writes", "Innodb_data_written",
    "Binlog_bytes_written", "Binlog_group_commits", "Binlog_commits", "Innodb_pages_written", "Innodb_page_size",
    "Innodb_dblwr_pages_written", "Innodb_dblwr_writes", "Innodb_data_writes", "Innodb_data_fsyncs",
)  # fmt: skip
# Pages of tables and indexes by the process that wrote them: of 16 and later, and of older ones.
_POSTGRES_PAGES = """SELECT backend_type, sum(writes) FROM pg_stat_io
WHERE object = 'relation' GROUP BY backend_type HAVING sum(writes) > 0"""
_POSTGRES_PAGES_OLD = "SELECT buffers_checkpoint, buffers_clean, buffers_backend FROM pg_stat_bgwriter"
_WRITERS_OLD = ("checkpointer", "background writer", "client backend")
_PAGES_FROM, _IMAGES_FROM = 16, 14
_WRITTEN_BY = "pages written by "
POSTGRES_PAGE_BYTES = 8192
# Counts that MySQL has nowhere else.
_MYSQL_FILES = """SELECT COUNT_WRITE, COUNT_MISC FROM performance_schema.file_summary_by_event_name
WHERE EVENT_NAME = 'wait/io/file/sql/binlog'"""
# 5.6 has no counter of the log's position.
_LSN = r"Log sequence number\s+(\d+)"


# For each log: its growth, bytes written, writes, syncs.
COUNTERS: Mapping[str, Mapping[str, tuple[str, str | None, str | None, str | None]]] = {
    "postgres": {
        "wal": ("wal_lsn", "pg_stat_io wal write_bytes", "pg_stat_io wal writes", "pg_stat_io wal fsyncs"),
    },
    "mariadb": {
        "redo": ("Innodb_lsn_current", None, "Innodb_log_writes", "Innodb_os_log_fsyncs"),
        "binlog": ("Binlog_bytes_written", None, "Binlog_group_commits", "Binlog_group_commits"),
    },
    "mysql": {
        "redo": ("log sequence number", None, "Innodb_log_writes", "Innodb_os_log_fsyncs"),
        "binlog": ("binary logs bytes", None, "binlog COUNT_WRITE", "binlog COUNT_MISC"),
    },
}


def product_of(server: Any) -> str:
    """Whose names a server has."""
    program = getattr(server, "program", None)
    return "postgres" if program is None else str(program.product)


def of_data(own: Mapping[str, float]) -> str | None:
    """The counter of bytes of data, not of logs."""
    return next((name for name in ("pg_stat_io data bytes", "data bytes") if name in own), None)


def counters(server: Any) -> dict[str, float]:
    """A server's counters of its writes, by its own names if it has any."""
    if product_of(server) == "postgres":
        major = server.server.major
        known = {name: query for since, name, query in _POSTGRES_OWN if major >= since}
        own = {name: float(server.execute(query)[0][0] or 0) for name, query in known.items()}
        if major >= _COUNTED_FROM:
            (values,) = server.execute(f"SELECT {', '.join(_POSTGRES_IO.values())} FROM pg_stat_io")
            own |= {name: float(value or 0) for name, value in zip(_POSTGRES_IO, values, strict=True)}
        return own | _postgres_pages(server, major)
    listed = ", ".join(f"'{name}'" for name in _INNODB_OWN)
    told = server.execute(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed})")
    own = {name: float(value) for name, value in told}
    if product_of(server) == "mysql":
        ((writes, syncs),) = server.execute(_MYSQL_FILES)
        own |= {"binlog COUNT_WRITE": float(writes), "binlog COUNT_MISC": float(syncs)}
        own["log sequence number"] = float(re.findall(_LSN, server.execute("SHOW ENGINE INNODB STATUS")[0][2])[0])
        with contextlib.suppress(DevServerError):
            own["binary logs bytes"] = float(sum(one[1] for one in server.execute("SHOW BINARY LOGS")))
    page_bytes = own.pop("Innodb_page_size", 0.0)
    # Each page goes to the doublewrite buffer, too.
    for name, pages in (("page bytes", "Innodb_pages_written"), ("doubled bytes", "Innodb_dblwr_pages_written")):
        own[name] = own.get(pages, 0) * page_bytes
    own["data bytes"] = own["page bytes"] + own["doubled bytes"]
    return own


def _postgres_pages(server: Any, major: int) -> dict[str, float]:
    """Pages written by each kind of process, and page images in the log."""
    if major >= _PAGES_FROM:
        told = {str(who): float(pages) for who, pages in server.execute(_POSTGRES_PAGES)}
    else:
        told = dict(zip(_WRITERS_OLD, map(float, server.execute(_POSTGRES_PAGES_OLD)[0]), strict=True))
    own = {f"{_WRITTEN_BY}{who}": pages for who, pages in told.items()}
    if major >= _IMAGES_FROM:
        own["wal_fpi"] = float(server.execute("SELECT wal_fpi FROM pg_stat_wal")[0][0])
    return own


def written_back(own: Mapping[str, float]) -> PagesRecord:
    """Of counters that grew: bytes of pages that were written to their files, and by which process.

    `doubled` are those that InnoDB wrote to its doublewrite buffer before; `images` are
    PostgreSQL's pages in the log. What a server does not count is None.
    """
    if "page bytes" in own:
        writes = own.get("Innodb_data_writes")
        return {
            "bytes": int(own["page bytes"]), "by": {}, "doubled_bytes": int(own["doubled bytes"]),
            "doubled_writes": _whole(own.get("Innodb_dblwr_writes")), "images": None,
            "bytes_per_write": own["Innodb_data_written"] / writes if writes else None,
        }  # fmt: skip
    by = {
        name.removeprefix(_WRITTEN_BY): int(pages)
        for name, pages in own.items()
        if name.startswith(_WRITTEN_BY) and pages
    }
    return {
        "bytes": sum(by.values()) * POSTGRES_PAGE_BYTES, "by": by, "doubled_bytes": 0, "doubled_writes": None,
        "images": _whole(own.get("wal_fpi")), "bytes_per_write": None,
    }  # fmt: skip


def _whole(figure: float | None) -> int | None:
    return None if figure is None else int(figure)
