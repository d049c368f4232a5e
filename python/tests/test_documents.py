"""Rules for documents: their length, their width, and links that lead to something.

`test_language.py` has the rules for their words.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blocks import REPOSITORY

README_LINES_MAX = 130
CHANGE_WORDS_MAX = 25
DECISION_WORDS_MAX = 20
COLUMNS_MAX = 100

LAB = [
    "README.md", "servers.md", "ten-minutes.md", "loadgen/README.md", "pagehop_lab/site/method.md",
    "results/README.md", "tests/golden/README.md",
]  # fmt: skip
DOCUMENTS = [
    *REPOSITORY.glob("*.md"),
    *REPOSITORY.glob("docs/**/*.md"),
    *REPOSITORY.glob("crates/*/README.md"),
    *REPOSITORY.glob("adapters/*/README.md"),
    *REPOSITORY.glob("examples/*/README.md"),
    *(REPOSITORY / "lab" / name for name in LAB),
]

LONG_PIECE = re.compile(r"`[^`]{40,}`|\]\([^)]{20,}\)")


def prose(path: Path) -> list[tuple[int, str]]:
    """Lines with their numbers, without code, tables, and parts that `./dev docs` generates."""
    lines: list[tuple[int, str]] = []
    code = made = False
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if line.startswith("```"):
            code = not code
        elif line.startswith("<!--"):
            made = line.startswith("<!-- ./dev docs")
        elif not code and not made and not line.startswith("|"):
            lines.append((number, line))
    return lines


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= README_LINES_MAX


def test_a_change_is_one_short_line_under_its_kind() -> None:
    for part in (REPOSITORY / "CHANGELOG.md").read_text().split("\n### ")[1:]:
        kind, _, changes = part.partition("\n")
        assert kind in ("Added", "Changed", "Fixed")
        for change in re.split(r"^- ", changes, flags=re.MULTILINE)[1:]:
            words = change.partition("\n\n")[0].split()
            assert len(words) <= CHANGE_WORDS_MAX, " ".join(words)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_prose_is_wrapped(path: Path) -> None:
    # A long link or piece of code cannot be broken.
    wide = [line for _, line in prose(path) if len(line) > COLUMNS_MAX and not LONG_PIECE.search(line)]
    assert wide == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_that_exist(path: Path) -> None:
    links = re.findall(r"\]\((?!http|#)([^)#]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_index_of_decisions_lists_each_of_them() -> None:
    folder = REPOSITORY / "docs" / "decisions"
    row = re.compile(r"^\| \[(\d{4})\]\((\S+)\) \| (.+?) \| (.+) \|$", re.MULTILINE)
    listed = row.findall((folder / "README.md").read_text())
    decisions = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    assert [name for _, name, _, _ in listed] == [path.name for path in decisions]
    for (number, name, title, decision), path in zip(listed, decisions, strict=True):
        assert name.startswith(number)
        assert path.read_text().partition("\n")[0] == f"# {number}: {title}"
        assert len(decision.split()) <= DECISION_WORDS_MAX, f"{name}: {decision}"
