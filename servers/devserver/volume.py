"""A separate file system for a measurement: a file as a disk, with a given sector size and
read-ahead. Needs root. No other process reads or writes it, so the kernel's counters of its device
count only the measurement. Reads and writes of the file bypass the kernel's cache, so nothing is
cached twice.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from devserver import DevServerError
from devserver.processes import run

_BIG_BLOCK = 4096


class Volume:
    """A mounted file system. It is removed by `remove`, or at the end of the process."""

    def __init__(self, size_bytes: int, sector_bytes: int = 512) -> None:
        """DevServerError without the rights or the tools for it."""
        if os.geteuid() != 0:
            raise DevServerError("a file system of its own needs root")
        self.path = Path(tempfile.mkdtemp(prefix="pagehop-volume-"))
        self.sector_bytes = sector_bytes
        self._file = self.path.with_name(f"{self.path.name}.image")
        self._mounted = False
        atexit.register(self.remove)
        try:
            self._make(size_bytes)
        except DevServerError:
            self.remove()
            raise

    def _make(self, size_bytes: int) -> None:
        with self._file.open("wb") as file:
            file.truncate(size_bytes)
        ways = ["--find", "--show", "--direct-io=on", f"--sector-size={self.sector_bytes}"]
        self.device = Path(run(["losetup", *ways, self._file]).strip())
        try:
            # Without a journal, only data and the file system's own structures are written.
            made = ["-q", "-b", str(_BIG_BLOCK), "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard"]
            run(["mkfs.ext4", *made, self.device])
            run(["mount", "-o", "noatime", self.device, self.path])
            self._mounted = True
            self.path.chmod(0o711)
        finally:
            # The device exists until the file system is unmounted.
            run(["losetup", "--detach", self.device])

    def read_ahead(self, kib: int) -> None:
        """Sets how many KiB the kernel reads ahead in its files."""
        (Path("/sys/block") / self.device.name / "queue/read_ahead_kb").write_text(str(kib))

    def remove(self) -> None:
        """Unmounts it and removes its file."""
        atexit.unregister(self.remove)
        if self._mounted:
            run(["umount", "--lazy", self.path])
            self._mounted = False
        shutil.rmtree(self.path, ignore_errors=True)
        self._file.unlink(missing_ok=True)


def unmount_within(folder: Path) -> None:
    """Unmounts file systems that a killed process left mounted in a folder."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        # The kernel writes a space in a path as a number.
        place = line.split()[1].encode().decode("unicode_escape")
        if Path(place).is_relative_to(folder):
            subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)


def forget(folder: Path) -> None:
    """Makes the kernel drop its cache of the files in a folder, once they are written."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with contextlib.suppress(OSError), path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
