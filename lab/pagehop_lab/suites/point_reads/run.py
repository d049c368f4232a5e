"""Runs servers and stores with data larger than memory, each on a file system of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from devserver import DevServerError, innodb, postgres, programs, sysbench
from devserver.configuration import Configuration
from devserver.tree import Tree
from devserver.volume import forget
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.server_records import LoadedRecord
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.measure.limit import MemoryLimit, limited
from pagehop_lab.measure.oltp import MeasureError, script_command
from pagehop_lab.measure.usage import family
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.model import OptionValue
from pagehop_lab.plan.servers import ServerSpec, ServersPlan
from pagehop_lab.run.child import EngineFailed
from pagehop_lab.run.environments import python
from pagehop_lab.run.places import Held, Place
from pagehop_lab.suites.point_reads import embedded, rows
from pagehop_lab.suites.point_reads import measure as point_reads
from pagehop_lab.suites.point_reads.cases import ReadCase
from pagehop_lab.suites.point_reads.plan import PointLoad, needed_bytes_each, usual_options
from pagehop_lab.suites.point_reads.records import ReadRecord

_PROGRAM = Path(embedded.__file__)
_DATA = "data"
_LOG_MIB = 256
# Memory of a client of RocksDB for its own copy of the places of all blocks, in MiB.
_CLIENT_MIB = 24


class Embedded:
    """A store that is a library: it runs in a process of its own during a measurement."""

    running = True
    pid: None = None

    def __init__(self, name: str, folder: Path, options: Mapping[str, OptionValue]) -> None:
        self.name, self.folder, self.options = name, folder, dict(options)

    def start(self) -> None: ...

    def settle(self) -> None: ...

    def limit(self, seconds: float) -> None: ...

    def data_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def remove(self) -> None: ...

    def command(self, what: str, *more: int) -> list[str]:
        """What does something with it."""
        return [
            *_python(self.name),
            str(_PROGRAM),
            what,
            self.name,
            str(self.folder),
            json.dumps(self.options),
            *map(str, more),
        ]


@dataclass(frozen=True)
class Stored(Held):
    """A server that is restarted for each measurement."""

    later: Mapping[str, str]
    """What is set once it is loaded."""


def _check_limit(load: ServersLoad) -> None:
    """Whether memory can be limited, before anything is loaded."""
    assert isinstance(load, PointLoad)
    try:
        with limited(load.memory_mib):
            pass
    except EngineError as error:
        raise DevServerError(str(error)) from None


def with_cache(server: Any, mib: int) -> None:
    """Sets the size of the own cache of a server or a store, from its next start on."""
    if isinstance(server, Embedded):
        server.options["cache_mib"] = mib
    elif isinstance(server, innodb.Instance):
        server.configure({"innodb_buffer_pool_size": f"{mib}M"})
    else:
        server.configure({"shared_buffers": f"{mib}MB"})


def start(server: Any, usual_mib: int) -> None:
    """Starts a server. One that does not start with its cache runs with its usual one afterwards.

    A cache for a small size of memory may be too small for the server's pages. The other sizes are
    still measured. DevServerError says why it did not start.
    """
    try:
        server.start()
    except DevServerError:
        with_cache(server, usual_mib)
        server.start()
        raise


def within(limit: MemoryLimit, asked: point_reads.Asked) -> ReadRecord:
    """A measurement within a limit of memory, which may be the reason if it fails."""
    try:
        return point_reads.measure(asked) | {"memory": limit.told()}
    except MeasureError as error:
        raise MeasureError(limit.reason(str(error))) from None


def _small_log(product: str, version: str) -> dict[str, str]:
    one_file = product == "mysql" and version != "5.6"
    return {"innodb_redo_log_capacity" if one_file else "innodb_log_file_size": f"{_LOG_MIB}M"}


def _python(name: str) -> list[str]:
    try:
        return python("main" if name == "sqlite" else "stores", lambda _: None)
    except EngineFailed as error:
        raise DevServerError(str(error)) from None


@dataclass(frozen=True)
class StoredProduct:
    """Servers and stores by their names, for data larger than memory."""

    plan: ServersPlan
    name: str

    def version(self, server: ServerSpec) -> str:
        if self.name == "postgres":
            return postgres.install(server.version).version
        if self.name in ("mariadb", "mysql"):
            return programs.install(self.name, server.version).version
        command = [*_python(self.name), str(_PROGRAM), "version", self.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DevServerError(f"{self.name} does not run here: {done.stderr.strip()[-500:]}")
        return done.stdout.strip()

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        _check_limit(self.plan.load)
        options = dict(server.options)
        if self.name not in ("postgres", "mariadb", "mysql"):
            return {name: str(value) for name, value in self._embedded(server, configuration).items()}
        page, direct = options.get("page_bytes"), options.get("access") == "direct"
        wanted = replace(configuration, direct_io=direct, page_bytes=None if page is None else int(page))
        # Nothing is written during the measurement, and loading needs no more log than this.
        more = {"max_wal_size": f"{_LOG_MIB}MB"} if self.name == "postgres" else _small_log(self.name, server.version)
        return wanted.settings(self.name, self.version(server)) | more

    def new(self, server: ServerSpec, configuration: Configuration) -> Stored:
        with ExitStack() as stack:
            place = Place.of(needed_bytes_each(self.plan.load))
            stack.callback(place.remove)
            settings = self.settings(server, configuration)
            # PostgreSQL would wait for each page that it loads.
            later = {name: settings.pop(name) for name in ("debug_io_direct",) if name in settings}
            made = Stored(self._made(server, configuration, settings, place), {_DATA: place}, later)
            stack.pop_all()
        return made

    def _made(self, server: ServerSpec, configuration: Configuration, settings: dict[str, str], place: Place) -> Any:
        if self.name == "postgres":
            return postgres.Instance(postgres.install(server.version), settings, place.folder)
        if self.name in ("mariadb", "mysql"):
            return innodb.Instance(programs.install(self.name, server.version), settings, place.folder)
        folder = place.folder / "data"
        folder.mkdir()
        return Embedded(self.name, folder, self._embedded(server, configuration))

    def _embedded(self, server: ServerSpec, configuration: Configuration) -> dict[str, OptionValue]:
        return {**usual_options(self.name), **dict(server.options), "cache_mib": configuration.cache_mib}


@dataclass
class PointReads:
    """Reads by key: sysbench asks servers, a program of ours the stores."""

    plan: ServersPlan

    @property
    def _load(self) -> PointLoad:
        assert isinstance(self.plan.load, PointLoad)
        return self.plan.load

    @cached_property
    def _tree(self) -> Tree:
        return sysbench.install()

    def load(self, instance: Stored) -> LoadedRecord:
        """Fills the table; returns the type of its file system, too."""
        load, server = self._load, instance.ours
        if isinstance(server, Embedded):
            command = server.command("load", load.rows, load.row_bytes)
            load_s = rows.load_embedded(command, load.load_timeout_s)
        else:
            load_s = rows.load(server, load.rows, load.row_bytes, load.load_timeout_s)
            server.settle()
            if instance.later:
                server.configure(instance.later)
        where = "an ext4 of its own" if instance.places[_DATA].volume else f"a folder: {instance.places[_DATA].why_not}"
        return {"load_s": load_s, "file_system": where, "client_us": self._client_us(server)}

    def measure(self, instance: Stored, case: Case, slowed: float) -> ReadRecord:
        """One number of clients with one read-ahead, from empty caches, within the memory limit."""
        assert isinstance(case, ReadCase)
        assert not slowed
        load, server, place = self._load, instance.ours, instance.places[_DATA]
        if place.volume is not None:
            place.volume.read_ahead(case.read_ahead_kib)
        memory_mib = case.memory_mib or load.memory_mib
        if load.more_memory_mib:
            with_cache(server, self.plan.configuration.cache_mib * memory_mib // load.memory_mib)
        try:
            with limited(memory_mib + self._besides_mib(server, case)) as limit:
                assert limit is not None
                asked = self._asked(instance, case)
                if isinstance(server, Embedded):
                    forget(place.folder)
                    asked = replace(asked, started=lambda pid: limit.enter([pid]))
                else:
                    server.stop()
                    forget(place.folder)
                    start(server, self.plan.configuration.cache_mib)
                    limit.enter(family(server.pid))
                raw = within(limit, asked)
        except (DevServerError, EngineError) as error:
            raise MeasureError(str(error)) from None
        return raw | {
            "read_ahead_kib": case.read_ahead_kib if place.volume is not None else None,
            "times_memory": instance.data_bytes() / (memory_mib << 20),
            "clients": case.clients,
        }

    def _asked(self, instance: Stored, case: ReadCase) -> point_reads.Asked:
        load, server, folder = self._load, instance.ours, instance.places[_DATA].folder
        if isinstance(server, Embedded):
            command = server.command("read", load.rows, case.clients, self.plan.seed)
            return point_reads.Asked(
                command, server.name, {}, folder, load.seconds, load.settle_max_s, family, dict, self._client_us(server)
            )
        command = script_command(self._tree, server, load.rows, self.plan.seed, case.script, case.clients)

        def members(_: int) -> Sequence[int]:
            return family(server.pid)

        return point_reads.Asked(
            command, "sysbench", sysbench.environment(self._tree), folder, load.seconds, load.settle_max_s, members,
            lambda: rows.counters(server),
        )  # fmt: skip

    def _besides_mib(self, server: Any, case: ReadCase) -> int:
        """Memory that is not cache: that of clients that are processes."""
        is_forked = isinstance(server, Embedded) and not embedded.STORES[server.name].in_threads
        return _CLIENT_MIB * case.clients if is_forked else 0

    def _client_us(self, server: Any) -> float | None:
        """CPU of drawing a key and counting, without a store."""
        if not isinstance(server, Embedded):
            return None
        if server.name not in self._ceilings:
            command = server.command("ceiling", 1000, 1, self.plan.seed)
            self._ceilings[server.name] = rows.client_us(command)
        return self._ceilings[server.name]

    @cached_property
    def _ceilings(self) -> dict[str, float]:
        return {}
