"""MariaDB as Debian has it, unpacked into a folder: it runs with its own release's C library, on any Debian.

`install` gets the packages once, `Instance` is a server with new data. It is reached by a socket in a folder that only
its owner (and root) can enter, as `root` and without a password.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from devserver import DevServerError
from devserver.folder import REPOSITORY
from devserver.processes import last_lines, run, serve, server_owner
from labservers.tree import Tree, unpacked

FOLDER = REPOSITORY / ".mariadb"
DATABASE = "lab"
USER = "root"

# The release whose MariaDB has vector indexes: 11.8, for all of its years.
_SUITE = "trixie"
_PACKAGES = ["mariadb-server-core", "mariadb-client-core"]
_SYSTEM_TABLES = ["mariadb_system_tables.sql", "mariadb_performance_tables.sql", "mariadb_system_tables_data.sql"]
_READY = "ready for connections"
_SECONDS_MAX = 120


@dataclass(frozen=True)
class Server(Tree):
    """An unpacked MariaDB."""

    version: str
    """As the server says it, such as 11.8.6-MariaDB."""


def install() -> Server:
    """The server, unpacked if it is not there: 16 MB come over the network."""
    tree = unpacked(FOLDER / _SUITE, _SUITE, _PACKAGES)
    advice = f"the server does not run here; every folder above {tree.root} must be open to its user"
    said = run([*tree.program("sbin/mariadbd"), "--version"], owner=server_owner(), advice=advice)
    return Server(tree.root, tree.loader, said.partition(" Ver ")[2].split("-MariaDB")[0])


class Instance:
    """Data and, while it runs, a server over them. Both go when the context is left, or the process ends."""

    def __init__(self, server: Server, settings: Mapping[str, str] | None = None) -> None:
        """Makes the data of a server that does not run yet; `settings` are its options without their dashes."""
        self.server = server
        self.folder = Path(tempfile.mkdtemp(prefix="pagehop-mariadb-"))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.socket = self.folder / "socket"
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.remove)
        self.data.mkdir()
        for folder in [self.folder, self.data]:
            server_owner().own(folder)
        self._fill()

    def __enter__(self) -> Instance:
        if not self.running:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the server."""
        if self._process is None:
            raise DevServerError("the server does not run: start() it")
        return self._process.pid

    def start(self) -> None:
        """Starts the server and waits until it takes connections."""
        if self.running:
            raise DevServerError("the server runs already")
        logged = self.log.stat().st_size if self.log.exists() else 0
        self._process = serve(self._command(), self.folder, self.log)
        late = time.monotonic() + _SECONDS_MAX
        while _READY not in self.log.read_text(errors="replace")[logged:]:
            if not self.running or time.monotonic() > late:
                self._end(signal.SIGKILL)
                raise DevServerError(f"the server of {self.data} did not start; its log ends with\n{self.log_end()}")
            time.sleep(0.02)
        self.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASE}", database="")

    def stop(self) -> None:
        """Ends the server in order: everything is in its files."""
        try:
            self._end(signal.SIGTERM)
        except subprocess.TimeoutExpired:
            self._end(signal.SIGKILL)
            raise DevServerError(
                f"the server of {self.data} did not stop in {_SECONDS_MAX} s and was killed; its log ends with\n"
                f"{self.log_end()}"
            ) from None

    def remove(self) -> None:
        """Ends the server and removes its folder."""
        atexit.unregister(self.remove)
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def url(self) -> str:
        """How the load generator connects."""
        return f"mysql://{USER}@/{DATABASE}?socket={self.socket}"

    def sql(self, text: str, database: str = DATABASE) -> str:
        """What the client prints for `text`: rows as lines, columns between tabs, and nothing else."""
        options = ["--no-defaults", f"--socket={self.socket}", f"--user={USER}", "--batch", "--skip-column-names"]
        return run([*self.server.program("bin/mariadb"), *options, database], stdin=text).rstrip("\n")

    def log_end(self) -> str:
        """The last lines of the server's log."""
        return last_lines(self.log.read_text(errors="replace")) if self.log.exists() else "(empty)"

    def _fill(self) -> None:
        """Makes the tables that describe users and settings, as mariadb-install-db does."""
        share = self.server.root / "usr/share/mariadb"
        tables = "".join((share / name).read_text() for name in _SYSTEM_TABLES)
        text = f"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n{tables}"
        advice = "the data of a new server could not be made"
        run([*self._command(), "--bootstrap"], cwd=self.folder, owner=server_owner(), stdin=text, advice=advice)

    def _command(self) -> list[str | Path]:
        usr = self.server.root / "usr"
        return [
            *self.server.program("sbin/mariadbd"),
            # The first option, or files of this machine are read.
            "--no-defaults",
            f"--basedir={usr}",
            f"--datadir={self.data}",
            f"--lc-messages-dir={usr / 'share/mariadb'}",
            f"--socket={self.socket}",
            f"--pid-file={self.folder / 'pid'}",
            "--skip-networking",
            *(f"--{name.replace('_', '-')}={value}" for name, value in self._settings.items()),
        ]

    def _end(self, by: signal.Signals) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(by)
        self._process.wait(_SECONDS_MAX)
        self._process = None
