"""A Debian of another architecture, whose programs an emulator runs one by one.

Its packages are unpacked but not configured, because that would run their scripts. A program that
starts other programs fails: only a kernel with the emulator registered could run those.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devserver.errors import DevServerError
from devserver.processes import last_lines, run
from devserver.tree import unpacked
from pagehop_release.roots import FOLDER
from pagehop_release.targets import Target


@dataclass(frozen=True)
class ForeignRoot:
    """An unpacked Debian of another architecture."""

    path: Path
    target: Target

    def run(self, program: str, arguments: Sequence[str], **variables: str) -> str:
        """Runs one program of the root by the emulator, without the network. Returns its standard
        output.
        """
        spaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", f"--root={self.path}", "--wd=/root"]
        environment = {"HOME": "/root", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin"} | variables
        command = [*spaces, self.target.emulator, program, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = last_lines(f"{done.stdout}\n{done.stderr}".strip())
            raise DevServerError(f"{program} {' '.join(arguments)} in {self.path} ended with {done.returncode}: {said}")
        return done.stdout


@contextmanager
def root(target: Target, suite: str, packages: Sequence[str]) -> Iterator[ForeignRoot]:
    """A copy of a Debian with `packages` and their dependencies. It is removed at the end."""
    if not Path(target.emulator).exists():
        raise DevServerError(f"{target.emulator} is missing: apt-get install qemu-user-static")
    whole = unpacked(FOLDER / f"{target.name}-{suite}", suite, packages, target.debian)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=f"try-{target.name}-") as folder:
        run(["cp", "-a", "--reflink=auto", f"{whole.root}/.", folder])
        made = Path(folder)
        if not (made / "lib").exists():
            # Programs expect their loader there; configuring a Debian creates this link.
            (made / "lib").symlink_to("usr/lib")
        for name in ["root", "tmp", "proc", "dev", "usr/bin"]:
            (made / name).mkdir(parents=True, exist_ok=True)
        # pip reads this file in any case. Debian's package creates it when it is configured.
        (made / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", made / "etc/ssl/certs")
        shutil.copy(target.emulator, made / target.emulator.removeprefix("/"))
        yield ForeignRoot(made, target)
