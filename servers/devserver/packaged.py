"""PostgreSQL as a release of Debian packages it, unpacked. It runs with that release's own C
library, on any Debian.

No version is named: apt fetches what the release has now, point releases included, and checks it
against Debian's signature. Nothing is compiled or installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devserver import tree
from devserver.errors import DevServerError

_PROGRAM = b"\x7fELF"


@dataclass(frozen=True)
class Recipe:
    """Which packages make a server."""

    major: int
    suite: str
    """The Debian release that has this major version."""


def unpack(recipe: Recipe, folder: Path) -> None:
    """Puts a server with pgvector and its headers into `folder`: 95 MB come over the network."""
    major = recipe.major
    wanted = [f"postgresql-{major}", f"postgresql-client-{major}", f"postgresql-{major}-pgvector"]
    # Compiling takes only its headers. The dependencies of the package are a whole compiler.
    unpacked = tree.unpack(folder, recipe.suite, wanted, alone=[f"postgresql-server-dev-{major}"])
    programs = bin_folder(recipe, folder)
    kept = programs.with_name("programs")
    kept.mkdir()
    for program in sorted(programs.iterdir()):
        if program.is_file() and program.read_bytes()[: len(_PROGRAM)] == _PROGRAM:
            _start_by_loader(program, kept / program.name, unpacked.loader)
    if not (programs / "pg_config").exists():
        raise DevServerError(f"{programs} has no pg_config: Debian {recipe.suite} packages it elsewhere now")


def bin_folder(recipe: Recipe, folder: Path) -> Path:
    """Where the programs of an unpacked server are."""
    return folder / "root/usr/lib/postgresql" / str(recipe.major) / "bin"


def _start_by_loader(program: Path, moved: Path, loader: Path) -> None:
    """Moves a program, and leaves a script in its place that starts it with its own C library.

    Servers find their files, and programs each other, by the name that they were started by: it
    stays that of the script.
    """
    program.rename(moved)
    program.write_text(f'#!/bin/sh\nexec "{loader}" --library-path "{loader.parent}" --argv0 "$0" "{moved}" "$@"\n')
    program.chmod(0o755)
