"""Running programs: their user, their environment, and the errors when they fail.

A server refuses to run as root. As root, servers and the tools that write their files run as one of
the users below; otherwise everything runs as the calling user.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from devserver.errors import DevServerError

_UNPRIVILEGED = ["postgres", "nobody"]
_LINES_SHOWN = 30


@dataclass(frozen=True)
class Owner:
    """The user that owns the files and processes of a server."""

    name: str
    uid: int
    gid: int
    is_other: bool
    """Whether this is not the calling user, so that programs must be started as another user."""

    @property
    def user(self) -> int | None:
        """With `group` and `groups`: the arguments with which `subprocess` starts a program as this
        user.
        """
        return self.uid if self.is_other else None

    @property
    def group(self) -> int | None:
        return self.gid if self.is_other else None

    @property
    def groups(self) -> list[int] | None:
        return [] if self.is_other else None

    def own(self, path: Path) -> None:
        """Gives `path` to this user, and denies access to all others."""
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.chown(path, self.uid, self.gid)


@cache
def server_owner() -> Owner:
    """The user that runs servers here."""
    if os.geteuid() != 0:
        own = pwd.getpwuid(os.geteuid())
        return Owner(own.pw_name, own.pw_uid, own.pw_gid, is_other=False)
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    for name in _UNPRIVILEGED:
        if name in known:
            return Owner(name, known[name].pw_uid, known[name].pw_gid, is_other=True)
    raise DevServerError(f"Postgres does not run as root, and no user {' or '.join(_UNPRIVILEGED)} exists: make one")


def environment(**more: str) -> dict[str, str]:
    """The caller's environment with `more`, and without variables that redirect Postgres programs.

    It has no variable for backtraces of Rust: a server would add one to each error of the
    extension, which users do not see.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG") or name.startswith("PGRX_")}
    kept.pop("RUST_BACKTRACE", None)
    return kept | more


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    owner: Owner | None = None,
    stdin: str | None = None,
    advice: str = "",
    limit_s: float | None = None,
) -> str:
    """Runs a program. Returns its standard output.

    If it fails, raises DevServerError with the end of its error output and `advice`; if it takes
    longer than `limit_s`, it is ended, and raises DevServerError, too.
    """
    try:
        done = subprocess.run(
            list(map(str, command)),
            cwd=cwd,
            env=environment() if env is None else env,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            user=owner.user if owner else None,
            group=owner.group if owner else None,
            extra_groups=owner.groups if owner else None,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        raise DevServerError(f"{command[0]} hung: it did not end in {limit_s} s") from None
    except PermissionError:
        raise _unreachable(Path(command[0]), owner) from None
    except FileNotFoundError:
        raise DevServerError(f"{command[0]} is missing{f': {advice}' if advice else ''}") from None
    if done.returncode != 0:
        said = last_lines(done.stderr.strip() or done.stdout.strip())
        shown = " ".join(map(str, command))
        raise DevServerError("\n".join(filter(None, [shown, f"ended with {done.returncode}: {said}", advice])))
    return done.stdout


def serve(command: Sequence[str | Path], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """Starts a server in `folder`, as its owner; its output is appended to `log`."""
    owner = server_owner()
    with log.open("ab") as said:
        return subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            # Only the code that started the server handles Ctrl-C.
            start_new_session=True,
            user=owner.user,
            group=owner.group,
            extra_groups=owner.groups,
        )


def _unreachable(program: Path, owner: Owner | None) -> DevServerError:
    who = owner.name if owner else pwd.getpwuid(os.geteuid()).pw_name
    return DevServerError(
        f"user {who}, as which Postgres runs here, cannot run {program}: every folder on the way must be open to it "
        "(chmod o+rx), or work as another user than root"
    )


def last_lines(text: str, count: int = _LINES_SHOWN) -> str:
    """The end of a long text, which usually has the reason."""
    return "\n".join(text.splitlines()[-count:])


def children(parent: int) -> list[int]:
    """The processes that a process started, and that run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        state = _stat(stat)
        if state and int(state[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def stopped(process: int) -> bool:
    """Whether a process is stopped or has ended. After SIGSTOP this takes a moment."""
    state = _stat(Path(f"/proc/{process}/stat"))
    return state is None or state[0] in "TZ"


def ended(process: int) -> bool:
    """Whether a process has ended. A zombie has ended, too: only its parent has not noticed."""
    state = _stat(Path(f"/proc/{process}/stat"))
    return state is None or state[0] == "Z"


def _stat(file: Path) -> list[str] | None:
    """The fields of proc(5) from the third, the state, on; None if the process has ended."""
    try:
        return file.read_text().rpartition(")")[2].split()
    except OSError:
        return None
