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
    """Number of rows that one query covers, if the test has such a range."""
    writes: bool = False
    changes_keys: bool = False
    """Whether the test inserts or deletes rows, so that it must be among the last."""

    @property
    def first(self) -> bool:
        """Whether the test needs a table that was not written to since it was loaded."""
        return ".pre_" in self.name
