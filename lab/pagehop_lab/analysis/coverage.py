"""Grid coverage: every configured point is there, or has failed with a reason.

A table that silently lacks some values of a setting looks like any other table. So the values
themselves are compared, too: a value that no point has is the most important gap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pagehop_lab.analysis.points import OptionValue


@dataclass(frozen=True)
class Cell:
    """A point of the plan."""

    name: str
    """Unique in its grid."""
    engine: str
    options: tuple[tuple[str, OptionValue], ...]
    """Build and search options, and the load."""


@dataclass(frozen=True)
class Coverage:
    """Which cells of a grid were measured."""

    configured_count: int
    present_count: int
    failed: Mapping[str, str]
    """Cells that failed, with the reason."""
    missing: tuple[Cell, ...]
    """Cells without a result."""
    lost: Mapping[str, Mapping[str, tuple[OptionValue, ...]]]
    """For each engine, the values of each option that no present or failed cell has."""
    told: Mapping[str, str] = field(default_factory=dict)
    """The failures as lines of text; failures with the same reason share a line."""

    @property
    def complete(self) -> bool:
        """Whether every missing cell has a reason."""
        return not self.missing


def coverage(grid: Sequence[Cell], present: Collection[str], failed: Mapping[str, str]) -> Coverage:
    """Compares a grid with the names of what was measured and of what failed."""
    known = set(present) | set(failed)
    missing = tuple(cell for cell in grid if cell.name not in known)
    seen = _values(cell for cell in grid if cell.name in known)
    lost: dict[str, dict[str, tuple[OptionValue, ...]]] = {}
    for (engine, option), values in _values(grid).items():
        gone = tuple(value for value in values if value not in seen.get((engine, option), []))
        if gone:
            lost.setdefault(engine, {})[option] = gone
    present_count = sum(cell.name in present for cell in grid)
    reasons = {cell.name: failed[cell.name] for cell in grid if cell.name in failed and cell.name not in present}
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    told = {
        names[0] if len(names) == 1 else f"{len(names)} points, such as {names[0]}": reason
        for reason, names in by_reason.items()
    }
    return Coverage(len(grid), present_count, reasons, missing, lost, told)


def _values(cells: Iterable[Cell]) -> dict[tuple[str, str], list[OptionValue]]:
    """The values of every option of every engine, in the order in which they come."""
    values: dict[tuple[str, str], list[OptionValue]] = {}
    for cell in cells:
        for option, value in cell.options:
            known = values.setdefault((cell.engine, option), [])
            if value not in known:
                known.append(value)
    return values
