"""The times and the money of docs/scale.md follow from its formula, and that from decision 0022."""

from __future__ import annotations

import math
import re

import pytest

from blocks import REPOSITORY

PAGE = (REPOSITORY / "docs/scale.md").read_text()
DECISION = (REPOSITORY / "docs/decisions/0022-build-out-of-memory.md").read_text()
CORES, CORE_HOUR, GIB_HOUR = 16, 0.04, 0.005


def measured() -> dict[int, list[str]]:
    """The cells of the two builds in decision 0022, by rows: seconds, CPU us a row and so on."""
    rows = re.findall(r"^\| ([\d,]+), in (?:memory|partitions) \| (.*) \|$", DECISION, re.MULTILINE)
    return {int(count.replace(",", "")): cells.split(" | ") for count, cells in rows}


def cpu_us(rows: int) -> float:
    """CPU microseconds a row of a build."""
    return float(measured()[rows][1])


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
    growth = cpu_us(10_000_000) / cpu_us(1_000_000)
    assert formula() == (cpu_us(1_000_000), round(growth, 2))
    assert growth <= 1.3
    assert f"which is met ({growth:.2f})" in re.sub(r"\s+", " ", PAGE)


def test_ten_million_rows_are_shown_as_they_were_measured() -> None:
    seconds, cpu, anonymous, _, _, disk, index = measured()[10_000_000]
    two_cores = f"{1e7 * float(cpu) / 1e6 / 2:,.0f}"
    for said in (
        f"| CPU of a build a row | {cpu} us |",
        f"| seconds of a build, two cores | {seconds} | {two_cores} if both cores always work |",
        f"| anonymous memory of a build, GiB | {float(anonymous.replace(',', '')) / 1024:.2f} of 3 given |",
        f"| disk of the index, GB | {index} |",
        f"| disk of the build, GB | {disk} |",
    ):
        assert said in PAGE
    pages = re.search(r"Pages at exactly \.95 grow from ([\d.]+) to ([\d.]+), ([\d.]+) times", DECISION)
    assert pages
    assert f"| pages of a query at recall .95 | {pages[2]} |" in PAGE
    assert f"at .95: {float(pages[1]):.0f} at a million rows, {float(pages[2]) - float(pages[1]):.0f} more" in PAGE
    assert f"missed: {pages[3]} times" in PAGE


@pytest.mark.parametrize("rows", [1e6, 1e7, 1e8, 1e9])
def test_pages_and_queries_are_those_of_the_formula(rows: float) -> None:
    found = re.search(r"at \.95: (\d+) at a million rows, (\d+) more", PAGE)
    assert found
    pages = float(found[1]) + float(found[2]) * math.log10(rows / 1e6)
    said = table("What that comes to")[rows]
    assert said[3] == f"{pages:.0f}"
    assert said[4] == f"{round(1e5 / pages, -2):,.0f}"


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
