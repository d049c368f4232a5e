"""Servers whose logs are each on a file system of their own, and what commits to them."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from devserver import DevServerError
from devserver.processes import server_owner
from labservers import innodb, mariadb, postgres, sysbench
from labservers.configuration import Configuration
from labservers.releases import ServerMissingError
from labservers.tree import Tree
from labservers.volume import forget
from pagehop_lab.analysis.log_writes import LogCase
from pagehop_lab.analysis.oltp import Case
from pagehop_lab.measure import log_writes
from pagehop_lab.measure.log_writes import LogPlace
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.plan.servers import ServerSpec, ServersPlan
from pagehop_lab.plan.storage import LogLoad, needed_bytes_each
from pagehop_lab.run.stores import Place

_TABLE = "commits"
# A server whose counters of its log are these, from this version on.
_COUNTED_FROM = 18
_POSTGRES_OWN = {
    "wal_lsn": "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')",
    "pg_stat_wal wal_bytes": "SELECT wal_bytes FROM pg_stat_wal",
}
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
    "Innodb_dblwr_pages_written",
)  # fmt: skip


# Of each log: how far it grew, bytes written, writes, syncs.
_COUNTERS = {
    "wal": ("wal_lsn", "pg_stat_io wal write_bytes", "pg_stat_io wal writes", "pg_stat_io wal fsyncs"),
    "redo": ("Innodb_lsn_current", None, "Innodb_log_writes", "Innodb_os_log_fsyncs"),
    "binlog": ("Binlog_bytes_written", None, "Binlog_group_commits", "Binlog_group_commits"),
}
_WAL_BYTES, _PAGE_BYTES, _SECTOR_BYTES = 8192, 4096, 512
# Of InnoDB here: all of it is written once before it is measured.
_REDO_MIB = 256


@dataclass
class Logged:
    """A server and its logs' places."""

    server: Any
    places: Mapping[str, Place]
    is_direct: bool
    """Whether InnoDB's log is written past the kernel's cache."""

    @property
    def pid(self) -> int:
        return int(self.server.pid)

    @property
    def running(self) -> bool:
        return bool(self.server.running)

    def start(self) -> None:
        self.server.start()

    def settle(self) -> None:
        self.server.settle()

    def data_bytes(self) -> int:
        return int(self.server.data_bytes())

    def remove(self) -> None:
        try:
            self.server.remove()
        finally:
            for place in self.places.values():
                place.remove()


@dataclass(frozen=True)
class LoggedProduct:
    """PostgreSQL and MariaDB, by version, sync mode, sectors and whether there is a binary log."""

    plan: ServersPlan
    name: str

    def version(self, server: ServerSpec) -> str:
        if self.name == "postgres":
            return postgres.install(server.version).version
        return mariadb.of_version(server.version).version

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        version, options = self.version(server), dict(server.options)
        if configuration.durability != "commit":
            raise ServerMissingError("a log is written for each commit only where durability is commit")
        settings = configuration.settings(self.name, version)
        if self.name == "postgres":
            # Nothing is written meanwhile but the log.
            return settings | {"wal_sync_method": str(options["sync"]), "bgwriter_lru_maxpages": "0"}
        more = {"innodb_log_file_size": f"{_REDO_MIB}M"} | _binlog(bool(options.get("binlog")))
        return settings | _mariadb_sync(str(options["sync"]), version) | more

    def new(self, server: ServerSpec, configuration: Configuration) -> Logged:
        options = dict(server.options)
        size = needed_bytes_each(self.plan.load)
        names = ["wal"] if self.name == "postgres" else ["redo", *(["binlog"] if options.get("binlog") else [])]
        places: dict[str, Place] = {}
        try:
            for name in names:
                places[name] = Place.of(size, int(options.get("sector_bytes", 512)))
            settings = self.settings(server, configuration)
            return Logged(self._made(server, settings, places), places, options["sync"] == "direct")
        except BaseException:
            for place in places.values():
                place.remove()
            raise

    def _made(self, server: ServerSpec, settings: dict[str, str], places: Mapping[str, Place]) -> Any:
        if self.name == "mariadb":
            more = {"innodb_log_group_home_dir": str(places["redo"].owned("log"))}
            if "binlog" in places:
                more["log_bin"] = str(places["binlog"].owned("log") / "binlog")
            return innodb.Instance(mariadb.of_version(server.version), settings | more)
        made = postgres.Instance(postgres.install(server.version), settings)
        _move_log(made.data / "pg_wal", places["wal"].folder / "log")
        return made


def _move_log(here: Path, there: Path) -> None:
    if not here.exists():
        # Before 10.
        here = here.with_name("pg_xlog")
    shutil.copytree(here, there)
    shutil.rmtree(here)
    here.symlink_to(there)
    for path in [there, *there.rglob("*")]:
        server_owner().own(path)


def _write_through(folder: Path) -> None:
    """Writes files again as they are: a log that goes round and round is on blocks that were written before."""
    for path in folder.iterdir():
        with path.open("r+b") as file:
            while part := file.read(1 << 20):
                file.seek(-len(part), os.SEEK_CUR)
                file.write(part)
                file.flush()
            os.fsync(file.fileno())


def _mariadb_sync(sync: str, version: str) -> dict[str, str]:
    """How the redo log is written; before 11 one setting is about all files."""
    if tuple(map(int, version.split(".")[:2])) < (11, 0):
        names = {"buffered": "fsync", "direct": "O_DIRECT", "dsync": "O_DSYNC"}
        return {"innodb_flush_method": names[sync]}
    buffered = "OFF" if sync == "direct" else "ON"
    return {"innodb_log_file_buffering": buffered, "innodb_log_file_write_through": "ON" if sync == "dsync" else "OFF"}


def _binlog(wanted: bool) -> dict[str, str]:
    return {"sync_binlog": "1", "server_id": "1", "max_binlog_size": "1G"} if wanted else {}


@dataclass
class LogWrites:
    """Commits by sysbench."""

    plan: ServersPlan

    @property
    def _load(self) -> LogLoad:
        assert isinstance(self.plan.load, LogLoad)
        return self.plan.load

    @cached_property
    def _tree(self) -> Tree:
        return sysbench.install()

    def load(self, instance: Logged) -> dict[str, Any]:
        """Makes an empty table, and log files that are there before they are wanted."""
        server = instance.server
        if isinstance(server, postgres.Instance):
            server.execute(
                f"CREATE TABLE {_TABLE} (id bigint PRIMARY KEY, c text NOT NULL)",
                # Long texts in places of their own, as they are.
                f"ALTER TABLE {_TABLE} ALTER c SET STORAGE EXTERNAL",
            )
        else:
            server.execute(f"CREATE TABLE {_TABLE} (id BIGINT PRIMARY KEY, c MEDIUMTEXT NOT NULL)")
            server.stop()
            _write_through(instance.places["redo"].folder / "log")
            server.start()
        places = {
            name: f"ext4 of its own, sectors of {place.volume.sector_bytes}" if place.volume else f"{place.why_not}"
            for name, place in instance.places.items()
        }
        return {"load_s": 0.0, "places": places}

    def measure(self, instance: Logged, case: Case, slowed: float) -> dict[str, Any]:
        """One size of commits by so many clients."""
        assert isinstance(case, LogCase)
        assert not slowed
        server, seconds = instance.server, self._load.seconds
        try:
            server.settle()
            for place in instance.places.values():
                forget(place.folder)
            # After whatever an earlier test committed, however that ended.
            next_row = int(server.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {_TABLE}")[0][0])
            command = [
                *sysbench.command(self._tree), str(log_writes.SCRIPT), *server.sysbench_options(),
                f"--bytes={case.commit_bytes}", f"--first={next_row}", f"--threads={case.clients}",
                f"--time={math.ceil(seconds)}", f"--rand-seed={self.plan.seed + 1}", "--verbosity=1", "run",
            ]  # fmt: skip
            own = counters_of(server)
            return log_writes.measure(
                log_writes.Asked(
                    command, sysbench.environment(self._tree), server.pid, log_places(instance, own),
                    lambda: counters_of(server), _data_counter(own), case.clients, case.commit_bytes, seconds,
                )
            )  # fmt: skip
        except DevServerError as error:
            raise MeasureError(str(error)) from None


def log_places(instance: Logged, own: Mapping[str, float]) -> list[LogPlace]:
    """Each log with the names of the counters that its server has of it."""
    found = []
    for name, place in instance.places.items():
        logical, written, writes, syncs = _COUNTERS[name]
        sector = place.volume.sector_bytes if place.volume else _SECTOR_BYTES
        page = {"wal": _WAL_BYTES, "redo": sector if instance.is_direct else _PAGE_BYTES, "binlog": _PAGE_BYTES}[name]
        known = [one if one in own else None for one in (written, writes, syncs)]
        folder = place.folder / "log"
        found.append(LogPlace(name, folder, sector, page, place.volume is not None, logical, *known))
    return found


def _data_counter(own: Mapping[str, float]) -> str | None:
    return next((name for name in ("pg_stat_io data bytes", "data bytes") if name in own), None)


def counters_of(server: Any) -> dict[str, float]:
    """What a server counts of its writes, by its own names where it has any."""
    if isinstance(server, postgres.Instance):
        own = {name: float(server.execute(query)[0][0] or 0) for name, query in _POSTGRES_OWN.items()}
        if server.server.major >= _COUNTED_FROM:
            (values,) = server.execute(f"SELECT {', '.join(_POSTGRES_IO.values())} FROM pg_stat_io")
            own |= {name: float(value or 0) for name, value in zip(_POSTGRES_IO, values, strict=True)}
        return own
    listed = ", ".join(f"'{name}'" for name in _INNODB_OWN)
    told = server.execute(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed})")
    own = {name: float(value) for name, value in told}
    pages = own.pop("Innodb_page_size", 0.0)
    # Each page goes to the doublewrite buffer, too.
    own["data bytes"] = (own.get("Innodb_pages_written", 0) + own.get("Innodb_dblwr_pages_written", 0)) * pages
    return own
