"""The cost of the Nth attribute, by the number of attributes before it and by its position."""

from __future__ import annotations

from pagehop_lab.analysis.case import Case

COUNTS = (1, 10, 100, 200, 400, 500, 750, 1000)
PROFILED = (10, 1000)

LAYOUTS = {
    "last": "x1 to xN, then y",
    "first": "y, then x1 to xN",
    "longest": "x1 to xN, then y by a name so long that it comes last where names are ordered by their length, too",
}
LONG_NAME = "y_that_comes_last_in_any_order"

MODELS = {
    "postgres": ("jsonb", "json", "columns"),
    "mariadb": ("json", "columns"),
    "mysql": ("json", "columns"),
    "ferretdb": ("bson",),
    "mongod": ("bson",),
}
"""The forms in which a product may keep a document; the first is the default."""

CASES: tuple[Case, ...] = tuple(
    Case(f"x{count}.{layout}", f"y {layout}", layout, count) for count in COUNTS for layout in LAYOUTS
)
"""`range` is the number of attributes beside y."""


def names(count: int, layout: str) -> list[str]:
    """The attributes of a document in the order in which they are written."""
    others = [f"x{number}" for number in range(1, count + 1)]
    wanted = wanted_name(layout)
    return [wanted, *others] if layout == "first" else [*others, wanted]


def wanted_name(layout: str) -> str:
    """The name of the attribute that queries read."""
    return LONG_NAME if layout == "longest" else "y"
