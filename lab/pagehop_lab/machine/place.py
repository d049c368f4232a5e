"""The conditions of a measurement: its core, and the kernel's cache of files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@contextmanager
def pinned() -> Iterator[None]:
    """Keeps this thread on one core, the last one: the first is where interrupts go."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def on_one_core(server: int) -> Iterator[None]:
    """Keeps this thread, its children, and new connections of that server process on one core.

    Then neither has to wake another core.
    """
    before = os.sched_getaffinity(server)
    with pinned():
        os.sched_setaffinity(server, os.sched_getaffinity(0))
        try:
            yield
        finally:
            os.sched_setaffinity(server, before)


def drop_page_cache(path: Path) -> None:
    """Asks the kernel to drop a file from its cache."""
    with path.open("rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def forget_files() -> str | None:
    """Makes the kernel drop all files from its cache; None, or the reason why it cannot."""
    os.sync()
    try:
        _DROP_CACHES.write_text("3")
    except OSError as error:
        return f"the kernel's caches cannot be dropped ({error.strerror}): be root"
    return None
