"""PostgreSQL from a release of Debian, unpacked. It runs on any Debian, with the C library of its
release.

No version is named: apt fetches the release's current one, with its point releases, and checks it
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
    """The packages of a server."""

    major: int
    suite: str
    """The Debian release that has this major version."""


def unpack(recipe: Recipe, folder: Path) -> None:
    """Downloads 95 MB, and unpacks a server with pgvector and its headers into `folder`."""
    major = recipe.major
    wanted = [f"postgresql-{major}", f"postgresql-client-{major}", f"postgresql-{major}-pgvector"]
    # Only the headers of this package are used. It depends on a whole compiler, which is left out.
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
    """The folder of the programs of an unpacked server."""
    return folder / "root/usr/lib/postgresql" / str(recipe.major) / "bin"


def _start_by_loader(program: Path, moved: Path, loader: Path) -> None:
    """Moves a program, and puts a script in its place that starts it with its own C library.

    A server finds its files by the name under which it was started, and programs find each other in
    the same way. That name is the script's.
    """
    program.rename(moved)
    program.write_text(f'#!/bin/sh\nexec "{loader}" --library-path "{loader.parent}" --argv0 "$0" "{moved}" "$@"\n')
    program.chmod(0o755)
