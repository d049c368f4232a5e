"""The fields of raw files of servers that several suites share.

Every field has its unit in its name, or a line that says it. All may be absent, as in `records.py`:
each suite reports what it measures, and raw files of older labs lack the later fields. A suite with
fields of its own has them in `records.py` of its folder, in a record that extends one of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy.typing as npt

from pagehop_lab.analysis.records import Disturbed, MemoryLimit, Profiled


class ServerRecord(TypedDict, total=False):
    """A server that a run found."""

    version: str
    settings: Mapping[str, str]
    """The configuration by the names of that version."""


class Costs(TypedDict, total=False):
    """The cost of a query, or of a row where nothing is asked.

    A figure is None if the server's processes are not known.
    """

    server_cpu_us_per_query: float | None
    server_switches_per_query: float | None
    """Context switches of the server's processes."""
    bytes_read_per_query: float | None
    """Bytes that storage delivered."""
    bytes_written_per_query: float | None
    """Bytes that the server's processes marked to be written to storage."""
    storage_reads_per_query: float | None
    """Reads of 4 KiB from storage. None, too, where no state of caches was declared."""
    other_busy_cores: float | None
    """Cores that other work on the machine kept busy."""


class DiskReads(TypedDict):
    """The reads of a disk that only one server uses."""

    reads: int
    """Number of requests."""
    bytes: int
    reads_per_query: float
    bytes_per_read: float | None
    """None, as the next one, if there was no request."""
    ms_per_read: float | None
    busy_share: float
    """Share of the time in which the disk had a request."""
    in_flight: float
    """Mean number of requests."""


class Turn(TypedDict):
    """A turn of a server that is asked in turns with others."""

    qps: float
    server_cpu_us_per_query: float | None


class CaseRecord(Costs, Disturbed, Profiled, total=False):
    """A test of a server, once: what its verdict and the tables of all suites use."""

    measured_with: str
    """The token of the servers that were held at once."""
    errors: int
    """Number of queries that failed."""
    count: int
    """Number of queries, or of rows where nothing is asked."""
    elapsed_s: float
    qps: float
    """Queries a second, or rows where nothing is asked."""
    client_cpu_us_per_query: float
    client_share_of_machine: float
    """CPU of all clients, as a share of all cores."""
    client_share_of_core: float
    """Share of a core for which the busiest client was busy. Older files lack it."""
    busy_cores: float
    """Cores that all work on the machine kept busy."""
    clock_jump_s: float
    """Seconds by which the clock was set during the measurement."""
    slowed: float
    """Share of the time in which the server was stopped on purpose."""
    doubled: float
    """Share of the events that were executed twice on purpose."""
    arrays: Mapping[str, npt.NDArray[Any]]
    """What clients wrote down. In a raw file this is the name of the file that has it."""

    memory: MemoryLimit
    times_memory: float
    """Size of the data, over the memory that may hold them."""
    expects_reads: bool
    """Whether a query of data larger than memory has to read from storage."""
    disk: DiskReads | None
    settled: bool
    """Whether the rates, or the server after writes, came to rest."""
    settle_s: float
    unsettled: str
    """What a server left undone after writes."""

    index_used: bool
    plan: str
    """The server's plans of the queries."""
    rows_short_count: int
    """Number of answers with fewer rows than asked for."""
    rows_again_count: int
    """Number of inserted rows whose vectors the table had before."""
    rows_gone_count: int
    """Number of rows in answers that had been deleted before."""
    recall: float
    """Share of the true neighbors that was found."""
    write_target: float
    """Rows a second that a schedule asks for; 0 for none."""
    rows_per_s: float
    """Inserted rows."""
    latency_ms: Mapping[str, float]
    """`p50`, `p95`, `p99` and `max` of the queries."""

    together: str
    """A token of the servers that were asked in turns with this one."""
    rounds: Sequence[Turn]

    cpu_us: float | None
    """CPU microseconds of the server for a row, by the name that aims have for it."""
    log_bytes: float
    """Bytes of log for a row."""


class OltpRecord(CaseRecord, total=False):
    """A test of sysbench."""

    events: int
    """Number of transactions."""
    lines: Mapping[str, Sequence[tuple[float, int, int]]]
    """The reports of each thread: seconds, and the number of events and of queries so far."""


class StepRecord(CaseRecord, total=False):
    """A step with inserts, with queries, or with both."""

    deleted_per_s: float
    """Deleted rows."""
    deadlocks_count: int
    """Number of commits that the server rolled back, and that were repeated."""
    commit_ms: Mapping[str, float]
    """`p50`, `p95`, `p99` and `max` of the commits."""
    per_second: Mapping[str, Sequence[int]]
    """The amount of work in each second, of `inserted` rows and of queries that were `asked`."""
    rows_per_answer: float
    """Mean number of rows."""


class LoadedRecord(TypedDict, total=False):
    """The preparations of a server before its tests."""

    measured_with: str
    """The token of the servers that were held at once."""
    load_s: float
    data_bytes: int
    """Size of all data afterwards."""
    rows: int
    rows_different: int
    """Number of rows of the set that are different."""
    load_rows_per_s: float
    load_client_share: float
    """CPU of the client, as a share of all cores."""
    index_s: float
    """Seconds of all CREATE INDEX."""
    index_seconds: Mapping[str, float]
    """The same for each index."""
    index_bytes: int
    ceiling: OltpRecord
    """What the client reaches if the server does almost nothing."""
    file_system: str
    """Where the data are, in words."""
    places: Mapping[str, str]
    """Where each log is, in words."""
    client_us: float | None
    """CPU microseconds of the client for a query, where client and store are one process."""


UNKNOWN: Costs = {
    "server_cpu_us_per_query": None,
    "server_switches_per_query": None,
    "bytes_read_per_query": None,
    "bytes_written_per_query": None,
    "storage_reads_per_query": None,
    "other_busy_cores": None,
}
"""The costs of a server whose processes are not known."""


def number(raw: Mapping[str, object], name: str) -> float:
    """The figure of a record that has a name from a plan, such as that of an aim."""
    found = raw[name]
    assert isinstance(found, int | float), f"{name} is not a number"
    return found


def number_if_any(raw: Mapping[str, object], name: str) -> float | None:
    """The same, or None if the record lacks it."""
    return None if raw.get(name) is None else number(raw, name)
