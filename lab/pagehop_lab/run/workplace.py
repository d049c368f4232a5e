"""A folder for all temporary things of a run: engines' folders, servers' data.

Its lock ends with the process of the run, however that ends. So the next run finds the folders of
killed runs: it ends the processes that still work there, and removes their files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from devserver.volume import unmount_within
from pagehop_lab.measure import limit, tracing

_PREFIX = "pagehop-lab-"
_UNFINISHED = ".new-"
_LOCK = "lock"
_VARIABLE = "TMPDIR"
_GRACE_S = 10.0


@contextlib.contextmanager
def workplace(say: Callable[[str], None]) -> Iterator[Path]:
    """The folder.

    This process and its children have their temporary files there. Removed afterwards.
    """
    outer, given = tempfile.gettempdir(), os.environ.get(_VARIABLE)
    clear(Path(outer), say)
    folder, lock = _made(Path(outer))
    try:
        tempfile.tempdir = os.environ[_VARIABLE] = str(folder)
        yield folder
    finally:
        tempfile.tempdir = outer
        os.environ.pop(_VARIABLE)
        if given is not None:
            os.environ[_VARIABLE] = given
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def clear(outer: Path, say: Callable[[str], None]) -> None:
    """Removes the folders that killed runs of this user left in `outer`, after their processes."""
    for file in outer.glob(f"{_PREFIX}*/{_LOCK}"):
        folder = file.parent
        # A locked folder belongs to a run, and one that cannot be opened belongs to another user.
        with contextlib.suppress(OSError), file.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.stat().st_uid != os.geteuid():
                continue
            end(_processes_in(folder))
            # Otherwise its files would be removed, but the disk space would never be free.
            unmount_within(folder)
            shutil.rmtree(folder, ignore_errors=True)
            say(f"removed {folder}, which a killed run left behind")
    for forgotten in (tracing, limit):
        for process in forgotten.processes():
            if not Path(f"/proc/{process}").exists():
                forgotten.forget(process)


def end(processes: Sequence[int]) -> None:
    """Ends processes: by SIGTERM, so that servers clean up, and by SIGKILL if they do not end."""
    for by, grace_s in [(signal.SIGTERM, _GRACE_S), (signal.SIGKILL, 1.0)]:
        for process in processes:
            with contextlib.suppress(OSError):
                os.kill(process, by)
        late = time.monotonic() + grace_s
        while any(map(_runs, processes)) and time.monotonic() < late:
            time.sleep(0.02)


def _made(outer: Path) -> tuple[Path, BinaryIO]:
    """A folder with a lock that is held; it gets its name when it has both."""
    unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=outer))
    # Servers run as another user, who creates files here, as in any folder for temporary files.
    unfinished.chmod(0o1777)
    lock = (unfinished / _LOCK).open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return unfinished.rename(outer / f"{_PREFIX}{unfinished.name.removeprefix(_UNFINISHED)}"), lock


def _processes_in(folder: Path) -> list[int]:
    """Processes whose folder for temporary files is this one, or in it."""
    place = f"{_VARIABLE}={folder}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            named = (one for one in environ.read_bytes().split(b"\0") if one == place or one.startswith(place + b"/"))
            found += [int(environ.parent.name) for _ in named]
    return found


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
