from collections.abc import Callable
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

__all__ = ["BEAM_WIDTH_MAX", "SEARCH_LIST_MAX", "Index", "build", "open", "parse_bytes"]

SEARCH_LIST_MAX: Final[int]
BEAM_WIDTH_MAX: Final[int]

@final
class Index:
    def search(
        self,
        queries: npt.NDArray[np.float32],
        ids: npt.NDArray[np.int64],
        distances: npt.NDArray[np.float32],
        counters: npt.NDArray[np.uint64],
        search_list: int | None,
        slack: float | None,
        beam_width: int | None,
        threads: int,
    ) -> None: ...
    def check(self) -> dict[str, int]: ...
    def info(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...

def build(
    path: str,
    source: object,
    dim: int,
    *,
    metric: str,
    memory_bytes: int,
    threads: int,
    seed: int,
    overwrite: bool,
    progress: Callable[[str, int, int], object] | None,
) -> tuple[int, int]: ...
def open(path: str, cache_bytes: int) -> Index: ...
def parse_bytes(text: str) -> int: ...
