"""Plans of what storage costs: point reads of data larger than memory, and writes of logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product as every
from typing import Any

from pagehop_lab.analysis.log_writes import log_cases
from pagehop_lab.analysis.oltp import Case
from pagehop_lab.analysis.point_reads import TIMES_MIN, read_cases
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.model import OptionValue
from pagehop_lab.plan.tables import PlanError, Table, choose, listed

Options = tuple[tuple[str, OptionValue], ...]

_TEXT_BYTES = 64


@dataclass(frozen=True)
class PointLoad(ServersLoad):
    """Reads by key."""

    rows: int = 2_000_000
    row_bytes: int = 512
    """Of the text of a row, half of which repeats the other."""
    sessions: tuple[int, ...] = (8, 16, 32, 40)
    read_ahead_kib: tuple[int, ...] = (0, 128)
    memory_mib: int = 128
    """All that a server may hold, the kernel's cache of its files included."""
    seconds: float = 3.0
    repeats: int = 1
    settle_max_s: float = 30.0


@dataclass(frozen=True)
class LogLoad(ServersLoad):
    """Commits."""

    rows: int = 0
    sessions: tuple[int, ...] = (1, 8)
    commit_bytes: tuple[int, ...] = (100, 1000, 4000, 16000)
    """Of the row that a commit inserts."""
    seconds: float = 3.0
    repeats: int = 1


LOADS: Mapping[str, ServersLoad] = {"point-reads": PointLoad(), "log-writes": LogLoad()}
PRODUCTS: Mapping[str, tuple[str, ...]] = {
    "point-reads": ("postgres", "mariadb", "mysql", "lmdb", "rocksdb", "sqlite", "duckdb"),
    "log-writes": ("postgres", "mariadb", "mysql"),
}
EMBEDDED = ("lmdb", "rocksdb", "sqlite", "duckdb")

_PAGES = (4096, 8192, 16384, 32768, 65536)
_INNODB: Mapping[str, tuple[OptionValue, ...]] = {"page_bytes": _PAGES, "access": ("buffered", "direct")}
_READ_OPTIONS: Mapping[str, Mapping[str, tuple[OptionValue, ...]]] = {
    "postgres": {"page_bytes": (8192,), "access": ("buffered", "direct")},
    "mariadb": _INNODB,
    "mysql": _INNODB,
    "lmdb": {"page_bytes": (4096,), "access": ("mmap",)},
    "rocksdb": {
        "page_bytes": _PAGES, "access": ("buffered", "direct", "mmap"), "compression": ("none", "lz4", "zstd"),
    },
    "sqlite": {"page_bytes": _PAGES, "access": ("buffered", "mmap")},
    "duckdb": {
        "page_bytes": (262144, 16384, 32768, 65536, 131072), "access": ("buffered",), "compression": ("none", "auto"),
    },
}  # fmt: skip
_SECTORS = (512, 4096)
_LOG_OPTIONS: Mapping[str, Mapping[str, tuple[OptionValue, ...]]] = {
    "postgres": {"sync": ("fdatasync", "fsync", "open_datasync", "open_sync"), "sector_bytes": _SECTORS},
    "mariadb": {"sync": ("buffered", "direct", "dsync"), "sector_bytes": _SECTORS, "binlog": (False, True)},
    "mysql": {"sync": ("buffered", "dsync"), "sector_bytes": _SECTORS, "binlog": (False, True)},
}
_KNOWN = {"point-reads": _READ_OPTIONS, "log-writes": _LOG_OPTIONS}


def read_load(table: Table, suite: str) -> ServersLoad:
    """The `[load]` of one of these suites."""
    known: Any = LOADS[suite]
    common: dict[str, Any] = {
        "sessions": table.take_list("sessions", int, known.sessions, least=1),
        "seconds": table.take("seconds", float, known.seconds, least=0.2),
        "repeats": table.take("repeats", int, known.repeats, least=1),
        "load_timeout_s": table.take("load_timeout_s", float, known.load_timeout_s, least=1),
    }
    if isinstance(known, LogLoad):
        commit_bytes = table.take_list("commit_bytes", int, known.commit_bytes, least=1)
        table.refuse_unknown()
        return LogLoad(**common, commit_bytes=commit_bytes)
    assert isinstance(known, PointLoad)
    load = PointLoad(
        **common,
        rows=table.take("rows", int, known.rows, least=1000),
        row_bytes=table.take("row_bytes", int, known.row_bytes, least=_TEXT_BYTES),
        read_ahead_kib=table.take_list("read_ahead_kib", int, known.read_ahead_kib, least=0),
        memory_mib=table.take("memory_mib", int, known.memory_mib, least=32),
        settle_max_s=table.take("settle_max_s", float, known.settle_max_s, least=1),
    )
    table.refuse_unknown()
    if load.row_bytes % _TEXT_BYTES:
        raise PlanError(f"{table.at('row_bytes')} = {load.row_bytes}: a multiple of {_TEXT_BYTES} is needed")
    data, memory = load.rows * load.row_bytes, load.memory_mib << 20
    if data < TIMES_MIN * memory:
        rows = int(TIMES_MIN * memory / load.row_bytes) + 1
        raise PlanError(
            f"{table.at('rows')} = {load.rows}: that is {data / memory:.1f} times memory_mib, and {TIMES_MIN:g} is the "
            f"least: {rows} rows, or less memory"
        )
    return load


def cases(load: ServersLoad) -> tuple[Case, ...]:
    """What is measured of each server."""
    if isinstance(load, PointLoad):
        return read_cases(load.sessions, load.read_ahead_kib)
    assert isinstance(load, LogLoad)
    return log_cases(load.commit_bytes, load.sessions)


def combinations(table: Table, suite: str, product: str) -> list[Options]:
    """Every combination of the options of a server; what is not named is the first of its values."""
    known = _KNOWN[suite][product]
    given: list[Sequence[tuple[str, OptionValue]]] = []
    for name, values in known.items():
        wanted = table.take_any(name)
        chosen = values[:1] if wanted is None else listed(table.at(name), wanted, type(values[0]))
        for value in chosen:
            choose(table.at(name), str(value), [str(one) for one in values])
        if wanted is not None or len(values) > 1:
            given.append([(name, value) for value in chosen])
    table.refuse_unknown()
    return [tuple(one) for one in every(*given)]


def usual_options(product: str) -> dict[str, OptionValue]:
    """What a store has that is not told otherwise."""
    return {name: values[0] for name, values in _READ_OPTIONS[product].items()}


def needed_bytes_each(load: ServersLoad) -> int:
    """Room on disk that one server's data take: with half as much again of the rows, for what is around them."""
    if isinstance(load, PointLoad):
        return _EMPTY_BYTES + 3 * load.rows * (load.row_bytes + _ROW_BYTES) // 2
    assert isinstance(load, LogLoad)
    # Of the table and of up to two logs.
    return _EMPTY_BYTES + int(3 * len(cases(load)) * load.seconds * _LOG_BYTES_PER_S)


# A new server, and a log of 256 MiB in up to two files.
_EMPTY_BYTES = 900 << 20
_ROW_BYTES = 60
_LOG_BYTES_PER_S = 16 << 20
