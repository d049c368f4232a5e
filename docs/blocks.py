"""Fenced blocks of a document, for the tests that run them.

A block of `text` after a block of code is the expected output of the code. The output agrees if all
words are the same. Numbers with a point may differ by one part in a thousand, or by 0.002 near
zero, because CPUs round differently. `...` at the end of a line stands for the rest of the line.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
EXECUTED = ["README.md", "docs/guide.md", "docs/texts.md"]
"""Documents in which every block is run."""

RELATIVE_MAX = 1e-3
ABSOLUTE_MAX = 2e-3


@dataclass(frozen=True)
class Block:
    """A block of code with the output that the document shows, if it shows one."""

    language: str
    code: str
    shown: str | None
    line: int


def blocks(document: str) -> list[Block]:
    """All blocks of code of a document, in order.

    Raises AssertionError if a block has two outputs.
    """
    text = (REPOSITORY / document).read_text()
    found: list[Block] = []
    for fence in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, fence.start()) + 1
        if fence[1] == "text":
            code = found.pop()
            assert code.shown is None, f"{document}:{line}: two outputs of one block"
            found.append(Block(code.language, code.code, fence[2], code.line))
        else:
            found.append(Block(fence[1], fence[2], None, line))
    return found


def agrees(shown: str, printed: str) -> bool:
    """Whether the output that a document shows agrees with the printed one."""
    lines = (shown.strip().splitlines(), printed.strip().splitlines())
    return len(lines[0]) == len(lines[1]) and all(_same_line(*pair) for pair in zip(*lines, strict=True))


def _same_line(shown: str, printed: str) -> bool:
    left, right = (re.sub(r"\[\s+", "[", line).split() for line in (shown, printed))
    if left and left[-1] == "...":
        left = left[:-1]
        right = right[: len(left)]
    return len(left) == len(right) and all(_same_word(*pair) for pair in zip(left, right, strict=True))


def _same_word(shown: str, printed: str) -> bool:
    if shown == printed:
        return True
    left, right = _number(shown), _number(printed)
    if left is None or right is None:
        return False
    return math.isclose(left, right, rel_tol=RELATIVE_MAX, abs_tol=ABSOLUTE_MAX)


def _number(word: str) -> float | None:
    """The value of a number with a point; None for other words. Whole numbers, such as ids and
    counts, must be equal as words.
    """
    bare = word.strip("[](),;")
    return float(bare) if re.fullmatch(r"-?\d*\.\d*(e-?\d+)?", bare) and any(map(str.isdigit, bare)) else None
