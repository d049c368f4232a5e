"""Servers and embedded stores with data larger than memory, each on a file system of its own, and what reads them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from devserver import DevServerError
from devserver.processes import server_owner
from labservers import innodb, mariadb, mysql, postgres, sysbench
from labservers.configuration import Configuration
from labservers.tree import Tree
from labservers.volume import Volume, forget
from pagehop_lab.analysis.oltp import Case
from pagehop_lab.analysis.point_reads import ReadCase
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.measure import embedded, point_reads, rows
from pagehop_lab.measure.limit import limited
from pagehop_lab.measure.oltp import MeasureError, script_command
from pagehop_lab.measure.usage import family
from pagehop_lab.plan.servers import ServerSpec, ServersPlan
from pagehop_lab.plan.storage import PointLoad, needed_bytes_each
from pagehop_lab.run.child import EngineFailed
from pagehop_lab.run.environments import python

_PROGRAM = Path(embedded.__file__)
_LOG_MIB = 256
_CLIENT_MIB = 16


@dataclass
class Place:
    """Where the data of a server are: a file system of their own where that can be had, or else a folder."""

    folder: Path
    volume: Volume | None
    why_not: str | None

    @staticmethod
    def of(size_bytes: int, sector_bytes: int = 512) -> Place:
        try:
            volume = Volume(size_bytes, sector_bytes)
        except DevServerError as error:
            folder = Path(tempfile.mkdtemp(prefix="pagehop-lab-"))
            return Place(folder, None, str(error))
        return Place(volume.path, volume, None)

    def owned(self, name: str) -> Path:
        """A folder in it that belongs to the server."""
        path = self.folder / name
        path.mkdir()
        server_owner().own(path)
        return path

    def remove(self) -> None:
        if self.volume is not None:
            self.volume.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


class Stored:
    """A server whose data are on a place; it is started anew for each measurement."""

    def __init__(self, place: Place, server: Any) -> None:
        self.place, self.server = place, server

    @property
    def pid(self) -> int | None:
        pid: int | None = self.server.pid
        return pid

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
            self.place.remove()


class Embedded:
    """A store that is a library: it runs while it is asked, in a process of its own."""

    running = True
    pid: None = None

    def __init__(self, name: str, folder: Path, options: Mapping[str, Any]) -> None:
        self.name, self.folder, self.options = name, folder, json.dumps(dict(options))

    def start(self) -> None: ...

    def settle(self) -> None: ...

    def data_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def remove(self) -> None: ...

    def command(self, what: str, *more: int) -> list[str]:
        """What does something with it."""
        return [*_python(self.name), str(_PROGRAM), what, self.name, str(self.folder), self.options, *map(str, more)]


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
            return self._program(server).version
        command = [*_python(self.name), str(_PROGRAM), "version", self.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DevServerError(f"{self.name} does not run here: {done.stderr.strip()[-500:]}")
        return done.stdout.strip()

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        options = dict(server.options)
        if self.name not in ("postgres", "mariadb", "mysql"):
            return {name: str(value) for name, value in self._embedded(server, configuration).items()}
        page, direct = options.get("page_bytes"), options.get("access") == "direct"
        wanted = replace(configuration, direct_io=direct, page_bytes=None if page is None else int(page))
        # Nothing is written while it is measured, and loading needs no more log than this.
        more = {"max_wal_size": f"{_LOG_MIB}MB"} if self.name == "postgres" else _small_log(self.name, server.version)
        return wanted.settings(self.name, self.version(server)) | more

    def new(self, server: ServerSpec, configuration: Configuration) -> Any:
        place = Place.of(needed_bytes_each(self.plan.load))
        try:
            return Stored(place, self._made(server, configuration, place))
        except BaseException:
            place.remove()
            raise

    def _made(self, server: ServerSpec, configuration: Configuration, place: Place) -> Any:
        if self.name == "postgres":
            found = postgres.install(server.version)
            return postgres.Instance(found, self.settings(server, configuration), place.folder)
        if self.name in ("mariadb", "mysql"):
            return innodb.Instance(self._program(server), self.settings(server, configuration), place.folder)
        folder = place.folder / "data"
        folder.mkdir()
        return Embedded(self.name, folder, self._embedded(server, configuration))

    def _program(self, server: ServerSpec) -> innodb.Program:
        return mariadb.of_version(server.version) if self.name == "mariadb" else mysql.install(server.version)

    def _embedded(self, server: ServerSpec, configuration: Configuration) -> dict[str, Any]:
        usual = {"page_bytes": 4096, "access": "mmap", "compression": "none", "cache_mib": configuration.cache_mib}
        return usual | dict(server.options)


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

    def load(self, instance: Stored) -> dict[str, Any]:
        """Fills the table; says what its file system is."""
        load, server = self._load, instance.server
        if isinstance(server, Embedded):
            command = server.command("load", load.rows, load.row_bytes)
            load_s = rows.load_embedded(command, load.load_timeout_s)
        else:
            load_s = rows.load(server, load.rows, load.row_bytes, load.load_timeout_s)
            server.settle()
        where = "an ext4 of its own" if instance.place.volume else f"a folder: {instance.place.why_not}"
        return {"load_s": load_s, "file_system": where, "client_us": self._client_us(server)}

    def measure(self, instance: Stored, case: Case, slowed: float) -> dict[str, Any]:
        """One number of clients with one read-ahead, from empty caches on, within the limit of memory."""
        assert isinstance(case, ReadCase)
        assert not slowed
        load, server, place = self._load, instance.server, instance.place
        if place.volume is not None:
            place.volume.read_ahead(case.read_ahead_kib)
        try:
            with limited(load.memory_mib + self._besides_mib(server, case)) as limit:
                assert limit is not None
                asked = self._asked(instance, case)
                if isinstance(server, Embedded):
                    forget(place.folder)
                    asked = replace(asked, started=lambda pid: limit.enter([pid]))
                else:
                    server.stop()
                    forget(place.folder)
                    server.start()
                    limit.enter(family(server.pid))
                raw = point_reads.measure(asked)
                raw["memory"] = limit.told()
        except (DevServerError, EngineError) as error:
            raise MeasureError(str(error)) from None
        return raw | {
            "read_ahead_kib": case.read_ahead_kib if place.volume is not None else None,
            "times_memory": instance.data_bytes() / (load.memory_mib << 20),
            "clients": case.clients,
        }

    def _asked(self, instance: Stored, case: ReadCase) -> point_reads.Asked:
        load, server = self._load, instance.server
        if isinstance(server, Embedded):
            command = server.command("read", load.rows, case.clients, self.plan.seed)
            return point_reads.Asked(
                command, {}, instance.place.folder, load.seconds, load.settle_max_s, family, dict,
                self._client_us(server),
            )  # fmt: skip
        command = script_command(self._tree, server, load.rows, self.plan.seed, "point-query", case.clients)

        def members(_: int) -> Sequence[int]:
            return family(server.pid)

        return point_reads.Asked(
            command, sysbench.environment(self._tree), instance.place.folder, load.seconds, load.settle_max_s, members,
            lambda: rows.counters(server),
        )  # fmt: skip

    def _besides_mib(self, server: Any, case: ReadCase) -> int:
        """Memory that is no cache: of clients that are processes."""
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
