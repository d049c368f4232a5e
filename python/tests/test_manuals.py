"""Tables of the manuals have every column of a function, and the limits that the code has."""

from __future__ import annotations

import re

import pytest

from blocks import REPOSITORY

SQL = (REPOSITORY / "postgres/sql/pagehop--0.1.0.sql").read_text()
POSTGRES = (REPOSITORY / "docs/postgres.md").read_text()
GUIDE = (REPOSITORY / "docs/guide.md").read_text()
ENGINE = "crates/pagehop-engine/src"

LIMITS = {
    ("options.rs", "DIM_MAX"): "dimensions",
    ("row_ids.rs", "TEXT_ID_BYTES_MAX"): "ids that are texts",
    ("columns/mod.rs", "COLUMNS_MAX"): "columns",
    ("columns/mod.rs", "COLUMN_NAME_MAX"): "columns",
    ("columns/tags.rs", "TAGS_MAX"): "tags",
    ("columns/tags.rs", "TAG_BYTES_MAX"): "tags",
    ("filter/mod.rs", "FILTER_DEPTH_MAX"): "parts of a condition inside of others",
    ("options.rs", "SEARCH_LIST_MAX"): "`k`, `search_list`",
    ("options.rs", "BEAM_WIDTH_MAX"): "`beam_width`",
    ("options.rs", "THREADS_MAX"): "`threads`",
    ("options.rs", "SAMPLES_MAX"): "`samples` of an audit",
    ("index/recall/calibrate.rs", "CALIBRATION_QUERIES_MIN"): "queries of a calibration",
    ("index/recall/calibrate.rs", "CALIBRATION_QUERIES_MAX"): "queries of a calibration",
}
"""For each constant of the engine, the line of the guide that has it."""


def columns(function: str) -> list[str]:
    """The columns of what a function returns, by the extension's script."""
    found = re.search(rf"CREATE FUNCTION {function}\((.*?)\)\s+(?:RETURNS|AS)", SQL, re.DOTALL)
    assert found, function
    return re.findall(r"OUT (\w+) ", found[1])


def described(function: str) -> list[str]:
    """The columns that the manual's table for a function has."""
    tables = re.findall(r"^\| column of (.*?) \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)", POSTGRES, re.MULTILINE)
    found = [lines for title, lines in tables if f"`{function}`" in title]
    assert len(found) == 1, function
    return re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in found[0].splitlines()))


@pytest.mark.parametrize(
    "function", ["pagehop_info", "pagehop_recall", "pagehop_calibrate", "pagehop_calibration", "pagehop_check"]
)
def test_the_manual_describes_every_column(function: str) -> None:
    assert len(columns(function)) > 4
    assert described(function) == columns(function)


def test_the_guide_has_the_limits_of_the_code() -> None:
    for (path, name), what in LIMITS.items():
        code = (REPOSITORY / ENGINE / path).read_text()
        number = re.search(rf"const {name}: usize = ([\d_]+);", code)
        assert number, name
        line = re.search(rf"^\| {re.escape(what)} \| (.*) \|$", GUIDE, re.MULTILINE)
        assert line, what
        assert f"{int(number[1]):,}" in re.findall(r"[\d,]*\d", line[1]), (name, line[1])
