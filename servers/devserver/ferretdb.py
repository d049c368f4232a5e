"""FerretDB: a server with MongoDB's protocol that keeps documents as JSON in SQLite.

It is compiled from its Go module, with SQLite translated to Go. It is not MongoDB, and its costs
say nothing about MongoDB, but it is the only server with that protocol in a package registry. A
real mongod is given by its URL.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from devserver import mongo
from devserver.processes import run, server_owner
from devserver.releases import release, unpacked
from devserver.server_process import ServerProcess

PRODUCT = "ferretdb"
DATABASE = "lab"


@dataclass(frozen=True)
class Program:
    """A compiled FerretDB."""

    version: str
    path: Path


def install(name: str) -> Program:
    """The server of a version.

    A missing one is compiled, in minutes, from 60 MB of modules that are downloaded.
    """
    of = release(PRODUCT, name)
    folder = unpacked(of, _compile)
    program = folder / PRODUCT
    advice = f"the server does not run here; every folder above {folder} must be open to its user"
    said = run([program, "--version"], owner=server_owner(), advice=advice)
    version = next(line.split()[-1] for line in said.splitlines() if line.startswith("version:"))
    return Program(version.removeprefix("v"), program)


def _compile(file: Path, folder: Path) -> None:
    """Compiles it. Go checks every module against the checksums that the module itself has."""
    with zipfile.ZipFile(file) as module:
        module.extractall(folder / "module")
    (source,) = (folder / "module").glob("github.com/*/*")
    # FerretDB's own build takes the version from git.
    (source / "build/version/version.txt").write_text(f"{source.name.partition('@')[2]}\n")
    env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    command: list[str | Path] = [
        "go",
        "build",
        "-buildvcs=false",
        "-tags=ferretdb_sqlite",
        "-o",
        folder / PRODUCT,
        "./cmd/ferretdb",
    ]
    run(command, cwd=source, env=env, advice="FerretDB wants Go 1.22 or newer")
    shutil.rmtree(folder / "module")


class Instance(ServerProcess, mongo.Database):
    """A private server with new data, at a socket in its folder.

    It ends with this process, also if the process is killed.
    """

    _seconds_max = 30

    def __init__(self, program: Program, pragmas: Mapping[str, str]) -> None:
        """`pragmas` are SQLite's."""
        ServerProcess.__init__(self, f"pagehop-{PRODUCT}-")
        self.program = program
        # pymongo recognizes a socket by this ending.
        self._socket = self.folder / "mongo.sock"
        self.data.mkdir()
        for path in (self.folder, self.data):
            server_owner().own(path)
        self._pragmas = [("_pragma", f"{name}({value})") for name, value in pragmas.items()]
        mongo.Database.__init__(self, f"mongodb://{quote(str(self._socket), safe='')}/{DATABASE}")

    def settle(self) -> None:
        """Makes no change: all writes are in its files or in SQLite's log beside them.

        Documents are only read afterwards.
        """

    def _start(self) -> None:
        command: list[str | Path] = [
            "setpriv", "--pdeathsig", "KILL", self.program.path, "--handler=sqlite",
            f"--sqlite-url=file:{self.data}/?{urlencode(self._pragmas)}", f"--state-dir={self.folder}",
            "--listen-addr=", f"--listen-unix={self._socket}", "--debug-addr=-", "--telemetry=disable",
            "--log-level=warn",
        ]  # fmt: skip
        self._serve(command, lambda: self._socket.exists() and self.answers())

    def _named(self) -> str:
        return f"{PRODUCT} {self.program.version}"
