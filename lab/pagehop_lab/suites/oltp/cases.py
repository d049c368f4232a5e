"""The 42 OLTP microbenchmarks: names, groups, and the order in which they are run, all as
published.
"""

from __future__ import annotations

from pagehop_lab.analysis.case import Case

STATEMENTS = 2
"""The version of the statements. Those of version 1 had aggregates where the published ones return
rows.
"""
GROUPS = ("point-1", "point-2", "range-1", "range-2", "writes")


def _case(group: str, script: str, length: int = 100, *, pre: bool = False, writes: bool = False) -> Case:
    name = f"{script}{'.pre' if pre else ''}_range={length}"
    return Case(name, group, script, length, writes, script in ("delete", "insert"))


def _points(*, pre: bool = False) -> list[Case]:
    return [
        _case("point-1", "point-query", pre=pre),
        *(_case("point-2", "random-points", length, pre=pre) for length in (10, 100, 1000)),
    ]


def _transactions(*, pre: bool = False) -> list[Case]:
    return [_case("range-2", "read-only", length, pre=pre) for length in (10, 100, 10000)]


def _kinds(*, pre: bool = False) -> list[Case]:
    kinds = ("covered-pk", "notcovered-pk", "covered-si", "notcovered-si")
    return [
        *(_case("point-1", f"points-{kind}", pre=pre) for kind in kinds),
        *(_case("range-1", f"range-{kind}", pre=pre) for kind in kinds),
    ]


_WRITES = [
    *((name, 100) for name in ("update-inlist", "update-index", "update-nonindex", "update-one", "update-zipf")),
    ("write-only", 10000), ("read-write", 10), ("read-write", 100),
]  # fmt: skip

CASES: tuple[Case, ...] = (
    *_points(pre=True),
    *_transactions(pre=True),
    *_kinds(pre=True),
    *(_case("writes", script, length, writes=True) for script, length in _WRITES),
    *_transactions(),
    *_points(),
    _case("point-1", "hot-points"),
    *_kinds(),
    _case("range-2", "scan"),
    _case("writes", "delete", writes=True),
    _case("writes", "insert", writes=True),
)
"""In the order in which they are run, which is the published one."""

READS_ROWS = frozenset({
    "point-query", "random-points", "points-notcovered-pk", "points-notcovered-si", "range-notcovered-pk",
    "range-notcovered-si", "read-only", "scan",
})  # fmt: skip
"""Scripts that read rows anywhere in the table: of data larger than memory, some from storage."""

BY_NAME = {case.name: case for case in CASES}
