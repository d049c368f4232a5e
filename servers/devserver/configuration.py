"""One configuration for every server: the size of its cache, when a commit is durable, and so on.

If a release lacks a requested setting, that is an error. No setting is ignored without a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from devserver.releases import ServerMissingError

Durability = Literal["commit", "second", "none"]
"""When a commit survives a crash of the machine: at once, after about a second, or never."""
DURABILITIES = ("commit", "second", "none")

Settings = dict[str, str]
Version = tuple[int, ...]

REDO_MIB = 1024
"""Size of InnoDB's redo log, all files together. The server creates them when it starts."""

_SYNC = {"commit": "on", "second": "off", "none": "off"}
_SYNCHRONOUS = {"commit": "full", "second": "normal", "none": "off"}
_FLUSH = {"commit": "1", "second": "2", "none": "0"}


@dataclass(frozen=True)
class Configuration:
    """The requested configuration of any server."""

    cache_mib: int = 256
    """Its own cache of pages."""
    durability: Durability = "second"
    page_bytes: int | None = None
    """The size of the server's pages; None for its default."""
    direct_io: bool = False
    """Whether the server reads and writes data past the kernel's cache."""

    def settings(self, product: str, version: str) -> Settings:
        """The settings of a release under its own names.

        ServerMissingError if it lacks a requested one.
        """
        numbers = tuple(int(part) for part in version.split(".")[:3])
        return _TRANSLATE[product](self, numbers)


def _postgres(wanted: Configuration, version: Version) -> Settings:
    named = f"postgres {'.'.join(map(str, version))}"
    if wanted.page_bytes not in (None, 8192):
        raise ServerMissingError(f"{named} was compiled with pages of 8192 bytes, not {wanted.page_bytes}")
    settings = {
        "shared_buffers": f"{wanted.cache_mib}MB",
        "synchronous_commit": _SYNC[wanted.durability],
        "fsync": "off" if wanted.durability == "none" else "on",
        "max_wal_size": "4GB",
        "checkpoint_timeout": "30min",
        # Background work would disturb one measurement and not the next.
        "autovacuum": "off",
        "max_connections": "60",
        "huge_pages": "off",
        # One process does the work of one statement: its cost is that of the statement.
        "max_parallel_workers_per_gather": "0",
        "listen_addresses": "",
    }
    if version >= (11,):
        settings["jit"] = "off"
    if wanted.direct_io:
        if version < (16,):
            raise ServerMissingError(f"{named} has no direct I/O: 16 is the first")
        settings["debug_io_direct"] = "data"
    return settings


def _innodb(wanted: Configuration) -> Settings:
    settings = {
        "innodb_buffer_pool_size": f"{wanted.cache_mib}M",
        "innodb_flush_log_at_trx_commit": _FLUSH[wanted.durability],
        "innodb_flush_method": "O_DIRECT" if wanted.direct_io else "fsync",
        "innodb_stats_persistent": "1",
        "max_connections": "60",
        # A new connection then runs on the core of the server's first thread, like a process of
        # PostgreSQL.
        "thread_cache_size": "0",
        # The default is on in MySQL, off in MariaDB.
        "performance_schema": "0",
        # Texts are bytes, as in PostgreSQL without a locale.
        "character_set_server": "latin1",
        "collation_server": "latin1_bin",
    }
    if wanted.page_bytes is not None:
        settings["innodb_page_size"] = str(wanted.page_bytes)
    return settings


def _mariadb(wanted: Configuration, version: Version) -> Settings:
    largest = 65536 if version >= (10, 1) else 16384
    _check_page("mariadb", wanted, version, largest)
    # Before 10.5 there are two files, which share the size.
    return _innodb(wanted) | {"innodb_log_file_size": f"{REDO_MIB if version >= (10, 5) else REDO_MIB // 2}M"}


def _mysql(wanted: Configuration, version: Version) -> Settings:
    _check_page("mysql", wanted, version, 65536 if version >= (5, 7) else 16384)
    settings = _innodb(wanted)
    if version >= (8, 0, 30):
        settings["innodb_redo_log_capacity"] = f"{REDO_MIB}M"
    else:
        settings["innodb_log_file_size"] = f"{REDO_MIB // 2}M"
    if version >= (8,):
        # MySQL's other protocol, which has a port of its own.
        settings["mysqlx"] = "0"
        # It is off by default in MariaDB and older MySQL.
        settings["disable_log_bin"] = "1"
    return settings


def _ferretdb(wanted: Configuration, version: Version) -> Settings:
    """Pragmas of the SQLite that stores the documents."""
    if wanted.direct_io:
        raise ServerMissingError(f"ferretdb {'.'.join(map(str, version))} has no direct I/O")
    # A negative value is in KiB, per connection.
    settings = {"cache_size": f"-{wanted.cache_mib << 10}", "synchronous": _SYNCHRONOUS[wanted.durability]}
    return settings if wanted.page_bytes is None else {"page_size": str(wanted.page_bytes), **settings}


def _check_page(product: str, wanted: Configuration, version: Version, largest: int) -> None:
    sizes = [size for size in (4096, 8192, 16384, 32768, 65536) if size <= largest]
    if wanted.page_bytes is not None and wanted.page_bytes not in sizes:
        named = f"{product} {'.'.join(map(str, version))}"
        raise ServerMissingError(f"{named} has no pages of {wanted.page_bytes} bytes, but {', '.join(map(str, sizes))}")


_TRANSLATE: Mapping[str, Callable[[Configuration, Version], Settings]] = {
    "postgres": _postgres,
    "mariadb": _mariadb,
    "mysql": _mysql,
    "ferretdb": _ferretdb,
}
