"""The engines that are compared: one file each, the same few methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Found:
    """What a search gave, and what it read where the engine says."""

    ids: Int64
    pages_per_query: float | None = None
    missed_per_query: float | None = None


class Engine(Protocol):
    """An engine with its settings. `effort` is the setting that trades speed for recall."""

    @property
    def name(self) -> str:
        """The engine and the settings that do not change."""

    @property
    def effort_name(self) -> str:
        """The engine's own word for effort."""

    def build(self, base: Float32, threads: int) -> None:
        """Builds an index over `base` and makes it ready to search."""

    def search(self, queries: Float32, k: int, effort: int, threads: int) -> Found:
        """Answers all `queries` in one call."""
