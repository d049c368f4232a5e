"""The times and the money of docs/scale.md follow from its formula, and that from decision 0022."""

from __future__ import annotations

import math
import re

import pytest

from blocks import REPOSITORY

PAGE = (REPOSITORY / "docs/scale.md").read_text()
DECISION = (REPOSITORY / "docs/decisions/0022-build-out-of-memory.md").read_text()
CORES, CORE_HOUR, GIB_HOUR = 16, 0.04, 0.005


def measured() -> tuple[float, float]:
    """CPU microseconds a row of the builds of one million and of five million rows."""
    text = re.sub(r"\s+", " ", DECISION)
    found = re.search(r"CPU time a row is (\d+) us; an earlier build of a million rows took (\d+),", text)
    assert found
    return float(found[2]), float(found[1])


def formula() -> tuple[float, float]:
    """CPU microseconds a row at a million rows, and the factor for ten times the rows."""
    found = re.search(r"`n` times ([\d.]+) ms times ([\d.]+)\^log10\(`n` / 1,000,000\)", PAGE)
    assert found
    return 1e3 * float(found[1]), float(found[2])


def build_s(rows: float) -> float:
    """Seconds of a build on all cores."""
    at_a_million, factor = formula()
    return rows * at_a_million * 1e-6 * math.pow(factor, math.log10(rows / 1e6)) / CORES


def table(section: str) -> dict[float, list[str]]:
    """The cells of the lines of a section by their first cell, where that is a number of rows."""
    lines = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {float(row[0].replace(",", "")): row[1:] for row in cells if row[0].replace(",", "").isdigit()}


def test_the_growth_of_cpu_time_is_that_of_the_decision() -> None:
    million, five_million = measured()
    for_five = five_million / million
    for_ten = for_five ** (1 / math.log10(5))
    assert formula() == (million, round(for_ten, 2))
    assert f"{for_five:.2f} times as much for five times the rows, so {for_ten:.2f} times" in re.sub(r"\s+", " ", PAGE)
    assert ("the target is missed" in PAGE) == (for_ten > 1.3)


def test_five_million_rows_are_shown_as_they_were_measured() -> None:
    row = next(line for line in DECISION.splitlines() if line.startswith("| 0.95 | .954 |"))
    pages = row.split("|")[4].strip()
    assert f"| pages of a query at recall .954 | {pages} |" in PAGE
    assert f"| CPU of a build a row | {measured()[1]:.0f} us |" in PAGE
    for said, known in (("1.5 of 2", "1.5 GiB of anonymous memory"), ("13.7", "the index of 13.7 GB"), ("91 ms",) * 2):
        assert f"| {said}" in PAGE
        assert known in re.sub(r"\s+", " ", DECISION)


@pytest.mark.parametrize("rows", [1e6, 1e7, 1e8, 1e9])
def test_the_time_of_a_build_is_that_of_the_formula(rows: float) -> None:
    said = table("What that comes to")[rows][2]
    seconds = {"s": 1, "min": 60, "h": 3600}[said.split()[1]]
    assert said.split()[0] == f"{build_s(rows) / seconds:.0f}"


@pytest.mark.parametrize("rows", [1e7, 1e8, 1e9])
def test_the_price_of_a_build_is_that_of_its_cores_and_memory(rows: float) -> None:
    hours = build_s(rows) / 3600
    gib = float(table("What that comes to")[rows][1].split()[0])
    price = hours * (CORES * CORE_HOUR + gib * GIB_HOUR)
    said = table("Money")[rows][2]
    assert said == (f"${price:.2f}" if price < 10 else f"${price:.0f}")
