"""Servers with one file system for each log, and the clients that commit to them."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from devserver import DevServerError, innodb, postgres, programs, sysbench
from devserver.configuration import Configuration
from devserver.processes import server_owner
from devserver.releases import ServerMissingError
from devserver.tree import Tree
from devserver.volume import forget
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.server_records import LoadedRecord
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.plan.servers import ServerSpec, ServersPlan
from pagehop_lab.run.places import Held, Place
from pagehop_lab.suites.log_writes import log_counters
from pagehop_lab.suites.log_writes import measure as log_writes
from pagehop_lab.suites.log_writes.cases import LogCase
from pagehop_lab.suites.log_writes.log_counters import COUNTERS
from pagehop_lab.suites.log_writes.measure import LogPlace
from pagehop_lab.suites.log_writes.plan import LogLoad, needed_bytes_each
from pagehop_lab.suites.log_writes.records import CommitsRecord

_TABLE = "commits"
_WAL_BYTES, _PAGE_BYTES, _SECTOR_BYTES = 8192, 4096, 512
# Size of InnoDB's redo log: all of it is written once before it is measured.
_REDO_MIB = 256


@dataclass(frozen=True)
class Logged(Held):
    """A server and its logs' places."""

    is_direct: bool
    """Whether InnoDB's log is written past the kernel's cache."""


@dataclass(frozen=True)
class LoggedProduct:
    """PostgreSQL, MariaDB and MySQL, by version, sync mode, sectors and binary log."""

    plan: ServersPlan
    name: str

    def version(self, server: ServerSpec) -> str:
        if self.name == "postgres":
            return postgres.install(server.version).version
        return programs.install(self.name, server.version).version

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        version, options = self.version(server), dict(server.options)
        if configuration.durability != "commit":
            raise ServerMissingError("a log is written for each commit only where durability is commit")
        settings = configuration.settings(self.name, version)
        if self.name == "postgres":
            # Only the log is written during the measurement.
            return settings | {"wal_sync_method": str(options["sync"]), "bgwriter_lru_maxpages": "0"}
        binlog, sync = bool(options.get("binlog")), str(options["sync"])
        if self.name == "mariadb":
            more = {"innodb_log_file_size": f"{_REDO_MIB}M"} | _mariadb_sync(sync, version)
        else:
            more = _mysql_log(sync, version)
        if binlog:
            settings.pop("disable_log_bin", None)
        return settings | more | _binlog(binlog)

    def new(self, server: ServerSpec, configuration: Configuration) -> Logged:
        options = dict(server.options)
        size = needed_bytes_each(self.plan.load)
        names = ["wal"] if self.name == "postgres" else ["redo", *(["binlog"] if options.get("binlog") else [])]
        places: dict[str, Place] = {}
        with ExitStack() as stack:
            for name in names:
                places[name] = Place.of(size, int(options.get("sector_bytes", 512)))
                stack.callback(places[name].remove)
            settings = self.settings(server, configuration)
            made = Logged(self._made(server, settings, places), places, options["sync"] == "direct")
            stack.pop_all()
        return made

    def _made(self, server: ServerSpec, settings: dict[str, str], places: Mapping[str, Place]) -> Any:
        if self.name != "postgres":
            more = {"innodb_log_group_home_dir": str(places["redo"].owned("log"))}
            if "binlog" in places:
                more["log_bin"] = str(places["binlog"].owned("log") / "binlog")
            return innodb.Instance(programs.install(self.name, server.version), settings | more)
        made = postgres.Instance(postgres.install(server.version), settings)
        _move_log(made.data / "pg_wal", places["wal"].folder / "log")
        return made


def _move_log(here: Path, there: Path) -> None:
    if not here.exists():
        # PostgreSQL before 10.
        here = here.with_name("pg_xlog")
    shutil.copytree(here, there)
    shutil.rmtree(here)
    here.symlink_to(there)
    for path in [there, *there.rglob("*")]:
        server_owner().own(path)


def _write_through(folder: Path) -> None:
    """Writes files again with the same bytes.

    A log that is reused lies on blocks that were written before, and so do these files.
    """
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        with path.open("r+b") as file:
            while part := file.read(1 << 20):
                file.seek(-len(part), os.SEEK_CUR)
                file.write(part)
                file.flush()
            os.fsync(file.fileno())


def _mariadb_sync(sync: str, version: str) -> dict[str, str]:
    """How the redo log is written; before 11 one setting applies to all files."""
    if tuple(map(int, version.split(".")[:2])) < (11, 0):
        names = {"buffered": "fsync", "direct": "O_DIRECT", "dsync": "O_DSYNC"}
        return {"innodb_flush_method": names[sync]}
    buffered = "OFF" if sync == "direct" else "ON"
    return {"innodb_log_file_buffering": buffered, "innodb_log_file_write_through": "ON" if sync == "dsync" else "OFF"}


def _mysql_log(sync: str, version: str) -> dict[str, str]:
    """How the redo log is written, and its size. O_DIRECT affects only data files."""
    method = {"innodb_flush_method": {"buffered": "fsync", "dsync": "O_DSYNC"}[sync], "performance_schema": "1"}
    if version.startswith("5."):
        # The size of each of two files.
        return method | {"innodb_log_file_size": f"{_REDO_MIB // 2}M"}
    return method | {"innodb_redo_log_capacity": f"{_REDO_MIB}M", "innodb_log_write_ahead_size": f"{_PAGE_BYTES}"}


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

    def load(self, instance: Logged) -> LoadedRecord:
        """Creates an empty table and preallocated log files."""
        server = instance.ours
        if isinstance(server, postgres.Instance):
            server.execute(
                f"CREATE TABLE {_TABLE} (id bigint PRIMARY KEY, c text NOT NULL)",
                # Long texts are stored out of line and uncompressed.
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

    def measure(self, instance: Logged, case: Case, slowed: float) -> CommitsRecord:
        """One size of commits by a number of clients."""
        assert isinstance(case, LogCase)
        assert not slowed
        server, seconds = instance.ours, self._load.seconds
        try:
            server.settle()
            for place in instance.places.values():
                forget(place.folder)
            # After the rows of an earlier test, however it ended.
            next_row = int(server.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {_TABLE}")[0][0])
            command = [
                *sysbench.command(self._tree), str(log_writes.SCRIPT), *server.sysbench_options(),
                f"--bytes={case.commit_bytes}", f"--first={next_row}", f"--threads={case.clients}",
                f"--time={math.ceil(seconds)}", f"--rand-seed={self.plan.seed + 1}", "--verbosity=1", "run",
            ]  # fmt: skip
            own = log_counters.counters(server)
            return log_writes.measure(
                log_writes.Asked(
                    command, sysbench.environment(self._tree), server.pid, log_places(instance, own),
                    lambda: log_counters.counters(server), log_counters.of_data(own), case.clients, case.commit_bytes,
                    seconds, (lambda: _write_back(server)) if self._load.write_back else None,
                )
            )  # fmt: skip
        except DevServerError as error:
            raise MeasureError(str(error)) from None


def _write_back(server: Any) -> None:
    """Writes every changed page to its file."""
    if isinstance(server, postgres.Instance):
        # There is no VACUUM, which would write pages of its own.
        server.execute("CHECKPOINT")
    else:
        server.settle()


def log_places(instance: Logged, own: Mapping[str, float]) -> list[LogPlace]:
    """Each log, with the names of its server's counters of it."""
    found = []
    for name, place in instance.places.items():
        logical, written, writes, syncs = COUNTERS[log_counters.product_of(instance.ours)][name]
        sector = place.volume.sector_bytes if place.volume else _SECTOR_BYTES
        page = {"wal": _WAL_BYTES, "redo": sector if instance.is_direct else _PAGE_BYTES, "binlog": _PAGE_BYTES}[name]
        known = [one if one in own else None for one in (written, writes, syncs)]
        folder = place.folder / "log"
        found.append(LogPlace(name, folder, sector, page, place.volume is not None, logical, *known))
    return found
