"""Options that several calls take, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pagehop import _pagehop
from pagehop.arrays import as_count, as_number, as_recall
from pagehop.errors import ArgumentError

Progress: TypeAlias = Callable[[str, int, int], object]


def check_search(k: Any, recall: Any, search_list: Any, slack: Any, beam_width: Any, threads: Any) -> None:
    """Names the first argument that has a wrong type or cannot be a number of its kind."""
    as_count("k", k, 1, _pagehop.SEARCH_LIST_MAX)
    if recall is not None:
        as_recall(recall)
    if search_list is not None:
        as_count("search_list", search_list, 1, _pagehop.SEARCH_LIST_MAX)
    if slack is not None:
        as_number("slack", slack)
    if beam_width is not None:
        as_count("beam_width", beam_width, 1, _pagehop.BEAM_WIDTH_MAX)
    as_count("threads", threads, 0, _pagehop.THREADS_MAX)


def check_progress(progress: object) -> None:
    """Refuses a progress callback that cannot be called."""
    if progress is not None and not callable(progress):
        raise ArgumentError(f"progress is {progress!r}, it must be callable")


def as_payload(payload: Any, rows: int | None) -> list[bytes | None] | None:
    """`payload` as bytes or None for each row; their number must be `rows`, unless that is None."""
    if payload is None:
        return None
    if isinstance(payload, (bytes, bytearray, memoryview)):
        payload = [payload]
    if isinstance(payload, str):
        raise ArgumentError("payload is text, it must be bytes, or a list with bytes or None for each row")
    try:
        given = list(payload)
    except TypeError:
        what = f"payload is {type(payload).__name__}, it must be a list with bytes or None for each row"
        raise ArgumentError(what) from None
    for at, value in enumerate(given):
        if value is not None and not isinstance(value, (bytes, bytearray, memoryview)):
            raise ArgumentError(f"payload[{at}] is {type(value).__name__}, it must be bytes or None")
    if rows is not None and len(given) != rows:
        raise ArgumentError(f"there are {rows} ids and {len(given)} payloads")
    return [None if value is None else bytes(value) for value in given]
