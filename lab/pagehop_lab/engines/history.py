"""The commit from which an engine was made. It is part of its version: one release has many
commits.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PAGEHOP = ("crates", "python")
EXTENSION = ("crates", "postgres")
LAB = ("lab", "servers")


def commit(*folders: str) -> str | None:
    """The commit of this environment or of the repository, with `+` if one of these folders has
    uncommitted changes; None in a copy without its history.
    """
    made_from = Path(sys.prefix, "commit")
    if made_from.exists():
        return made_from.read_text().strip()

    def git(*arguments: str) -> str:
        here = ["git", "-C", str(Path(__file__).parent)]
        return subprocess.run([*here, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", *(f":/{folder}" for folder in folders))
        return git("rev-parse", "--short=7", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def at_commit(version: str, *folders: str) -> str:
    """A version with its commit, if it is known."""
    found = commit(*folders)
    return f"{version} at {found}" if found else version
