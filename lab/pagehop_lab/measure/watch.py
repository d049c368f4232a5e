"""The most that a build takes of a disk and of memory, seen from outside.

Both are looked at several times a second, so a peak between two looks is missed. Files without a
name count as long as a process has them open: builds put rows aside in such files.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType

from pagehop_lab.analysis import records
from pagehop_lab.measure.limit import MemoryLimit

_LOOK_S = 0.2
# The unit of st_blocks, whatever the file system is.
_BLOCK_BYTES = 512


class Watch:
    """Watches a folder and the processes of a control group while its context lasts."""

    def __init__(self, folder: Path, limit: MemoryLimit) -> None:
        self._folder, self._limit, self._device = folder, limit, folder.stat().st_dev
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._disk_bytes = self._anonymous_bytes = 0

    @property
    def disk_bytes(self) -> int:
        """The most that was on disk so far."""
        return self._disk_bytes

    def told(self) -> records.BuildRecord:
        """What there was so far, for the raw measurement of a build.

        `memory_limit.peak_bytes` is the kernel's own, with its cache of files. The other two are
        the most of all looks: `anonymous_peak_bytes` is without that cache.
        """
        limit: records.MemoryLimit = {**self._limit.told(), "anonymous_peak_bytes": self._anonymous_bytes}
        return {"memory_limit": limit, "disk_peak_bytes": self._disk_bytes}

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        is_over = False
        while not is_over:
            # One more look after the end finds what the build leaves.
            is_over = self._ended.wait(_LOOK_S)
            self._disk_bytes = max(self._disk_bytes, self._on_disk())
            self._anonymous_bytes = max(self._anonymous_bytes, self._limit.anonymous_bytes())

    def _on_disk(self) -> int:
        """Bytes of the disk that the folder takes, and files without a name on the same disk that
        the processes have open.
        """
        # By number: several names, or several processes, may have one file.
        found: dict[int, int] = {}
        for place, _, names in os.walk(self._folder):
            for name in names:
                self._count(Path(place, name), found)
        for process in self._limit.inside():
            with contextlib.suppress(OSError):
                for opened in Path(f"/proc/{process}/fd").iterdir():
                    self._count(opened, found, only_unnamed=True)
        return sum(found.values())

    def _count(self, path: Path, found: dict[int, int], *, only_unnamed: bool = False) -> None:
        # A file may go, and a process may end, while this looks.
        with contextlib.suppress(OSError):
            about = path.stat()
            if about.st_dev == self._device and not (only_unnamed and about.st_nlink):
                found[about.st_ino] = about.st_blocks * _BLOCK_BYTES
