"""Exceptions and warnings. Every exception of this package is an `Error`."""

from __future__ import annotations


class Error(Exception):
    """Any failure of an index operation. What the operation was to change is then unchanged.

    There are two exceptions. What a vacuum did before it failed or was stopped stays done. And if
    the system cannot say whether a change reached the disk (`IoError`, after a sync that failed),
    nothing more can be changed until the index is opened again, which shows whether it did.
    """


class CorruptIndexError(Error):
    """The bytes of a page contradict the format, the checksum, or another page."""

    def __init__(self, message: str, page: int) -> None:
        super().__init__(message)
        self.page = page


class FormatError(Error):
    """Not an index, or an index of a version that this package does not read."""


class DimensionError(Error, ValueError):
    """A vector has another length than the index."""

    def __init__(self, message: str, expected: int, got: int) -> None:
        super().__init__(message)
        self.expected = expected
        self.got = got


class ArgumentError(Error, ValueError):
    """An argument is outside what the operation accepts."""


class OutOfMemoryError(Error, MemoryError):
    """A build needs more than its `memory`, or the system refuses memory for a search or a check.

    `needed_bytes` is what a build or a check needs in all, and what was refused to a search.
    """

    def __init__(self, message: str, needed_bytes: int) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes


class BusyError(Error):
    """Another process or thread is writing the index, or changed it several times during the call.

    The same call may succeed later.
    """


class FullError(Error):
    """A limit is reached: of the index, of one change, of the cache, or the space on the disk.

    `errno` is the system's number for a full disk, otherwise None.
    """

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno


class ForkedError(Error):
    """The index was opened for writing before this process was forked; open it again here."""


class IoError(Error, OSError):
    """The operating system refused an operation. `errno` is its number for the reason, or None."""

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno


class Interrupted(Error):  # noqa: N818
    """The progress callback asked to stop."""


class RecallWarning(UserWarning):
    """Searches may find less than their recall.

    The index was never calibrated, the calibration did not reach it, many rows changed since, or an
    audit found less.
    """
