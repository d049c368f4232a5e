"""A test of a suite of servers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One test of one table."""

    name: str
    """As published tables have it: with `.pre` if it runs before anything was written, and with its
    range.
    """
    group: str
    script: str
    """The name of the test for sysbench."""
    range: int
    """Rows that one query is about, where that means anything."""
    writes: bool = False
    changes_keys: bool = False
    """Whether rows come or go, so that it must be among the last."""

    @property
    def first(self) -> bool:
        """Whether it wants a table to which nothing was written since it was loaded."""
        return ".pre_" in self.name
