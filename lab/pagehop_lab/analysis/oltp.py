"""The 42 OLTP microbenchmarks: names, groups, and the order in which they are run."""

from __future__ import annotations

from dataclasses import dataclass

GROUPS = ("point-1", "point-2", "range-1", "range-2", "writes")


@dataclass(frozen=True)
class Case:
    """One test of one table."""

    name: str
    """As published tables have it: with `.pre` if it runs before anything was written, and with its range."""
    group: str
    script: str
    """What sysbench is told to do."""
    range: int
    """Rows that one query is about, where that means anything."""
    writes: bool = False
    changes_keys: bool = False
    """Whether rows come or go, so that it must be among the last."""

    @property
    def first(self) -> bool:
        """Whether it wants a table to which nothing was written since it was loaded."""
        return ".pre_" in self.name


def _case(group: str, script: str, length: int = 100, *, pre: bool = False, writes: bool = False) -> Case:
    name = f"{script}{'.pre' if pre else ''}_range={length}"
    return Case(name, group, script, length, writes, script in ("delete", "insert"))


def _twice() -> list[tuple[str, str, int]]:
    """Reads that run before the writes and after them."""
    kinds = [f"{covered}-{key}" for covered in ("covered", "notcovered") for key in ("pk", "si")]
    return [
        ("point-1", "point-query", 100),
        *(("point-1", f"points-{kind}", 100) for kind in kinds),
        *(("point-2", "random-points", length) for length in (10, 100, 1000)),
        *(("range-1", f"range-{kind}", 100) for kind in kinds),
        *(("range-2", "read-only", length) for length in (10, 100, 10000)),
    ]


_WRITES = [
    *((name, 100) for name in ("update-inlist", "update-index", "update-nonindex", "update-one", "update-zipf")),
    ("write-only", 10000), ("read-write", 100), ("read-write", 10),
]  # fmt: skip

CASES: tuple[Case, ...] = (
    *(_case(group, script, length, pre=True) for group, script, length in _twice()),
    *(_case("writes", script, length, writes=True) for script, length in _WRITES),
    _case("point-1", "hot-points"),
    *(_case(group, script, length) for group, script, length in _twice()),
    _case("range-2", "scan"),
    _case("writes", "delete", writes=True),
    _case("writes", "insert", writes=True),
)
"""In the order in which they are run."""

BY_NAME = {case.name: case for case in CASES}
