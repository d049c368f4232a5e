"""Plans of point reads: rows, memory, and the options of servers and stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pagehop_lab.plan.choices import Known
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.model import OptionValue
from pagehop_lab.suites.point_reads.cases import SELECT

TEXT_BYTES = 64
EMBEDDED = ("lmdb", "rocksdb", "sqlite", "duckdb")
# A new server, and a log of 256 MiB in up to two files.
_EMPTY_BYTES = 900 << 20
_ROW_BYTES = 60


@dataclass(frozen=True)
class PointLoad(ServersLoad):
    """Reads by key."""

    in_cases: ClassVar = ServersLoad.in_cases | {"more_memory_mib", "statements"}
    later: ClassVar = frozenset({"rounds"})
    rows: int = 2_000_000
    row_bytes: int = 512
    """Bytes of the text of a row; its halves are equal."""
    sessions: tuple[int, ...] = (8, 16, 32, 40)
    read_ahead_kib: tuple[int, ...] = (0, 128)
    memory_mib: int = 128
    """Most memory of a server in MiB, the kernel's cache of its files included."""
    more_memory_mib: tuple[int, ...] = ()
    """Other limits to measure with; the server's own cache changes by the same amount."""
    statements: tuple[str, ...] = (SELECT,)
    seconds: float = 3.0
    repeats: int = 1
    settle_max_s: float = 30.0


_PAGES = (4096, 8192, 16384, 32768, 65536)
_INNODB: Known = {"page_bytes": _PAGES, "access": ("buffered", "direct")}
OPTIONS: Mapping[str, Known] = {
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


HAVE_HANDLER = ("mariadb", "mysql")


def usual_options(product: str) -> dict[str, OptionValue]:
    """The default options of a store."""
    return {name: values[0] for name, values in OPTIONS[product].items()}


def needed_bytes_each(load: ServersLoad) -> int:
    """Disk space for one server's data: the rows, and half as much again for overhead."""
    assert isinstance(load, PointLoad)
    return _EMPTY_BYTES + 3 * load.rows * (load.row_bytes + _ROW_BYTES) // 2
