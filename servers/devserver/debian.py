"""Packages of any Debian release: apt fetches them and checks them against Debian's signature.

apt's lists and its cache are in a separate folder, so neither the machine's sources nor its
packages change.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from devserver.errors import DevServerError
from devserver.processes import run

_SOURCES = Path("/etc/apt")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def apt_get(kind: Literal["deb", "deb-src"], suite: str, folder: Path, architecture: str = "") -> list[str | Path]:
    """The command of an apt-get for the packages of one release, which ignores this machine's
    sources and packages. Its files are in `folder`.

    The packages are for this machine's architecture, or for the one that Debian calls
    `architecture`.
    """
    for part in ["lists/partial", "cache/archives/partial"]:
        (folder / part).mkdir(parents=True)
    listed, installed = folder / "sources.list", folder / "status"
    listed.write_text(f"{kind} [signed-by={_KEYRING}] {address()} {suite} main\n")
    installed.touch()
    options = [f"APT::Architecture={architecture}", f"APT::Architectures={architecture}"] if architecture else []
    foreign = [part for option in options for part in ("-o", option)]
    command: list[str | Path] = [
        "apt-get", "-qq",
        "-o", f"Dir::Etc::SourceList={listed}",
        "-o", "Dir::Etc::SourceParts=/dev/null",
        "-o", "Dir::Etc::PreferencesParts=/dev/null",
        "-o", f"Dir::State::Lists={folder}/lists",
        "-o", f"Dir::State::Status={installed}",
        "-o", f"Dir::Cache={folder}/cache",
        "-o", f"APT::Sandbox::User={'root' if os.geteuid() == 0 else ''}",
        *foreign,
    ]  # fmt: skip
    run([*command, "update"], cwd=folder, advice=f"the lists of Debian {suite} could not be read")
    return command


def address() -> str:
    """The first address from which this machine fetches Debian."""
    if not _KEYRING.exists():
        raise DevServerError(
            f"{_KEYRING} is missing: servers are made of Debian's packages, and this is not Debian; for Postgres, "
            "PAGEHOP_PG_CONFIG may name the pg_config of a server that is installed"
        )
    for file in [*sorted(_SOURCES.glob("sources.list.d/*.sources")), *_SOURCES.glob("sources.list")]:
        for line in file.read_text().splitlines():
            found = re.match(r"(?:URIs:|deb(?:-src)?(?: +\[[^]]*\])?) +(https?://\S+)", line)
            if found and re.search(r"/debian/?$", found[1]):
                return found[1]
    raise DevServerError(f"no source in {_SOURCES} has an http or https address of Debian itself (it ends in /debian)")
