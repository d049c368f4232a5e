"""Plans of log writes: sizes of commits, and how a server makes its log safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pagehop_lab.plan.choices import Known
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.suites.log_writes.cases import LogCase, log_cases

# A new server, and a log of 256 MiB in up to two files.
_EMPTY_BYTES = 900 << 20
_LOG_BYTES_PER_S = 16 << 20


@dataclass(frozen=True)
class LogLoad(ServersLoad):
    """Commits."""

    rows: int = 0
    sessions: tuple[int, ...] = (1, 8)
    commit_bytes: tuple[int, ...] = (100, 1000, 4000, 16000)
    """Bytes of the row that a commit inserts."""
    seconds: float = 3.0
    repeats: int = 1
    write_back: bool = False
    """Whether counting continues until all changed pages are in their files."""

    later: ClassVar = ServersLoad.later | {"write_back"}


_SECTORS = (512, 4096)
OPTIONS: Mapping[str, Known] = {
    "postgres": {"sync": ("fdatasync", "fsync", "open_datasync", "open_sync"), "sector_bytes": _SECTORS},
    "mariadb": {"sync": ("buffered", "direct", "dsync"), "sector_bytes": _SECTORS, "binlog": (False, True)},
    "mysql": {"sync": ("buffered", "dsync"), "sector_bytes": _SECTORS, "binlog": (False, True)},
}


def cases(load: ServersLoad) -> tuple[LogCase, ...]:
    """The cases of each server."""
    assert isinstance(load, LogLoad)
    return log_cases(load.commit_bytes, load.sessions)


def needed_bytes_each(load: ServersLoad) -> int:
    """Disk space for one server: its table and up to two logs."""
    return _EMPTY_BYTES + int(3 * len(cases(load)) * load.seconds * _LOG_BYTES_PER_S)
