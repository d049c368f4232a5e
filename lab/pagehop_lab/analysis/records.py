"""The fields of raw files of engines: what a search, a build and a client's ceiling report.

Every field has its unit in its name. All may be absent: raw files of older labs lack the later
ones, a library reports other costs than a server, and tests make up what they need. The type
checker knows the names and the types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class Requests(TypedDict):
    """Requests of one kind to a disk, from the kernel's trace."""

    sizes: Mapping[str, int]
    """How many of each size in bytes, which is rounded down to a power of two."""
    random_share: float | None


class Traced(TypedDict):
    """All requests to a disk during a phase."""

    reads: Requests
    writes: Requests
    lost: int
    """Events that did not fit into the trace."""


class Disk(TypedDict, total=False):
    """The work of a disk during a phase, by the kernel's counters."""

    reads: int
    writes: int
    reads_per_s: float
    writes_per_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    bytes_per_read: float | None
    bytes_per_write: float | None
    ms_per_read: float | None
    ms_per_write: float | None
    read_share: float | None
    queue_depth: float
    """Mean number of requests in flight, over the whole phase."""
    queue_depth_busy: float | None
    """The same over the time with any."""
    busy_share: float
    requests: Traced
    untraced: str
    """Why there is no trace."""


class Phase(TypedDict):
    """A part of the work of an engine."""

    phase: str
    seconds: float
    cpu_s: float
    disk: Disk | None
    """None if the engine's folder is not on a disk."""


def last_disk(phases: Sequence[Phase] | None) -> Disk | None:
    """The work of the disk in the last phase, which is that of the queries; None if not known."""
    return phases[-1].get("disk") if phases else None


class MemoryLimit(TypedDict, total=False):
    """A limit of memory, and the most that was held within it."""

    mib: int
    peak_bytes: int | None
    anonymous_peak_bytes: int


class DiskCeiling(TypedDict):
    """What fio read just after searches from storage."""

    request_bytes: int
    depth: int
    reads_per_s: float


class Disturbed(TypedDict, total=False):
    """What the machine did to a measurement."""

    stolen_cores: float
    """Cores that the host of a virtual machine gave to others."""
    throttled_count: int | None
    """Number of times that heat slowed a processor; None if it is not counted."""


class Profiled(TypedDict, total=False):
    """Where the time of processes goes."""

    profile: Sequence[tuple[float, str, str]]
    """Percent of the samples, library and function, most first."""
    no_profile: str
    """Why there is none."""


class PlanOfQueries(TypedDict):
    """The server's plan, as the load generator found it."""

    text: str
    index_scan: bool
    """Whether an index returns rows in order."""
    indexes: Sequence[str]


class QueryFile(TypedDict):
    """The queries that the load generator sent."""

    file: str
    count: int
    """Number of queries."""
    dim: int
    param_type: str
    """The type of their parameter, by the server's name."""


class Blocks(TypedDict):
    """Blocks of the whole database, by the server's count."""

    read_per_query: float
    hit_per_query: float


class LoadgenRecord(TypedDict, total=False):
    """The report of the load generator: the fields that the lab reads. It has more."""

    server_version: str
    settings: Mapping[str, str]
    queries: QueryFile
    count: int
    """Number of requests that were answered."""
    qps: float
    elapsed_s: float
    errors: int
    """Number of requests that failed."""
    first_error: str | None
    unsent_count: int
    """Number of requests that were due and never sent."""
    interrupted: bool
    client_cpu_us_per_query: float | None
    server_cpu_us_per_query: float | None
    server_total_cpu_us_per_query: float | None
    """CPU of all of the server's processes."""
    server_switches_per_query: float | None
    other_busy_cores: float | None
    blocks: Blocks | None
    plan: PlanOfQueries


class EngineRecord(TypedDict):
    """An engine that a run found."""

    version: str
    python: str
    numpy: str
    """These are the versions in the engine's process."""


class PointRecord(Disturbed, Profiled, total=False):
    """A measurement of searches."""

    k: int
    sessions: int
    rate: float | None
    """Requests a second that were offered; None in a closed loop."""
    cache: str
    exact_by_design: bool
    measured_with: str
    search: Mapping[str, Any]
    """The options of the search, where several searches of an index are judged together."""

    count: int
    errors: int
    first_error: str | None
    unsent_count: int
    interrupted: bool
    elapsed_s: float
    qps: float
    latency_us: Mapping[str, float] | None
    """`mean`, `p50`, `p95`, `p99`, `max` and `stdev` over all requests."""
    queries_asked: int
    recall: Mapping[str, float] | None
    """`by_id`, `by_threshold` and `with_ties`."""
    recall_interval: Mapping[str, Sequence[float]] | None
    """The ends of their 95% confidence intervals."""
    rows_short_count: int
    rows_unknown_count: int
    rows_left_out_count: int
    answers_changed_count: int
    index_used: bool | None
    plan: str
    settings: Mapping[str, str]
    server_version: str

    client_share: float | None
    ceiling_qps: float
    client_cpu_us_per_query: float | None
    engine_cpu_us_per_query: float | None
    engine_total_cpu_us_per_query: float | None
    switches_per_query: float | None
    storage_reads_per_query: float | None
    bytes_read_per_query: float
    blocks_hit_per_query: float | None
    blocks_read_per_query: float | None
    memory_bytes: int | None
    memory_peak_bytes: int | None
    memory_limit: MemoryLimit
    scan_us_per_query: float | None
    work: Mapping[str, float] | None
    """The index's own counters, of a query."""
    first_ms: float
    phases: Sequence[Phase]
    disk_ceiling: DiskCeiling | None
    loadgen: LoadgenRecord
    """The report of the load generator as it is."""

    insert_rate: float
    inserted_per_s: float
    inserted_count: int

    waited: float | None
    other_busy_cores: float | None

    benchmark: str
    source: str
    recall_of: str
    """These three are of points that were measured elsewhere."""


class BuildRecord(TypedDict, total=False):
    """The cost of an index."""

    load_s: float | None
    build_s: float
    build_cpu_s: float | None
    index_bytes: int | None
    table_bytes: int | None
    memory_bytes: int
    cache_bytes: int | None
    memory_peak_bytes: int | None
    memory_limit: MemoryLimit
    bytes_read: int
    bytes_written: int
    disk_peak_bytes: int
    about: Mapping[str, str]
    phases: Sequence[Phase]
    measured_with: str


class CeilingRecord(TypedDict, total=False):
    """The rate of the client if the engine does almost nothing."""

    engine: str
    sessions: int
    statement: str | None
    qps: float
    client_cpu_us_per_query: float | None
