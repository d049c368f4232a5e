"""Modules of PostgreSQL's sources, such as postgres_fdw, for servers that lack them: a wheel has
only the server, and so has a server that is compiled here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from devserver import packages, source
from devserver.errors import DevServerError
from devserver.folder import SERVERS, made_once
from devserver.processes import run
from devserver.servers import GIVEN, SOURCES, Server

# The compiler of the server may have had options that the compiler here does not know.
_FLAGS = ["CFLAGS=-O2 -fno-strict-aliasing -fwrapv", "with_llvm=no", "USE_PGXS=1"]


def install_contrib(server: Server, module: str) -> None:
    """Makes `CREATE EXTENSION module` work in `server`. The first time takes a minute and needs the
    network.
    """
    if (server.extension_folder / f"{module}.control").exists():
        return
    if server.name not in SOURCES:
        raise DevServerError(
            f"{module} is missing in {server.extension_folder}, which {GIVEN} names: install PostgreSQL's contrib "
            f"modules there (Debian: apt-get install postgresql-{server.major})"
        )
    make = ["make", "-s", *_FLAGS, f"PG_CONFIG={server.pg_config}"]

    def compile_module(folder: Path) -> None:
        recipe = SOURCES[server.name]
        packages.need(["build-essential"])
        sources = source.fetch(recipe.package, recipe.suite, folder / "sources")
        shutil.copytree(sources / "contrib" / module, folder / module)
        shutil.rmtree(folder / "sources")
        run(make, cwd=folder / module)

    made = made_once(SERVERS / f"{server.name}-{module}", f"{module} of {server.version}", compile_module)
    run([*make, "install"], cwd=made / module)
