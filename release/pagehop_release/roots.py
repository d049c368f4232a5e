"""Empty Debians in folders, for trying packages.

`debootstrap` makes one of each release, once; every try has its own copy. A script in a copy has
its own process numbers and mounts, and no network unless it needs it. All its processes end with
it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devserver.debian import address
from devserver.errors import DevServerError
from devserver.folder import REPOSITORY, made_once
from devserver.processes import last_lines, run

FOLDER = REPOSITORY / ".release"

# The environment of every program in a root, in place of the machine's own variables.
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
}
_PROXIES = ("http_proxy", "https_proxy", "no_proxy")
_FAKE_MOUNTS = "mount -t proc proc /proc && mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /run"


@dataclass(frozen=True)
class Root:
    """A Debian in a folder."""

    path: Path

    def run(self, script: str, *, network: bool = False, readonly: str = "") -> str:
        """Runs a shell script as root in this Debian. Returns its standard output.

        `readonly` is a path in the root to mount read-only. Every process that the script starts
        ends with it. DevServerError if the script fails.
        """
        mounts = _FAKE_MOUNTS + (
            f" && mount --bind {readonly} {readonly} && mount -o remount,bind,ro {readonly}" if readonly else ""
        )
        spaces = ["--mount", "--pid", "--fork", "--kill-child", *([] if network else ["--net"])]
        command = ["unshare", *spaces, f"--root={self.path}", "--wd=/root", "/bin/sh", "-ec", f"{mounts}\n{script}"]
        environment = _ENVIRONMENT | {name: os.environ[name] for name in _PROXIES if network and name in os.environ}
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = last_lines(f"{done.stdout}\n{done.stderr}".strip())
            raise DevServerError(f"in {self.path}:\n{script}\nended with {done.returncode}: {said}")
        return done.stdout

    def install(self, packages: Sequence[str]) -> None:
        """Installs packages of Debian, or package files by their paths in the root."""
        apt = "DEBIAN_FRONTEND=noninteractive apt-get -qq"
        self.run(f"{apt} update && {apt} install -y --no-install-recommends {' '.join(packages)}", network=True)

    def bring(self, file: Path) -> str:
        """Copies a file into the root. Returns its path there."""
        shutil.copy(file, self.path / "root" / file.name)
        return f"/root/{file.name}"


@contextmanager
def debian(suite: str) -> Iterator[Root]:
    """A copy of an empty Debian. It is removed at the end."""
    if os.geteuid() != 0:
        raise DevServerError("trying a package in an empty Debian needs root, for chroot; or leave it out")
    whole = made_once(FOLDER / f"root-{suite}", f"minbase {suite} 1", lambda folder: _bootstrap(suite, folder))
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=f"try-{suite}-") as folder:
        run(["cp", "-a", "--reflink=auto", f"{whole}/.", folder])
        _set_apt(Path(folder) / "etc/apt/apt.conf.d/99try")
        yield Root(Path(folder))


def _set_apt(file: Path) -> None:
    """Lets apt fetch as root, and accept package lists of the age that this machine's apt accepts:
    apt's defaults refuse the lists of a mirror that is no longer updated.
    """
    ages = [run(["apt-config", "dump", name]) for name in ["Acquire::Check-Valid-Until", "Acquire::Check-Date"]]
    file.write_text("".join(['APT::Sandbox::User "root";\n', *ages]))


def _bootstrap(suite: str, folder: Path) -> None:
    # debootstrap has a script for each release that it knows; for a newer release, sid's is used.
    scripts = Path("/usr/share/debootstrap/scripts")
    script = [] if (scripts / suite).exists() else [str(scripts / "sid")]
    run(["debootstrap", "--variant=minbase", suite, folder, address(), *script], advice="apt-get install debootstrap")
    shutil.rmtree(folder / "var/cache/apt/archives", ignore_errors=True)
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    # Packages of servers start them when they are installed. Here, only the tries start them.
    refuse = folder / "usr/sbin/policy-rc.d"
    refuse.write_text("#!/bin/sh\nexit 101\n")
    refuse.chmod(0o755)
