"""The extension's sources for PGXN: a zip with META.json and a Makefile at its root."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from devserver import Server, install
from devserver.errors import DevServerError
from devserver.extension import libclang
from devserver.folder import REPOSITORY
from devserver.processes import environment, run
from pagehop_release import versions

# Everything that cargo reads of the workspace to compile the extension, and the documents.
_PARTS = ("Cargo.lock", "Cargo.toml", "crates", "lab/loadgen", "postgres", "python")
_READ = ("CHANGELOG.md", "LICENSE", "README.md", "docs/install.md", "docs/postgres.md")
_GOALS = "all install installcheck uninstall clean"
_MAKEFILE = f"# The extension's own Makefile is in postgres.\n.PHONY: {_GOALS}\n{_GOALS}:\n\t$(MAKE) -C postgres $@\n"


def build(dist: Path) -> Path:
    """Packs the committed sources into `dist`. The same commit gives the same bytes."""
    name = f"pagehop-{versions.current(REPOSITORY)}"
    dist.mkdir(exist_ok=True)
    packed = dist / f"{name}.zip"
    archive: list[str | Path] = ["git", "archive", "--format=zip", f"--prefix={name}/", f"--output={packed}"]
    added = ["--add-file=postgres/META.json", f"--add-virtual-file={name}/Makefile:{_MAKEFILE}"]
    run([*archive, *added, "HEAD", *_PARTS, *_READ], cwd=REPOSITORY, advice="git 2.38 or newer")
    return packed


def tried(packed: Path) -> str:
    """Compiles the extension from the packed sources, and installs it into an empty folder."""
    server = install()
    with tempfile.TemporaryDirectory() as scratch:
        run(["unzip", "-q", packed, "-d", scratch], advice="apt-get install unzip")
        targets = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target").absolute() / "pgxn"
        variables = environment(CARGO_TARGET_DIR=str(targets), DESTDIR=f"{scratch}/installed") | libclang()
        folder = Path(scratch) / packed.stem
        for goal in ["all", "install"]:
            run(["make", "--no-print-directory", goal, f"PG_CONFIG={server.pg_config}"], cwd=folder, env=variables)
        _complete(Path(scratch) / "installed", server)
    return f"{packed.name} compiles and installs for PostgreSQL {server.major}"


def _complete(root: Path, server: Server) -> None:
    there = {file.name for file in root.rglob("*")}
    missing = {"pagehop.so", "pagehop.control", f"pagehop--{versions.current(REPOSITORY)}.sql"} - there
    if missing:
        raise DevServerError(f"make install for {server.pg_config} left out {', '.join(sorted(missing))}")
