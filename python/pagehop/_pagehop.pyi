from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

_RowIds: TypeAlias = npt.NDArray[np.uint64] | list[str]
_Warnings: TypeAlias = tuple[bool, float | None, tuple[int, int, bool] | None, int]

__all__ = [
    "BEAM_WIDTH_MAX",
    "CACHE_AUTO",
    "DIM_MAX",
    "SAMPLES_MAX",
    "SEARCH_LIST_MAX",
    "THREADS_MAX",
    "Index",
    "build",
    "compact",
    "create",
    "is_before_x86_64_v2",
    "open",
    "parse_bytes",
]

DIM_MAX: Final[int]
SAMPLES_MAX: Final[int]
SEARCH_LIST_MAX: Final[int]
BEAM_WIDTH_MAX: Final[int]
THREADS_MAX: Final[int]
CACHE_AUTO: Final[int]

def is_before_x86_64_v2() -> bool: ...

@final
class Index:
    def search(
        self,
        queries: npt.NDArray[np.float32],
        k: int,
        only: tuple[Any, ...] | None,
        recall: float | None,
        search_list: int | None,
        slack: float | None,
        beam_width: int | None,
        threads: int,
        payload: bool,
    ) -> tuple[
        bytearray,
        int,
        _Warnings | None,
        list[list[str]] | None,
        list[list[bytes | None]] | None,
    ]: ...
    def calibrate(
        self,
        queries: npt.NDArray[np.float32] | None,
        threads: int,
        *,
        progress: Callable[[str, int, int], object] | None,
    ) -> dict[str, Any] | None: ...
    def load_row_codes(
        self,
        threads: int,
        progress: Callable[[str, int, int], object] | None,
    ) -> int: ...
    def calibration(self) -> dict[str, Any] | None: ...
    def recall(
        self,
        k: int,
        samples: int,
        queries: npt.NDArray[np.float32] | None,
        *,
        recall: float | None,
        search_list: int | None,
        slack: float | None,
        threads: int,
        progress: Callable[[str, int, int], object] | None,
    ) -> tuple[dict[str, Any], bool, _Warnings | None]: ...
    def add(
        self,
        ids: _RowIds,
        vectors: npt.NDArray[np.float32],
        *,
        columns: list[Any] | None,
        payload: list[bytes | None] | None,
        threads: int,
        progress: Callable[[str, int, int], object] | None,
    ) -> tuple[int, int, int]: ...
    def update_columns(self, ids: _RowIds, columns: list[Any], payload: list[bytes | None] | None) -> int: ...
    def delete(self, ids: _RowIds) -> tuple[int, list[Any]]: ...
    def vacuum(self, *, progress: Callable[[str, int, int], object] | None) -> tuple[int, int, int]: ...
    def ids(self, first: int, count: int) -> bytearray: ...
    def text_ids(self, first: int, count: int) -> tuple[list[str], int | None]: ...
    def contains(self, ids: _RowIds) -> bool: ...
    def vectors(self, ids: _RowIds) -> bytearray: ...
    def payloads(self, ids: _RowIds) -> list[bytes | None]: ...
    def retrain(self, *, progress: Callable[[str, int, int], object] | None) -> None: ...
    def pop(self, ids: _RowIds) -> bytearray: ...
    def backup(
        self,
        target: str,
        *,
        overwrite: bool,
        progress: Callable[[str, int, int], object] | None,
    ) -> tuple[int, int]: ...
    def file(self) -> Path: ...
    def checkpoint(self) -> None: ...
    def may_change(self) -> None: ...
    def check(self) -> dict[str, int]: ...
    def info(self) -> dict[str, Any]: ...
    def rows(self) -> int: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def writable(self) -> bool: ...
    @property
    def has_text_ids(self) -> bool: ...
    @property
    def columns(self) -> dict[str, str]: ...
    @property
    def dim(self) -> int: ...

def build(
    path: str,
    source: object,
    dim: int,
    *,
    texts: list[str] | None,
    columns: list[Any] | None,
    payload: list[bytes | None] | None,
    metric: str,
    vectors: str,
    memory_bytes: int,
    threads: int,
    seed: int,
    calibrate: bool,
    overwrite: bool,
    progress: Callable[[str, int, int], object] | None,
) -> tuple[int, int]: ...
def compact(
    path: str,
    *,
    into: str | None,
    overwrite: bool,
    memory_bytes: int,
    threads: int,
    progress: Callable[[str, int, int], object] | None,
) -> tuple[int, int, int]: ...
def create(
    path: str,
    dim: int,
    *,
    id_kind: str,
    columns: list[tuple[str, str]],
    payload: bool,
    metric: str,
    vectors: str,
    seed: int,
    overwrite: bool,
) -> None: ...
def open(
    path: str,
    cache_bytes: int,
    *,
    direct: bool | None,
    write: bool,
    durability: str,
    log_bytes: int,
    auto_vacuum: float | None,
) -> Index: ...
def parse_bytes(text: str) -> int: ...
