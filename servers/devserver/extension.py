"""Compiling the extension for a server and installing it there."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

from devserver import packages
from devserver.errors import DevServerError
from devserver.folder import REPOSITORY
from devserver.processes import environment, run
from devserver.servers import Server

CRATE = REPOSITORY / "postgres"


def install_extension(server: Server) -> None:
    """Makes `CREATE EXTENSION pagehop` work in `server`. It takes one or two seconds if nothing
    changed.
    """
    for folder in [server.library_folder, server.extension_folder]:
        if not os.access(folder, os.W_OK):
            raise DevServerError(f"the extension is installed in {folder}, which only another user may write: be root")
    packages.need(["build-essential"])
    made = subprocess.run(
        ["make", "--no-print-directory", "-C", CRATE, "install", f"PG_CONFIG={server.pg_config}"],
        env=build_environment(server),
        check=False,
    )
    if made.returncode != 0:
        raise DevServerError(f"make -C {CRATE} install PG_CONFIG={server.pg_config} failed; the reason is above")


def cargo(server: Server, *arguments: str) -> int:
    """Runs cargo on the extension's crate for that server. Returns its exit status."""
    features = ["--no-default-features", "--features", f"pg{server.major}"]
    command, *others = arguments
    return subprocess.run(
        ["cargo", command, *features, *others], cwd=CRATE, env=build_environment(server), check=False
    ).returncode


def build_environment(server: Server) -> dict[str, str]:
    """The environment of pgrx: the server's headers, and a libclang that reads them.

    Each server has a target folder of its own, because the bindings are made from its headers.
    """
    targets = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target").absolute()
    variables = environment(
        PGRX_PG_CONFIG_PATH=str(server.pg_config), CARGO_TARGET_DIR=str(targets / "postgres" / server.name)
    )
    return variables | libclang()


def libclang() -> dict[str, str]:
    """Variables by which bindgen finds the libclang of a Python environment: the checkout's
    `.venv`, or the current one. None if neither has a libclang.

    They are the same for every Python of the checkout: if they differ, cargo compiles the
    extension again.
    """
    if "LIBCLANG_PATH" in os.environ:
        return {}
    libraries = sorted((REPOSITORY / ".venv").glob("lib/python*/site-packages/clang/native/libclang.so"))
    wheel = importlib.util.find_spec("clang")
    if wheel and wheel.submodule_search_locations:
        libraries.append(Path(wheel.submodule_search_locations[0]) / "native" / "libclang.so")
    if not libraries:
        return {}
    # The wheel has the library alone. Headers such as stddef.h belong to a compiler: gcc's are
    # used.
    headers = run(["gcc", "-print-file-name=include"], advice="apt-get install gcc").strip()
    given = os.environ.get("BINDGEN_EXTRA_CLANG_ARGS", "")
    return {
        "LIBCLANG_PATH": str(libraries[0].resolve().parent),
        "BINDGEN_EXTRA_CLANG_ARGS": f"{given} -isystem {headers}".strip(),
    }
