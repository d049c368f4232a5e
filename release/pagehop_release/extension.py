"""The PostgreSQL extension, compiled with the headers of Debian's own server packages.

The headers are those of the target's architecture. `zig` links against an old C library, so the
result also runs on older Debians.
"""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from devserver.debian import apt_get
from devserver.errors import DevServerError
from devserver.extension import CRATE, libclang
from devserver.folder import made_once
from devserver.processes import run
from pagehop_release.roots import FOLDER
from pagehop_release.targets import Target
from pagehop_release.wheels import build_environment

GLIBC = "2.28"
"""The C library of Debian 10. All supported servers have at least this version."""


@dataclass(frozen=True)
class Major:
    """A major version of PostgreSQL."""

    number: int
    suite: str
    """The release of Debian that has this server."""

    @property
    def library_folder(self) -> Path:
        """The folder from which Debian's server loads libraries, relative to the root."""
        return Path(f"usr/lib/postgresql/{self.number}/lib")

    @property
    def extension_folder(self) -> Path:
        return Path(f"usr/share/postgresql/{self.number}/extension")


MAJORS = (Major(17, "trixie"), Major(18, "forky"))


def compiled(major: Major, target: Target) -> Path:
    """The library of the extension, without symbols. The first time takes three minutes."""
    headers = made_once(
        FOLDER / f"headers-{major.number}-{target.debian}",
        f"postgresql-server-dev-{major.number} of {major.suite}",
        lambda folder: _unpack(major, target, folder),
    )
    targets = f"debs/{major.number}"
    variables = build_environment(targets) | libclang()
    variables |= {"PGRX_PG_CONFIG_PATH": str(_pg_config(major, headers)), "CARGO_PROFILE_RELEASE_STRIP": "symbols"}
    build = ["cargo-zigbuild", "zigbuild", "--release", "--quiet", "--locked", "--target", f"{target.rust}.{GLIBC}"]
    run([*build, "--no-default-features", "--features", f"pg{major.number}"], cwd=CRATE, env=variables)
    return Path(variables["CARGO_TARGET_DIR"]) / target.rust / "release/libpagehop.so"


def _unpack(major: Major, target: Target, folder: Path) -> None:
    apt = apt_get("deb", major.suite, folder, target.debian)
    package = f"postgresql-server-dev-{major.number}"
    run([*apt, "download", package], cwd=folder, advice=f"it should be in Debian {major.suite}")
    [file] = folder.glob("*.deb")
    run(["dpkg-deb", "--extract", file, folder])
    for scratch in ["lists", "cache"]:
        shutil.rmtree(folder / scratch)


def _pg_config(major: Major, headers: Path) -> Path:
    """A script in place of pg_config that prints the folders of the unpacked headers: Debian's own
    is a program for one architecture.
    """
    usr = headers / "usr"
    server = usr / f"include/postgresql/{major.number}/server"
    answers = {
        "--version": f"PostgreSQL {_version(server / 'pg_config.h')}",
        "--bindir": usr / f"lib/postgresql/{major.number}/bin",
        "--includedir": usr / "include/postgresql",
        "--pkgincludedir": usr / "include/postgresql",
        "--includedir-server": server,
        "--libdir": usr / "lib",
        "--pkglibdir": usr / f"lib/postgresql/{major.number}/lib",
        "--sharedir": usr / f"share/postgresql/{major.number}",
        "--cppflags": "-D_GNU_SOURCE",
        "--configure": "",
    }
    cases = "".join(f"{option}) echo {shlex.quote(str(answer))} ;;\n" for option, answer in answers.items())
    script = f'#!/bin/sh\nfor option; do case $option in\n{cases}*) echo "no $option" >&2; exit 1 ;;\nesac; done\n'
    program = headers / "pg_config"
    program.write_text(script)
    program.chmod(0o755)
    return program


def _version(header: Path) -> str:
    for line in header.read_text().splitlines():
        if line.startswith("#define PG_VERSION "):
            return line.split('"')[1]
    raise DevServerError(f"{header} does not say of which PostgreSQL it is")
