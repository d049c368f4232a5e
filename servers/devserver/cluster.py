"""A private cluster: a folder of data, a server over it, and operations for tests.

All files and the socket are in one temporary folder that only the server's owner and root can
enter. So connections to the socket are those of a superuser; the loopback address requires a
password.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from devserver.errors import DevServerError
from devserver.processes import children, ended, last_lines, run, serve, server_owner, stopped
from devserver.server_process import ServerProcess
from devserver.servers import Server
from devserver.waits import STATEMENT_S

USER = "postgres"

Setting = str | int | float | bool

_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_SECONDS_MAX = 120
_PORT_TRIES = 3
_SETTINGS_FILE = "pagehop.conf"

_open: list[Cluster] = []


def open_clusters() -> list[Cluster]:
    """The clusters of this process that were not removed yet."""
    return list(_open)


class Cluster(ServerProcess):
    """Data and, while it runs, a server over them. Both are removed when the context or the process
    ends.
    """

    _kind = "cluster"
    _removed_by = _SIGNALS["immediate"]
    _begin: tuple[str, ...] = ()
    """The beginning of the command that starts the server."""

    def __init__(
        self, server: Server, settings: Mapping[str, Setting] | None = None, place: Path | None = None
    ) -> None:
        """Makes a cluster that does not run yet, in `place` if it is given."""
        self._prepare(server, place)
        template, self.password = _template(server)
        run(["cp", "-a", template, self.data], cwd=self.folder, owner=server_owner())
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(f"\ninclude '{_SETTINGS_FILE}'\n")
        self.configure(settings or {})

    def _prepare(self, server: Server, place: Path | None = None) -> None:
        self.server = server
        super().__init__("pagehop-pg-", place)
        server_owner().own(self.folder)
        self.password = ""
        self.port = _free_port()
        self._settings: dict[str, Setting] = {}
        _open.append(self)

    # ---- running ----

    def configure(self, settings: Mapping[str, Setting]) -> None:
        """Sets options of postgresql.conf for the next start, in addition to earlier ones."""
        self._settings |= settings
        file = self.data / _SETTINGS_FILE
        file.write_text("".join(f"{name} = {_quoted(value)}\n" for name, value in self._settings.items()))
        server_owner().own(file)

    def _start(self) -> None:
        """The start includes recovery."""
        for attempt in range(1, _PORT_TRIES + 1):
            logged = self.log.stat().st_size if self.log.exists() else 0
            self._launch()
            if self._wait_until_ready():
                return
            said = self.log_text()[logged:]
            # A port that is free when it is chosen may be in use when the server starts.
            if "Address already in use" in said and attempt < _PORT_TRIES:
                self.port = _free_port()
                continue
            raise self._failed("did not start", last_lines(said))

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Ends the server: `fast` with a checkpoint, `immediate` without, so that the next
        start recovers.
        """
        self._stop(_SIGNALS[mode])

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Sends SIGKILL to the server and all of its processes at once."""
        if self._process is None:
            return
        # A stopped postmaster starts no more processes, so the list is complete. It is killed
        # first: it would notice that its children die.
        postmaster = self._process.pid
        self._process.send_signal(signal.SIGSTOP)
        _wait(lambda: stopped(postmaster), f"the server of {self.data} does not stop")
        family = children(postmaster)
        self._process.kill()
        self._process.wait()
        for child in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _wait(lambda: all(map(ended, family)), f"the killed processes of {self.data} are still there")
        self._process = None

    def remove(self) -> None:
        """Ends the server and removes its folder."""
        if self in _open:
            _open.remove(self)
            super().remove()

    # ---- asking ----

    def dsn(self, database: str = USER) -> str:
        """The connection string for libpq and psycopg: the private socket, as superuser and without
        a password.
        """
        return f"host={self.folder} port={self.port} user={USER} dbname={database}"

    def url(self, database: str = USER) -> str:
        """The URL for connections over the loopback address."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def psql(self, sql: str, database: str = USER) -> str:
        """The output of psql for `sql`: rows as lines, columns between bars, and nothing else."""
        flags = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        command: list[str | Path] = [self.server.bin / "psql", *flags, "-d", self.dsn(database)]
        return run(command, stdin=sql, limit_s=STATEMENT_S).rstrip("\n")

    # ---- replicas ----

    def basebackup(self, settings: Mapping[str, Setting] | None = None) -> Cluster:
        """A replica of this cluster that does not run yet."""
        replica = Cluster.__new__(Cluster)
        replica._prepare(self.server)
        # The copied data contain the roles, and so the password.
        replica.password = self.password
        self._as_owner("pg_basebackup", "-D", replica.data, "-d", self.dsn(), "-R", "-X", "stream", "--checkpoint=fast")
        replica.configure({**self._settings, **(settings or {})})
        return replica

    def upgraded(self, server: Server) -> Cluster:
        """A cluster of `server` with the data of this one, by pg_upgrade. It does not run yet. This
        one is stopped.
        """
        self.stop()
        new = Cluster(server, self._settings)
        has, wants = (self._has_checksums(cluster) for cluster in (new, self))
        if has != wants:
            new._as_owner("pg_checksums", "--enable" if wants else "--disable", "-D", new.data)
        new._as_owner(
            "pg_upgrade", "-b", self.server.bin, "-B", server.bin, "-d", self.data, "-D", new.data, "-U", USER,
            "-s", new.folder, "-p", str(_free_port()), "-P", str(_free_port()),
        )  # fmt: skip
        return new

    @staticmethod
    def _has_checksums(cluster: Cluster) -> bool:
        said = run([cluster.server.bin / "pg_controldata", "-D", cluster.data])
        return re.search(r"^Data page checksum version: +0$", said, re.MULTILINE) is None

    def wait_for_replay(self, replica: Cluster) -> None:
        """Waits until a replica has replayed all log records that this cluster has made so far."""
        # A VACUUM ends without a flush of the log, and a replica gets what was flushed. This commit
        # flushes its own record and all before it.
        self.psql("SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'pagehop', 'replay')")
        here = self.psql("SELECT pg_current_wal_flush_lsn()")
        there = f"SELECT pg_last_wal_replay_lsn() >= '{here}'"
        _wait(lambda: replica.psql(there) == "t", f"the replica did not reach {here}; its log ends with", replica)

    # ---- steps ----

    def _as_owner(self, program: str, *arguments: str | Path) -> None:
        run([self.server.bin / program, *arguments], cwd=self.folder, owner=server_owner())

    def _launch(self) -> None:
        program, port = self.server.bin / "postgres", str(self.port)
        command: list[str | Path] = [*self._begin, program, "-D", self.data, "-p", port, "-k", self.folder]
        self._process = serve(command, self.folder, self.log)

    def _wait_until_ready(self) -> bool:
        """Whether the server takes connections (True) or has ended."""
        otherwise = f"the server of {self.data} is not ready; its log ends with"
        _wait(lambda: not self.running or self._ready(), otherwise, self)
        if self.running:
            return True
        self._process = None
        return False

    def _ready(self) -> bool:
        """Whether line 8 of the postmaster's file says that it is ready, as pg_ctl reads it."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"


@functools.cache
def _template(server: Server) -> tuple[Path, str]:
    """The data of a new cluster, and its password. The clusters of this process copy them, which
    takes a fifth of the time of initdb.
    """
    owner, folder = server_owner(), Path(tempfile.mkdtemp(prefix="pagehop-pg-new-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data, password_file, password = folder / "data", folder / "password", secrets.token_urlsafe(12)
    password_file.write_text(password)
    owner.own(folder)
    owner.own(password_file)
    # 9.6 knows no other method, and not the long name of -N.
    method = "scram-sha-256" if server.major >= 10 else "md5"
    run(
        [
            server.bin / "initdb", "-D", data, "-U", USER, "--no-locale", "--encoding=UTF8", "-N",
            "--auth-local=trust", f"--auth-host={method}", f"--pwfile={password_file}",
        ],
        cwd=folder,
        owner=owner,
    )  # fmt: skip
    return data, password


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _quoted(value: Setting) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"


def _wait(until: Callable[[], bool], otherwise: str, cluster: Cluster | None = None) -> None:
    late = time.monotonic() + _SECONDS_MAX
    while not until():
        if time.monotonic() > late:
            log = f"\n{cluster.log_end()}" if cluster else ""
            raise DevServerError(f"waited {_SECONDS_MAX} s: {otherwise}{log}")
        time.sleep(0.02)
