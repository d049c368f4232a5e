"""Runs every block of the executed documents except SQL, in order and without changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blocks import EXECUTED, Block, agrees, blocks

INSTALLS = ("pip install", "cargo install", "./dev")
"""Beginnings of lines whose work the tests' own set-up has done."""


@pytest.mark.parametrize("document", EXECUTED)
def test_every_block_runs_and_prints_what_the_document_shows(document: str, command_path: str, tmp_path: Path) -> None:
    for block in blocks(document):
        assert block.language in ("python", "sh", "sql"), f"{document}:{block.line}: nothing runs this block"
        if block.language == "sql" or is_install(block):
            continue
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block.code]
            if block.language == "python"
            else ["bash", "-e", "-c", block.code],
            cwd=tmp_path,
            env=os.environ | {"PATH": command_path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{document}:{block.line}: {done.stdout}"
        if block.shown is not None:
            assert agrees(block.shown, done.stdout), f"{document}:{block.line} prints\n{done.stdout}"


def is_install(block: Block) -> bool:
    lines = block.code.splitlines()
    return block.language == "sh" and all(line.startswith(INSTALLS) for line in lines)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("[ 7 9453]\n[0. 121.3]", "[   7 9453]\n[  0.  121.25]", True),
        ("[ 7 9453]", "[   7 9454]", False),
        ("[0. 121.3]", "[0. 121.9]", False),
        ("found 0.98", "found 0.98\nand more", False),
        ("built in ...", "built in 0.3 s", True),
        ("built in ...", "failed in 0.3 s", False),
    ],
)
def test_shown_output_may_only_differ_in_the_last_digits(shown: str, printed: str, same: bool) -> None:
    assert agrees(shown, printed) == same
